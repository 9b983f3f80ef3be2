"""Device time of every operation beside its floor, at the sizes of an engine.

A floor is the shortest launch of an engine, or the bytes that the inputs of the row make necessary at the bandwidth of
a large copy, whichever takes longer; the bandwidth is measured in the same run. What is larger than a part of the cache
is read from memory: calls take turns with several inputs, and the cache is flushed between replays.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from typing import Any

import torch

from specsim import gpu
from specsim.conformance.backend import Backend
from specsim.gpu.arrays import DEVICE
from specsim.gpu.bench.iteration import EngineSizes
from specsim.gpu.bench.needed import Counts, necessary_bytes
from specsim.gpu.bench.peer import declines, find_difference, taken
from specsim.gpu.bench.plain import PLAIN, Line
from specsim.gpu.bench.row import Row, inputs_of
from specsim.gpu.bench.rows import ROWS
from specsim.gpu.bench.timing import CALLS_PER_GRAPH, REPLAYS, repeated, replayed, summary, time_of
from specsim.gpu.launching.launcher import Launch
from specsim.gpu.launching.mode import launching
from specsim.operations import RECORDS

BATCHES = (1, 16, 64, 256)
SMALL_BATCHES = (4, 8)
"""Batches by which the memory of larger ones is estimated."""

LAUNCH_US = 1.7
"""A kernel of a graph on an H200 that waits for the one before, reads its rows and writes; an empty one takes 0.7."""

COPY_BANDWIDTH = 3.0e12
"""Bytes a second of a large copy on an H100, read and written ones counted, for floors where none is measured."""

COPIED_BYTES = 2**30
CACHE_BYTES = 2**28
"""More than any cache of a device: inputs of a row together have as many needed bytes, and a flush writes as many."""

CACHED_BYTES = 2**18
"""Needed bytes up to which a row has one input, which stays in the cache, as what an engine has just written does."""

MOST_BYTES = 40 * 2**30
"""Memory of all inputs of a row."""

US_A_GRAPH, US_A_ROW, FEWEST_REPLAYS = 40_000, 250_000, 9


@dataclass(frozen=True)
class Machine:
    """What floors are made of: microseconds of the shortest launch, and bytes a second of a large copy."""

    launch_us: float = LAUNCH_US
    copy_bandwidth: float = COPY_BANDWIDTH

    def floor_us(self, num_bytes: int) -> float:
        """Return the least time of a call that has to read and write so many bytes."""
        return max(self.launch_us, num_bytes / self.copy_bandwidth * 1e6)

    def share_of_copy(self, num_bytes: int, us: float) -> float:
        """Return which part of a large copy's bandwidth a call has that reads and writes so many bytes in this time."""
        return num_bytes / us * 1e6 / self.copy_bandwidth


@dataclass(frozen=True)
class Work:
    """What is timed: an operation on inputs that a function draws after a seed.

    ``needed`` counts the entries that the inputs make necessary, ``plain`` is the same in one line of torch.
    """

    operation: str
    shape: str
    build: Callable[[], dict[str, Any]]
    needed: Counts
    seed: int = 0
    plain: Line | None = None

    def first_inputs(self) -> dict[str, Any]:
        """Draw the first inputs, the same ones at every call; ``build`` draws others then."""
        torch.manual_seed(self.seed)
        return self.build()


def shape_of(sizes: EngineSizes, kind: str) -> str:
    """Return a batch, other sizes that are not as usual, and what is particular of a row in words."""
    usual = EngineSizes(sizes.batch)
    changed = {
        f"{sizes.nodes} nodes": sizes.nodes != usual.nodes,
        f"topk {sizes.topk}": sizes.topk != usual.topk,
        f"V {sizes.vocab:,}": sizes.vocab != usual.vocab,
        f"length {sizes.length:,}": sizes.length != usual.length,
    }
    requests = "1 request" if sizes.batch == 1 else f"{sizes.batch} requests"
    return ", ".join([requests, *[words for words, is_changed in changed.items() if is_changed], *filter(None, [kind])])


