"""The scheduler: admits requests, keeps their rows allocated ahead of the decode, and finishes them."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from specsim.assertion import require
from specsim.config import PoolSizes, SpecConfig
from specsim.host.choice import StartGrammar, TokenChoice
from specsim.host.grammar import Grammar
from specsim.host.metrics import RequestCounters
from specsim.host.processors import LogitProcessor
from specsim.host.sampling import SamplingParameters
from specsim.host.stopping import Finish, FinishReason, StopRules, TokenText, append_run
from specsim.host.truncation import end_of_grammar
from specsim.rejection import Reason, SpecRejection
from specsim.simulation.memory import Allocator

TOKEN_TEXT: TokenText = chr
"""Text of a token of the simulated models: their tokens are bytes or small numbers, one character each."""


@dataclass
class Request:
    """One prompt on its way through the engine.

    ``num_committed`` counts the positions whose KV is final, ``len(slots)`` those that are allocated. Between
    iterations ``len(prompt) + len(output) == num_committed + 1``. ``finish`` says where and why it ended. ``grammar``
    starts the matcher that the output of an admitted request advances.
    """

    request_id: int
    prompt: Sequence[int]
    max_new_tokens: int
    eos_token: int | None = None
    output: list[int] = field(default_factory=list)
    row: int = 0
    slots: list[int] = field(default_factory=list)
    num_committed: int = 0
    counters: RequestCounters = field(default_factory=RequestCounters)
    finish: Finish | None = None
    stop_tokens: Sequence[int] = ()
    stop_strings: Sequence[str] = ()
    min_new_tokens: int = 0
    context_limit: int | None = None
    sampling: SamplingParameters | None = None
    processor: LogitProcessor | None = None
    grammar: StartGrammar | None = None
    matcher: Grammar | None = None

    @property
    def choice(self) -> TokenChoice:
        """How its tokens are chosen; the matcher is the one that its output advances."""
        return TokenChoice(self.sampling, self.processor, self.matcher)

    @property
    def is_greedy(self) -> bool:
        """Whether nothing about it is left to chance."""
        return self.sampling is None or self.sampling.is_greedy

    @property
    def rules(self) -> StopRules:
        """When the request ends."""
        return StopRules(
            max_new_tokens=self.max_new_tokens,
            eos_tokens=frozenset() if self.eos_token is None else frozenset({self.eos_token}),
            stop_tokens=frozenset(self.stop_tokens),
            stop_strings=tuple(self.stop_strings),
            min_new_tokens=self.min_new_tokens,
            context_limit=self.context_limit,
        )

    @property
    def finish_reason(self) -> FinishReason | None:
        """Why it ended."""
        return None if self.finish is None else self.finish.reason

    def fresh(self) -> "Request":
        """Return the same request before its first step."""
        again = replace(self, output=[], row=0, slots=[], num_committed=0, counters=RequestCounters(), finish=None)
        again.matcher = None
        return again

    def append(self, tokens: Sequence[int]) -> None:
        """Append output tokens up to the first that ends the request; nothing after it has ended."""
        if self.finish is not None or not tokens:
            return
        run = append_run(self.rules, self.output, tokens, len(tokens), self.num_committed, len(self.prompt), TOKEN_TEXT)
        finish = run.finish
        if self.matcher is not None:
            finish = end_of_grammar(self.matcher, self.output, tokens, finish, TOKEN_TEXT)
        self.output = list(run.appended if finish is None else run.appended[: finish.num_tokens])
        self.finish = finish


@dataclass(frozen=True)
class SlotRange:
    """Slots that a request received for positions ``start`` to ``end-1`` of its row."""

    row: int
    start: int
    end: int
    slots: tuple[int, ...]


class Scheduler:
    """Queues, ledger and pools of an engine, page size 1.

    Parameters
    ----------
    allocates_ahead : bool
        V2: two iterations' worth of positions are allocated before each. V1 allocates inside an iteration, so that
        between two of them exactly the committed positions are.
    """

    def __init__(
        self,
        config: SpecConfig,
        sizes: PoolSizes,
        max_batch: int,
        shuffle_seed: int | None = None,
        allocates_ahead: bool = True,
    ) -> None:
        self.config = config
        self.sizes = sizes
        self.max_batch = max_batch
        self.allocates_ahead = allocates_ahead
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
            COUNT_OUT_OF_RANGE: an empty prompt, no token asked for, or a prompt that leaves no room in the context;
            BAD_CONFIGURATION: rules that contradict themselves; ROW_TOO_SHORT, OUT_OF_SLOTS: the request could never
            be admitted.
        """
        for what, got in (("len(prompt)", len(request.prompt)), ("max_new_tokens", request.max_new_tokens)):
            if got < 1:
                raise SpecRejection(
                    Reason.COUNT_OUT_OF_RANGE, what=what, got=got, expected="at least 1", because="it is decoded from"
                )
        limit = request.rules.context_limit
        if limit is not None and len(request.prompt) >= limit:
            raise SpecRejection(
                Reason.COUNT_OUT_OF_RANGE,
                what="len(prompt)",
                got=len(request.prompt),
                expected=f"below {limit}",
                because="the context has to hold an output token",
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
            request.matcher = None if request.grammar is None else request.grammar()
            ranges.append(self._extend(request, len(request.prompt)))
            request.num_committed = len(request.prompt)
            self.running.append(request)
            admitted.append(request)
        return admitted, ranges

    def prepare_for_decode(self) -> list[SlotRange]:
        """Allocate two iterations' worth of positions past the committed length of every running request, for V2."""
        ranges: list[SlotRange] = []
        if not self.allocates_ahead:
            return ranges
        for request in self.running:
            end = max(len(request.slots), request.num_committed + self.config.reserve)
            if end > len(request.slots):
                ranges.append(self._extend(request, end))
        return ranges

    def finish(self) -> list[Request]:
        """Release every running request that has ended and return them."""
        ended = [request for request in self.running if request.finish is not None]
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
        """Raise AssertionError unless every slot and row has exactly one owner and every length its place."""
        owned = sorted(slot for request in self.running for slot in request.slots)
        twice = [one for one, other in pairwise(owned) if one == other]
        require(not twice, "slots with two owners", twice, "none")
        require(set(owned) == self.slots.owned, "owned slots", sorted(self.slots.owned), owned)
        require(0 not in owned, "slot 0", "owned", "the dump")
        total = self.slots.num_free + len(owned) + 1
        require(total == self.sizes.num_slots, "slots in all", total, self.sizes.num_slots)
        rows = sorted(request.row for request in self.running)
        require(rows == sorted(self.rows.owned), "owned rows", sorted(self.rows.owned), rows)
        for request in self.running:
            allocated, committed, width = len(request.slots), request.num_committed, self.sizes.row_width
            require(committed <= allocated <= width, "allocated positions", allocated, f"{committed} to {width}")
            ahead = allocated - committed
            require(self.allocates_ahead or not ahead, "positions allocated ahead", ahead, "0, as V1 has none")
            tokens = len(request.prompt) + len(request.output)
            require(tokens == committed + 1, "tokens", tokens, committed + 1)

    def _extend(self, request: Request, end: int) -> SlotRange:
        start = len(request.slots)
        slots = self.slots.allocate(end - start)
        request.slots.extend(slots)
        return SlotRange(row=request.row, start=start, end=end, slots=tuple(slots))
