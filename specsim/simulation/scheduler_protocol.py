"""What an engine asks of a scheduler, and what drivers look at: ``Scheduler`` is ours, a module may bring its own."""

from collections.abc import MutableSequence, Sequence
from typing import Protocol

from specsim.config import PoolSizes, SpecConfig
from specsim.conformance.calls import CallsByName
from specsim.rejection import contradiction
from specsim.simulation.events import Observer
from specsim.simulation.memory import Memory, SlotRange
from specsim.simulation.requests import PrefillBatch, Request
from specsim.simulation.schedule import Schedule


class SchedulerProtocol(Protocol):
    """Decide which requests run, and own the memory of an engine.

    A turn of an engine asks for two things. For the prompts it calls ``next_prefill`` and launches what that returns.
    For the decode batch it calls ``retract_for_decode`` if something runs, then ``prepare_for_decode``, and launches
    an iteration over ``running``, in that order. When a launch is resolved, the engine appends the tokens and calls
    ``publish`` for each chunk, ``answered`` for the prompts that are through, and ``finish``. Overlapped, a turn is
    launched before the one before it is resolved: its requests have no output of that yet, and ``finish`` has not
    seen who ended.

    A scheduler is free in which requests it admits, when and in which order, in how it cuts prompts into chunks, and
    in which requests it retracts. Requests join the batch at its end and keep their order in it. No request may be
    lost or wait for ever: in an engine with requests and nothing on its way, a turn launches something, or retracts or
    ends a request.

    Attributes
    ----------
    sizes : PoolSizes
        The pools.
    max_batch : int
        The most requests with a row.
    memory : Memory
        Slots, rows and cached prefixes. An engine that goes on in the pools of another one assigns the memory,
        ``waiting`` and ``finished`` of the other's scheduler.
    waiting : mutable sequence of Request
        Requests without a row, those that were retracted among them.
    finished : list of Request
        Requests that have ended, in the order of their ends. They own nothing.
    """

    sizes: PoolSizes
    max_batch: int
    memory: Memory
    waiting: MutableSequence[Request]
    finished: list[Request]

    @property
    def running(self) -> Sequence[Request]:
        """The decode batch: requests whose prompt was launched to its end, in the order in which they were."""

    @property
    def holders(self) -> Sequence[Request]:
        """The requests that have a row: ``running``, and those whose prompt was launched in part."""

    @property
    def unanswered(self) -> Sequence[Request]:
        """Those of ``running`` whose prefill is launched and not resolved: ``answered`` has not named them yet."""

    @property
    def has_requests(self) -> bool:
        """Whether a request has not ended."""

    def submit(self, request: Request) -> None:
        """Queue a request.

        Raises
        ------
        SpecRejection
            The request does not fit, as ``check_request`` says; nothing is queued.
        """

    def abort(self, request_id: int) -> None:
        """End a request: at once if it waits (``Request.abort``), at its next result if it has a row (``is_aborted``).

        A number that no request has, or one that ended, changes nothing.
        """

    def next_prefill(self) -> PrefillBatch | None:
        """Admit requests and return the chunks of prompts that run next; None if no prompt runs in this turn.

        Each request of the batch has one chunk, ``fill[start:end]``, which begins at its committed length. Positions
        up to the end of the chunk are allocated and committed when this returns. A request whose chunk reaches the
        end of its ``fill`` joins ``running`` and ``unanswered``.

        Returns
        -------
        batch : PrefillBatch or None
            ``ranges`` are the slots that the worker writes into its map before the forward: of a request that joins
            also those that the prefix cache had, from position 0. ``joining`` are the requests that got a row, and
            ``loads`` what of their texts is loaded before the chunks (``Request.loaded``); without it, it is computed.
        """

    def publish(self, request: Request, end: int) -> SlotRange:
        """Leave ``fill[:end]``, whose KV is resolved, to the prefix cache; return what the row says from now on.

        The range has no slots where nothing changed.
        """

    def retract_for_decode(self) -> Sequence[Request]:
        """Make room for the next iteration, by retractions if need be; return the requests that were retracted.

        Called before every iteration, with ``running`` not empty. A request that finds no room alone ends (``abort``).
        """

    def retract(self, request: Request) -> None:
        """Take slots and row of one of ``holders``; it waits again and keeps its output.

        Drivers call it at any time, also for a request whose result is on its way: that result is late.
        """

    def prepare_for_decode(self) -> Sequence[SlotRange]:
        """Return the slots that the worker writes into its map before the next iteration.

        V2: what each of ``running`` may need until its result is known. V1 allocates inside the iteration.
        """

    def finish(self) -> Sequence[Request]:
        """Release every one of ``running`` that has ended (``request.finish``), append it to ``finished``, return them.

        Called after each result.
        """

    def answered(self, requests: Sequence[Request]) -> None:
        """Note that the prefill of some requests is resolved to the end of their prompts."""

    def check_ledger(self) -> None:
        """Raise AssertionError unless every slot and row has exactly one owner, and every length its place."""


class MakeScheduler(Protocol):
    """A class of schedulers, or a function that makes one."""

    def __call__(
        self,
        config: SpecConfig,
        sizes: PoolSizes,
        max_batch: int,
        operations: CallsByName,
        shuffle_seed: int | None = None,
        allocates_ahead: bool = True,
        schedule: Schedule = ...,
        *,
        has_pair_keys: bool = True,
        observer: Observer = ...,
        window: int = 0,
        num_ahead: int = 1,
    ) -> SchedulerProtocol:
        """Return a scheduler without requests.

        Parameters
        ----------
        config : SpecConfig
            Sizes of the drafts.
        sizes : PoolSizes
            The pools.
        max_batch : int
            The most requests with a row.
        operations : CallsByName
            Host functions and parts of the implementation; ``operations.host("RadixCache")`` returns one by its name.
        shuffle_seed : int or None
            Shuffles the slots that the allocators hand out first.
        allocates_ahead : bool
            V2. V1 allocates inside an iteration: between two of them exactly the committed positions are allocated.
        schedule : Schedule
            What the user chose: chunks, room, prefix cache.
        has_pair_keys, num_ahead : bool and int
            How texts are keyed in the prefix cache; see ``key_units``.
        observer : callable
            Gets a tag of what happens: ABORT, CHUNK, RETRACT, SWA, PREFIX, HISTORY, and the end of a request as
            ``tell_end`` reports it. A soak counts them.
        window : int
            Positions that a layer with a sliding window sees; 0 where no layer has one.
        """


_ASKED = {*SchedulerProtocol.__annotations__, *vars(SchedulerProtocol)}
MEMBERS = tuple(sorted(name for name in _ASKED if not name.startswith("_")))
"""What a scheduler has."""


def require_scheduler(scheduler: object) -> None:
    """Refuse by name an object that lacks something of a scheduler.

    Raises
    ------
    SpecRejection
        BAD_CONFIGURATION.
    """
    missing = [name for name in MEMBERS if name not in dir(scheduler)]
    if missing:
        got, because = ", ".join(missing), f"the engine asks for {', '.join(MEMBERS)}"
        raise contradiction(f"what {type(scheduler).__name__} lacks of a scheduler", got, "nothing", because)
