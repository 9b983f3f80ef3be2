"""The books of an example: its slots are given, and what a worker does to them is written down."""

from specsim.counts import draft_end
from specsim.simulation.memory import SlotRange


class Books:
    """Slots of drafts and trees by request, what was freed and committed, and where the requests end."""

    def __init__(self, rows, lengths, bonus, draft_slots, windows, rules, page_size=1):
        self._rows, self._lengths, self._bonus, self._rules = rows, lengths, bonus, rules
        self._draft_slots, self._windows, self._page_size = draft_slots, windows, page_size
        self.freed, self.committed, self.truncation = [], [], None

    def borrow_draft_slots(self, topk, num_steps):
        ends = [draft_end(length, topk, num_steps, self._page_size) for length in self._lengths]
        return self._ranges(ends, self._draft_slots)

    def allocate_verify_slots(self, count):
        return self._ranges([length + count for length in self._lengths], self._windows)

    def free(self, slots):
        self.freed += slots.tolist()

    def end_requests(self, accept_index, predict, truncate_at_stop, counts_only_output=False):
        self.truncation = truncate_at_stop(
            accept_index,
            predict,
            self._rules,
            [[one] for one in self._bonus],
            self._lengths,
            chr,
            [None] * len(self._rows),
        )
        return self.truncation

    def commit(self, kept_slots, is_caught_up=False):
        self.committed = [list(slots) for slots in kept_slots]

    def _ranges(self, ends, slots):
        asked = zip(self._rows, self._lengths, ends, slots, strict=True)
        return [SlotRange(row, start, end, tuple(own[: end - start])) for row, start, end, own in asked]
