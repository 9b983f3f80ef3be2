"""What an engine launches and has not resolved: who takes part, how deep drafts may go, what the worker returns."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

from specsim.assertion import require, require_kind, require_present
from specsim.config import SpecConfig
from specsim.conformance.host_protocol import HostFunctions
from specsim.conformance.isolation.heartbeat import begin_call, end_call
from specsim.counts import path_width
from specsim.host.streams import StreamEvent
from specsim.simulation.handing_over import SlotLoad
from specsim.simulation.logprobs import ReportedToken
from specsim.simulation.memory import SlotRange
from specsim.simulation.numbers import Steps, steps_of_requests
from specsim.simulation.requests import PrefillBatch, PromptChunk, Request
from specsim.simulation.schedule import Schedule
from specsim.simulation.turns.priorities import Priorities
from specsim.simulation.turns.streams import Streams, Ticket
from specsim.simulation.verification import VerifyLimits, limits_by_name
from specsim.simulation.worker import Iteration, LoadingWorker, MapReader, Worker, is_telling


@dataclass(frozen=True)
class Launched:
    """One forward on its way.

    ``num_retractions`` is how often each request had been retracted when it was launched. ``chunks`` are those of a
    prefill; an iteration has none, and drafts ``num_steps`` steps, one number for all requests or one each, None for
    those of the configuration, and verifies within ``limits`` if there are any. ``reported`` is filled when the forward
    runs, unless the worker tells nothing. ``rows`` are those that it uses, ``loads`` what is written before it.
    """

    requests: tuple[Request, ...]
    num_retractions: tuple[int, ...]
    ticket: Ticket
    chunks: tuple[PromptChunk, ...] | None = None
    num_steps: Steps = None
    reported: list[tuple[ReportedToken, ...]] = field(default_factory=list)
    rows: tuple[int, ...] = ()
    limits: VerifyLimits | None = None
    loads: tuple[SlotLoad, ...] = ()

    def own_steps(self, config: SpecConfig) -> tuple[int, ...]:
        """Return how many steps each request of an iteration drafts."""
        return steps_of_requests(config, self.num_steps, len(self.requests))


class Launcher:
    """Queues the work of a worker on the two streams of its device."""

    def __init__(self, worker: Worker, operations: HostFunctions, schedule: Schedule) -> None:
        seed = schedule.stream_seed if schedule.is_overlapped else None
        self._worker = worker
        self._streams = Streams(operations, seed, schedule.depth)
        # NOTE: asked once: each of these looks at every member of a protocol.
        self._reader = worker if seed is not None and isinstance(worker, MapReader) else None
        self._teller = worker if is_telling(worker) else None
        self._loader = worker if isinstance(worker, LoadingWorker) else None
        self._num_launched = 0

    def prefill(self, batch: PrefillBatch) -> Launched:
        """Queue the slots and choices of joining requests, and the forward over some chunks."""
        worker, joining = self._worker, [(one.row, one.choice) for one in batch.joining]
        rows = [request.row for request in batch.requests]
        reported: list[tuple[ReportedToken, ...]] = []

        def write() -> None:
            worker.assign_slots(batch.ranges)
            if joining:
                worker.assign_choices([row for row, _ in joining], [choice for _, choice in joining])

        def run() -> list[int]:
            begin_call("prefill")
            for load in batch.loads:
                require_present("what loads", self._loader).load(load.row, load.slots, load.contents)
            following = worker.prefill(rows, batch.chunks)
            end_call()
            require(len(following) == len(rows), "tokens that prefill returns", len(following), len(rows))
            self._tell(reported, len(rows))
            return following

        self._write(write)
        ticket = self._streams.enqueue(self._event(reads_map=True, writes_slots=True), run)
        return replace(self._launched(batch.requests, ticket, reported, batch.chunks), loads=batch.loads)

    def decode(
        self,
        requests: Sequence[Request],
        ranges: Sequence[SlotRange],
        num_steps: Steps,
        limits: VerifyLimits | None = None,
    ) -> Launched:
        """Queue the slots that were allocated ahead, and one iteration."""
        worker, reader, limited = self._worker, self._reader, limits_by_name(limits)
        rows = [request.row for request in requests]
        reported: list[tuple[ReportedToken, ...]] = []
        if ranges:
            self._write(lambda: worker.assign_slots(ranges))
        if reader is not None:
            read = self._streams.enqueue(self._event(reads_map=True), reader.read_map)

            def decode() -> Iteration:
                return reader.decode_from(read.value, rows, num_steps, **limited)

            event = self._event(writes_slots=True)
        else:

            def decode() -> Iteration:
                return worker.decode(rows, num_steps, **limited)

            event = self._event(reads_map=True, writes_slots=True)

        def run() -> Iteration:
            begin_call("decode")
            iteration = require_kind("what decode returns", decode(), Iteration)
            end_call()
            iteration.check(len(rows))
            self._tell(reported, len(rows))
            return iteration

        ticket = self._streams.enqueue(event, run)
        return self._launched(tuple(requests), ticket, reported, None, num_steps, limits)

    def rewrite(self, ranges: Sequence[SlotRange]) -> None:
        """Queue what rows say from now on."""
        self._write(lambda: self._worker.assign_slots(ranges))

    def wait(self, launched: Launched) -> object:
        """Let queued work run until a launch is through; return what the worker returned."""
        return self._streams.wait(launched.ticket)

    def resolves_first(self, launched: Launched) -> bool:
        """Return whether the host reads a result before it launches more, where it need not."""
        return self._streams.resolves_first(launched.ticket)

    @property
    def priorities(self) -> Priorities | None:
        """What decides about the order of queued work, if priorities do."""
        return self._streams.priorities

    def _write(self, write: Callable[[], None]) -> None:
        self._streams.enqueue(self._event(writes_map=True), write)

    def _event(self, writes_map: bool = False, reads_map: bool = False, writes_slots: bool = False) -> StreamEvent:
        return StreamEvent(self._num_launched, writes_map, reads_map, writes_slots)

    def _launched(
        self,
        requests: tuple[Request, ...],
        ticket: Ticket,
        reported: list[tuple[ReportedToken, ...]],
        chunks: tuple[PromptChunk, ...] | None,
        num_steps: Steps = None,
        limits: VerifyLimits | None = None,
    ) -> Launched:
        self._num_launched += 1
        num_retractions = tuple(one.num_retractions for one in requests)
        rows = tuple(one.row for one in requests)
        return Launched(requests, num_retractions, ticket, chunks, num_steps, reported, rows, limits)

    def _tell(self, reported: list[tuple[ReportedToken, ...]], count: int) -> None:
        """Keep what the worker tells of the forward that has just run; the next one overwrites it."""
        if self._teller is not None:
            reported += self._teller.told()
            require(len(reported) in (0, count), "requests that told() reports on", len(reported), count)


def clipped_steps(
    running: Sequence[Request],
    in_flight: Iterable[Launched],
    config: SpecConfig,
    wanted: int | None,
    operations: HostFunctions,
) -> int | None:
    """Return how many steps an iteration drafts, so that none of its positions lies after a context.

    Parameters
    ----------
    running : sequence of Request
        Who takes part.
    in_flight : iterable of Launched
        What is not resolved. Of that everything may be accepted.
    config : SpecConfig
        What the worker allocates for; a chain.
    wanted : int or None
        Steps that would be drafted with room enough; None for those of the configuration.
    operations : HostFunctions
        Clip the drafts of one request.

    Notes
    -----
    Source: semantics B.11.
    """
    launched = list(in_flight)
    most = config.num_steps if wanted is None else wanted
    for request in running:
        num_tokens = len(request.prompt) + len(request.output) + _most_on_the_way(request, launched, config)
        most = operations.clip_drafts(request.rules, num_tokens, most)
    return wanted if most == config.num_steps else most


def _most_on_the_way(request: Request, launched: Sequence[Launched], config: SpecConfig) -> int:
    """Return how many tokens of a request the results that are out may bring."""
    return sum(
        1 if one.chunks is not None else path_width(own_steps)
        for one in launched
        for taking_part, own_steps in zip(one.requests, one.own_steps(config), strict=True)
        if request is taking_part
    )