@dataclass(frozen=True)
class Timed:
    """Microseconds a call, the median over replays and the range that holds nine tenths of them, and its floor.

    ``num_bytes`` are those that the inputs make necessary, ``num_inputs`` the sets that calls take turns with.
    ``share_of_copy`` is the part of a large copy's bandwidth that these bytes in this time are. Medians of others: a
    single launch from the host, one line of torch in a graph, another module's function in a graph.
    """

    operation: str
    shape: str
    median_us: float
    low_us: float
    high_us: float
    floor_us: float | None
    num_bytes: int | None
    num_launches: int | None
    num_inputs: int | None
    share_of_copy: float | None = None
    eager_us: float | None = None
    torch_us: float | None = None
    peer_us: float | None = None

    @property
    def times_floor(self) -> float | None:
        """How many times its floor a call takes, where it has one."""
        return None if self.floor_us is None else self.median_us / self.floor_us

    @property
    def peer_times_ours(self) -> float | None:
        """How many times as long as ours the peer's call takes."""
        return None if self.peer_us is None else self.peer_us / self.median_us


@dataclass(frozen=True)
class Unmeasured:
    """A row that could not be timed, and why."""

    operation: str
    shape: str
    error: str

    @classmethod
    def of(cls, operation: str, shape: str, error: Exception) -> "Unmeasured":
        """Return a row with the first sentence of what was raised."""
        return cls(operation, shape, f"{type(error).__name__}: {error}".splitlines()[0].partition(". ")[0])


def rows_of(operations: Collection[str] = ()) -> tuple[Row, ...]:
    """Return the rows of some operations, of all if none is named."""
    return tuple(row for row in ROWS if not operations or row.operation in operations)


def works_of(operations: Collection[str] = (), batches: Iterable[int] = BATCHES) -> list[Work]:
    """Return the rows of some operations, or of all, at every batch."""
    return [work_of(row, EngineSizes(batch)) for row in rows_of(operations) for batch in batches]


def work_of(row: Row, sizes: EngineSizes) -> Work:
    """Return what is timed of a row at some sizes."""
    plain = PLAIN.get((row.operation, row.kind))
    return Work(
        row.operation, shape_of(sizes, row.kind), partial(inputs_of, row, sizes), row.needed, sizes.batch, plain
    )


def call_once(operation: str, arguments: dict[str, Any], needed: Counts) -> tuple[int, int]:
    """Carry out a call; return the bytes that it cannot do without, and its launches."""
    contract = RECORDS[operation].contract
    launches: list[Launch] = []
    with launching(launches.append):
        returned = vars(gpu)[operation](**arguments)
    outputs = returned if len(contract.outputs) > 1 else [returned]
    named = {spec.name: output for spec, output in zip(contract.outputs, outputs, strict=False)}
    return necessary_bytes(operation, {**contract.defaults, **arguments, **named}, needed), len(launches)


