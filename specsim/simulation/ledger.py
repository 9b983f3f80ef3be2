"""Who owns which slot and row: the books of a scheduler, and their balance."""

from collections.abc import Sequence
from itertools import pairwise

from specsim.assertion import require
from specsim.config import PoolSizes
from specsim.simulation.memory import RowAllocator, SlotAllocator
from specsim.simulation.requests import Request, SlotRange


class Ledger:
    """The free slots and rows of an engine, and what requests own of them.

    Parameters
    ----------
    allocates_ahead : bool
        V2: positions are allocated past the committed ones. V1 allocates inside an iteration, so that between two of
        them exactly the committed positions are.
    """

    def __init__(self, sizes: PoolSizes, shuffle_seed: int | None, allocates_ahead: bool) -> None:
        self.sizes = sizes
        self.allocates_ahead = allocates_ahead
        self.slots = SlotAllocator(sizes.num_slots, shuffle_seed)
        self.rows = RowAllocator(sizes.num_rows)

    def give_row(self, request: Request) -> None:
        """Give a request a row."""
        (request.row,) = self.rows.allocate(1)

    def extend(self, request: Request, end: int) -> SlotRange:
        """Give a request slots for the positions up to ``end-1``.

        Raises
        ------
        SpecRejection
            OUT_OF_SLOTS; nothing has changed.
        """
        start = len(request.slots)
        slots = self.slots.allocate(end - start)
        request.slots.extend(slots)
        return SlotRange(row=request.row, start=start, end=end, slots=tuple(slots))

    def release(self, request: Request) -> None:
        """Take a request's slots and row back."""
        self.slots.free(request.slots)
        self.rows.free([request.row])
        request.slots, request.row = [], 0

    def check(self, holders: Sequence[Request], unanswered: Sequence[Request]) -> None:
        """Raise AssertionError unless every slot and row has exactly one owner and every length its place.

        Parameters
        ----------
        holders : sequence of Request
            Those that have a row.
        unanswered : sequence of Request
            Those of them whose prefill is not resolved: they have no output token behind what is committed.
        """
        owned = sorted(slot for request in holders for slot in request.slots)
        twice = [one for one, other in pairwise(owned) if one == other]
        require(not twice, "slots with two owners", twice, "none")
        require(set(owned) == self.slots.owned_pages, "owned slots", sorted(self.slots.owned_pages), owned)
        require(0 not in owned, "slot 0", "owned", "the dump")
        total = self.slots.num_free + len(owned) + 1
        require(total == self.sizes.num_slots, "slots in all", total, self.sizes.num_slots)
        rows = sorted(request.row for request in holders)
        require(rows == sorted(self.rows.owned), "owned rows", sorted(self.rows.owned), rows)
        for request in holders:
            allocated, committed, width = len(request.slots), request.num_committed, self.sizes.row_width
            require(committed <= allocated <= width, "allocated positions", allocated, f"{committed} to {width}")
            ahead = allocated - committed
            require(self.allocates_ahead or not ahead, "positions allocated ahead", ahead, "0, as V1 has none")
            tokens = len(request.fill)
            if any(request is one for one in unanswered):
                require(tokens >= committed, "tokens of an unfinished prompt", tokens, f"at least {committed}")
            else:
                require(tokens == committed + 1, "tokens", tokens, committed + 1)
