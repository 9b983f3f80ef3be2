"""The scheduler: admits requests, keeps their rows allocated ahead of the decode, and finishes them."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from specsim.config import PoolSizes, SpecConfig
from specsim.rejection import Reason, SpecRejection
from specsim.simulation.memory import Allocator


class FinishReason(StrEnum):
    """Why a request ended."""

    EOS = "eos"
    LENGTH = "length"


@dataclass
class Request:
    """One prompt on its way through the engine.

    ``num_committed`` counts the positions whose KV is final, ``len(slots)`` those that are allocated. Between
    iterations ``len(prompt) + len(output) == num_committed + 1``.
    """

    request_id: int
    prompt: Sequence[int]
    max_new_tokens: int
    eos_token: int | None = None
    output: list[int] = field(default_factory=list)
    row: int = 0
    slots: list[int] = field(default_factory=list)
    num_committed: int = 0
    num_verifies: int = 0
    num_accepted_drafts: int = 0
    finish_reason: FinishReason | None = None

    def append(self, tokens: Sequence[int]) -> None:
        """Append output tokens up to the first that ends the request."""
        for token in tokens:
            if self.finish_reason is not None:
                return
            self.output.append(token)
            if token == self.eos_token:
                self.finish_reason = FinishReason.EOS
            elif len(self.output) >= self.max_new_tokens:
                self.finish_reason = FinishReason.LENGTH


@dataclass(frozen=True)
class SlotRange:
    """Slots that a request received for positions ``start`` to ``end-1`` of its row."""

    row: int
    start: int
    end: int
    slots: tuple[int, ...]


class Scheduler:
    """Queues, ledger and pools of a synchronous V2 engine, page size 1."""

    def __init__(self, config: SpecConfig, sizes: PoolSizes, max_batch: int, shuffle_seed: int | None = None) -> None:
        self.config = config
        self.sizes = sizes
        self.max_batch = max_batch
        self.slots = Allocator(sizes.num_slots, "slot", shuffle_seed)
        self.rows = Allocator(sizes.num_rows, "row")
        self.waiting: deque[Request] = deque()
        self.running: list[Request] = []
        self.finished: list[Request] = []

    def submit(self, request: Request) -> None:
        """Queue a request.

        Raises
        ------
        SpecRejection
            COUNT_OUT_OF_RANGE: an empty prompt, or no token asked for; ROW_TOO_SHORT, OUT_OF_SLOTS: the request could
            never be admitted.
        """
        for what, got in (("len(prompt)", len(request.prompt)), ("max_new_tokens", request.max_new_tokens)):
            if got < 1:
                raise SpecRejection(
                    Reason.COUNT_OUT_OF_RANGE, what=what, got=got, expected="at least 1", because="it is decoded from"
                )
        need = self.demand(request)
        if need > self.sizes.row_width:
            raise SpecRejection(
                Reason.ROW_TOO_SHORT,
                what="positions of the request",
                got=need,
                expected=f"at most {self.sizes.row_width}",
                because="a row holds no more",
            )
        if need > self.sizes.num_slots - 1:
            raise SpecRejection(
                Reason.OUT_OF_SLOTS,
                what="positions of the request",
                got=need,
                expected=f"at most {self.sizes.num_slots - 1}",
                because="the pool has no more slots",
            )
        self.waiting.append(request)

    def demand(self, request: Request) -> int:
        """Return the most positions that a request can come to own."""
        return len(request.prompt) + request.max_new_tokens + self.config.num_steps + self.config.reserve

    def admit(self) -> tuple[list[Request], list[SlotRange]]:
        """Start as many waiting requests as rows, batch and slots allow, in order."""
        admitted: list[Request] = []
        ranges: list[SlotRange] = []
        while self.waiting and len(self.running) < self.max_batch and self.rows.num_free:
            promised = sum(self.demand(request) - len(request.slots) for request in self.running)
            request = self.waiting[0]
            if self.demand(request) > self.slots.num_free - promised:
                break
            self.waiting.popleft()
            (request.row,) = self.rows.allocate(1)
            ranges.append(self._extend(request, len(request.prompt)))
            request.num_committed = len(request.prompt)
            self.running.append(request)
            admitted.append(request)
        return admitted, ranges

    def prepare_for_decode(self) -> list[SlotRange]:
        """Allocate two iterations' worth of positions past the committed length of every running request."""
        ranges = []
        for request in self.running:
            end = max(len(request.slots), request.num_committed + self.config.reserve)
            if end > len(request.slots):
                ranges.append(self._extend(request, end))
        return ranges

    def finish(self) -> list[Request]:
        """Release every running request that has ended and return them."""
        ended = [request for request in self.running if request.finish_reason is not None]
        for request in ended:
            self.running.remove(request)
            self.release(request)
            self.finished.append(request)
        return ended

    def release(self, request: Request) -> None:
        """Give a request's slots and row back."""
        self.slots.free(request.slots)
        self.rows.free([request.row])
        request.slots, request.row = [], 0

    def check_ledger(self) -> None:
        """Assert that every slot and row has exactly one owner and every length its place."""
        owned = [slot for request in self.running for slot in request.slots]
        assert len(owned) == len(set(owned)), f"slots with two owners: {sorted(owned)}"
        assert set(owned) == self.slots.owned, (
            f"owned slots = {sorted(self.slots.owned)}, but should be {sorted(owned)}"
        )
        assert 0 not in owned, "slot 0 = owned, but should be the dump"
        total = self.slots.num_free + len(owned) + 1
        assert total == self.sizes.num_slots, f"slots in all = {total}, but should be {self.sizes.num_slots}"
        rows = [request.row for request in self.running]
        assert sorted(rows) == sorted(self.rows.owned), f"owned rows = {sorted(self.rows.owned)}, but should be {rows}"
        for request in self.running:
            assert request.num_committed <= len(request.slots) <= self.sizes.row_width, (
                f"committed {request.num_committed}, allocated {len(request.slots)}, width {self.sizes.row_width}"
            )
            tokens = len(request.prompt) + len(request.output)
            assert tokens == request.num_committed + 1, f"tokens = {tokens}, but should be {request.num_committed + 1}"

    def _extend(self, request: Request, end: int) -> SlotRange:
        start = len(request.slots)
        slots = self.slots.allocate(end - start)
        request.slots.extend(slots)
        return SlotRange(row=request.row, start=start, end=end, slots=tuple(slots))
