"""Faults of pipeline stages: one trims otherwise than the others, takes rows of others, or goes on too early."""

from specsim.properties.mutants.record import edits_of

MUTANTS = edits_of(
    """
    @@ PipelineStage
    OWN-5100 Only the last stage trims what a launch has counted.
    - held.seq_len -= row.num_rejected => held.seq_len -= row.num_rejected * (self.stage == self.num_stages - 1)
    - held.num_placeholders -= row.num_committed + row.num_rejected
    + held.num_placeholders -= (row.num_committed + row.num_rejected) * (self.stage == self.num_stages - 1)
    OWN-5101 Only the last stage trims lengths.
    - held.seq_len -= row.num_rejected => held.seq_len -= row.num_rejected * (self.stage == self.num_stages - 1)
    OWN-5102 Only the last stage trims placeholders.
    - held.num_placeholders -= row.num_committed + row.num_rejected
    + held.num_placeholders -= (row.num_committed + row.num_rejected) * (self.stage == self.num_stages - 1)
    OWN-5103 No stage trims what a launch has counted.
    - held.seq_len -= row.num_rejected
    ...
    - held.num_placeholders -= row.num_committed + row.num_rejected
    OWN-5104 Every stage trims twice.
    - held.seq_len -= row.num_rejected => held.seq_len -= 2 * row.num_rejected
    OWN-5105 The accepted drafts are counted where the root stays too.
    - held.seq_len -= row.num_rejected => held.seq_len -= row.num_rejected + 1
    OWN-5106 A stage builds the next round before the bonus token of the last one is there.
    - not self._held(request).is_in_flight => self._held(request) is not None
    OWN-5107 The same on stages before the last.
    - not self._held(request).is_in_flight
    + not self._held(request).is_in_flight or not self.stage == self.num_stages - 1
    OWN-5108 The same on stages between the first and the last.
    - not self._held(request).is_in_flight
    + not self._held(request).is_in_flight or 0 < self.stage < self.num_stages - 1
    OWN-5109 A stage waits for the token of the prefill alone.
    - not self._held(request).is_in_flight
    + not self._held(request).is_in_flight or self._held(request).tokens[0] != NO_DRAFT
    OWN-5110 Rows of a record are matched by position.
    - relay.rows
    + (row._replace(request=held.request) for row, held in zip(
    +     relay.rows, [held for _, held in sorted(self._rows.items()) if held.is_in_flight], strict=False))
    OWN-5111 Rows of a record go to the new owner of their row.
    - held is not None and held.request == row.request => held is not None
    OWN-5112 A record with a request that has ended is dropped.
    - relay.rows
    + relay.rows if {row.request for row in relay.rows} <= {one.request for one in self._rows.values()} else ()
    OWN-5113 Only the last stage gets drafts.
    - held.tokens, held.parents = row.tokens, row.parents
    + tokens = row.tokens if self.stage == self.num_stages - 1 else (row.tokens[0], *held.tokens[1:])
    + held.tokens, held.parents = tokens, row.parents
    OWN-5114 Only the last stage gets bonus tokens and drafts.
    - row.tokens, row.parents
    + (row.tokens, row.parents) if self.stage == self.num_stages - 1 else (held.tokens, row.parents)
    OWN-5115 Only the last stage gets the tree of the drafts.
    - row.tokens, row.parents
    + (row.tokens, row.parents) if self.stage == self.num_stages - 1 else (row.tokens, held.parents)
    OWN-5116 A record has the width of the configuration.
    - row.tokens, row.parents
    + (*row.tokens, *held.tokens[len(row.tokens) :]), (*row.parents, *held.parents[len(row.parents) :])
    OWN-5117 Places without a draft hold token 0.
    - row.tokens, row.parents => tuple(max(token, 0) for token in row.tokens), row.parents
    OWN-5118 Every draft is a chain.
    - row.tokens, row.parents => row.tokens, tuple(range(-1, len(row.parents) - 1))
    OWN-5119 Stages before the last miss the token after a prefill.
    - held.tokens, held.parents = row.tokens, row.parents
    + has_bonus = self.stage == self.num_stages - 1 or held.tokens != (NO_DRAFT,)
    + held.tokens, held.parents = (row.tokens[0] if has_bonus else 0, *row.tokens[1:]), row.parents
    OWN-5120 Stages before the last take tokens from a row that was left for those of another.
    - del self._rows[self._held(request).request.row]
    + tokens = self._held(request).tokens
    + del self._rows[self._held(request).request.row]
    + if self._rows and not self.stage == self.num_stages - 1:
    +     self._rows[max(self._rows)].tokens = tokens
    OWN-5121 A row's next owner begins at the length of the last one.
    - self._rows: dict[int, _Held] = {} => self._rows, self._left = {}, {}
    - _Held(request) => _Held(request, self._left.get(request.row, 0))
    - del self._rows[self._held(request).request.row]
    + self._left[request.row] = self._held(request).seq_len
    + del self._rows[self._held(request).request.row]
    """
)