def measure_machine() -> Machine:
    """Measure a copy from memory to memory, by a kernel: copy engines have two thirds of its bandwidth."""
    source, target = torch.zeros((2, COPIED_BYTES // 4), device=DEVICE)
    copies = replayed(lambda: torch.add(source, 1.0, out=target), [{}], 2, REPLAYS)
    return Machine(copy_bandwidth=2 * COPIED_BYTES / summary(copies)[0] * 1e6)


def measure(work: Work, machine: Machine, peer: Backend | None = None) -> Timed:
    """Time an operation, and on the same inputs a peer's function and one line of torch."""
    inputs, function = [work.first_inputs()], vars(gpu)[work.operation]
    num_bytes, num_launches = call_once(work.operation, inputs[0], work.needed)
    once = partial(function, **inputs[0])
    once_us = min(time_of(once) for _ in range(3))
    wanted = 1 if num_bytes < CACHED_BYTES else -(-CACHE_BYTES // num_bytes)
    wanted = min(wanted, CALLS_PER_GRAPH, max(1, MOST_BYTES // _allocated(inputs[0])))
    inputs += [work.build() for _ in range(wanted - 1)]
    calls = int(min(CALLS_PER_GRAPH, max(2, len(inputs), US_A_GRAPH / once_us)))
    replays = int(min(REPLAYS, max(FEWEST_REPLAYS, US_A_ROW / (calls * once_us))))
    flush = torch.empty(CACHE_BYTES, dtype=torch.uint8, device=DEVICE).zero_ if len(inputs) > 1 else None

    def timed(other: Callable[..., Any], given: Sequence[dict[str, Any]] = inputs) -> tuple[float, float, float]:
        return summary(replayed(other, given, calls, replays, flush))

    def idle() -> None:
        """Let the device catch up, so that a launch that waits for a flush does not hide what the host takes for it."""
        if flush is not None:
            flush()
        torch.cuda.synchronize()

    times = timed(function)
    return Timed(
        *(work.operation, work.shape, *times),
        *(machine.floor_us(num_bytes), num_bytes, num_launches, len(inputs)),
        share_of_copy=machine.share_of_copy(num_bytes, times[0]),
        eager_us=summary(repeated(once, replays, idle))[0],
        torch_us=None if work.plain is None else timed(work.plain)[0],
        peer_us=None
        if peer is None
        else timed(peer.functions[work.operation], [taken(peer, one) for one in inputs])[0],
    )


def measure_every(
    machine: Machine,
    works: Iterable[Work],
    on_progress: Callable[[str, int, int], None] | None = None,
    peer: Backend | None = None,
) -> Iterator[Timed | Unmeasured]:
    """Time rows at their sizes; ``on_progress`` is called before each.

    What a peer defines is timed beside ours where it takes the inputs. An operation that differs from ours in one row
    is not timed in any: that row is yielded in their place.
    """
    groups = [[*group] for _, group in groupby(works, lambda work: work.operation)]
    done, total = 0, sum(map(len, groups))
    for group in groups:
        peers = _compare(group, peer)
        if isinstance(peers, Unmeasured):
            yield peers
            done += len(group)
            continue
        for work, beside in zip(group, peers, strict=True):
            if on_progress is not None:
                on_progress(f"{work.operation}, {work.shape}", done, total)
            try:
                yield measure(work, machine, beside)
            except RuntimeError as error:  # NOTE: memory that another process holds must not cost the other rows.
                yield Unmeasured.of(work.operation, work.shape, error)
            torch.cuda.empty_cache()
            done += 1


def memory_of(row: Row, sizes: EngineSizes) -> int:
    """Return about how many bytes one call and the drawing of its inputs take, by those of two small batches.

    No kernel of ours is launched.
    """
    few, more = (_most_bytes(row, replace(sizes, batch=batch)) for batch in SMALL_BATCHES)
    least, most = SMALL_BATCHES
    return few + (more - few) * (sizes.batch - least) // (most - least)


def free_memory() -> int:
    """Return the bytes of the device that are free."""
    torch.cuda.empty_cache()
    return int(torch.cuda.mem_get_info()[0])


def _compare(works: Sequence[Work], peer: Backend | None) -> Sequence[Backend | None] | Unmeasured:
    """Return a peer for each row whose inputs it takes, None for the others, or the first row in which it differs."""
    if peer is None or not peer.has(works[0].operation):
        return [None] * len(works)
    peers: list[Backend | None] = []
    for work in works:
        try:
            arguments = work.first_inputs()
            is_declined = declines(peer, work.operation, arguments)
            difference = None if is_declined else find_difference(peer, work.operation, arguments)
        except RuntimeError as error:
            return Unmeasured.of(work.operation, work.shape, error)
        if difference is not None:
            return Unmeasured(work.operation, work.shape, f"{peer.name}: {difference}")
        peers.append(None if is_declined else peer)
        torch.cuda.empty_cache()
    return peers


def _most_bytes(row: Row, sizes: EngineSizes) -> int:
    """Return the most bytes that a call and the drawing of its inputs take at once, of the inputs alone on a host."""
    before = _requested("current")
    if DEVICE.type == "cuda":
        torch.cuda.reset_peak_memory_stats()
    with launching(runs=False):
        arguments = inputs_of(row, sizes)
        vars(gpu)[row.operation](**arguments)
    return _requested("peak") - before if DEVICE.type == "cuda" else _allocated(arguments)


def _requested(which: str) -> int:
    """Return the bytes that tensors on the device take, or took at most; they are not rounded as the allocator does."""
    return int(torch.cuda.memory_stats().get(f"requested_bytes.all.{which}", 0))


def _allocated(arguments: dict[str, Any]) -> int:
    tensors = [
        tensor for value in arguments.values() for tensor in (value if isinstance(value, list | tuple) else [value])
    ]
    return 1 + sum(tensor.nbytes for tensor in tensors if isinstance(tensor, torch.Tensor))
