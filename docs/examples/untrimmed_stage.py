"""A pipeline stage with a mistake: only the last stage takes back what a launch has counted and a round rejected."""


class PipelineStage:
    """What a stage keeps of each request: its length, its next tokens, and whether a round of it is in flight."""

    def __init__(self, stage, num_stages):
        self.is_last = stage == num_stages - 1
        self.requests = {}

    def join(self, request):
        """A request gets its row."""
        self.requests[request] = {"seq_len": 0, "tokens": (-1,), "parents": (-1,), "in_flight": 0}

    def leave(self, request):
        """A request has ended."""
        del self.requests[request]

    def is_ready(self, request):
        """Say whether the next input of a request may be built."""
        return not self.requests[request]["in_flight"]

    def launch(self, rows):
        """Count a round as if all of it were accepted."""
        for request, num_scheduled in rows:
            self.requests[request]["seq_len"] += num_scheduled
            self.requests[request]["in_flight"] += num_scheduled

    def apply(self, relay):
        """Take the record of a round."""
        for row in relay.rows:
            if row.request in self.requests:
                kept = self.requests[row.request]
                kept.update(tokens=row.tokens, parents=row.parents, in_flight=0)
                if self.is_last:
                    kept["seq_len"] -= row.num_rejected

    def state(self, request):
        """Return what the next input is built from."""
        kept = self.requests[request]
        return State(kept["seq_len"], kept["tokens"][0], kept["tokens"][1:], kept["parents"], kept["in_flight"])


class State:
    """What the next input of a request is built from."""

    def __init__(self, seq_len, bonus_token, draft_tokens, parents, num_placeholders):
        self.seq_len, self.bonus_token = seq_len, bonus_token
        self.draft_tokens, self.parents = draft_tokens, parents
        self.num_placeholders = num_placeholders
