"""How latencies are measured: by replay of CUDA graphs that hold many calls, or around single launches."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import torch

from specsim import gpu
from specsim.gpu.bench.host import measure_host

CALLS_PER_GRAPH = 20
REPLAYS = 50
WARM_UPS = 5
CYCLES_TO_QUEUE = 2_000_000
"""Cycles of a device in which a host queues a launch: a millisecond."""


@dataclass(frozen=True)
class Case:
    """One measured shape: how to build its inputs on the device, and the figure of today's engines in microseconds.

    The calls of a graph take turns with ``num_inputs`` sets of inputs: one set may stay in L2, many do not.
    """

    operation: str
    shape: str
    build: Callable[[], dict[str, Any]]
    engines_us: str
    num_inputs: int = 1


@dataclass(frozen=True)
class Latency:
    """Microseconds a call: the median over replays, and the range that holds nine tenths of them.

    ``host_us`` is what an eager call costs on the host, and ``prepared_us`` what allocating its outputs and starting
    its kernels with prepared arguments costs there.
    """

    operation: str
    shape: str
    median_us: float
    low_us: float
    high_us: float
    engines_us: str
    host_us: float | None = None
    prepared_us: float | None = None


def measure(case: Case) -> Latency:
    """Capture many calls of one operation in a graph and time its replays, then time calls on the host."""
    inputs = [case.build() for _ in range(case.num_inputs)]
    times = replayed(vars(gpu)[case.operation], inputs, CALLS_PER_GRAPH, REPLAYS)
    host = measure_host(case.operation, inputs[0])
    return Latency(case.operation, case.shape, *summary(times), case.engines_us, host.eager_us, host.prepared_us)


def replayed(
    function: Callable[..., Any],
    inputs: Sequence[Mapping[str, Any]],
    calls: int,
    replays: int,
    before: Callable[[], Any] | None = None,
) -> list[float]:
    """Capture calls that take turns with some inputs in a graph, and return the microseconds a call of each replay.

    ``before`` is queued before each replay, and is not timed.
    """
    for one in inputs:
        function(**one)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for call in range(calls):
            function(**inputs[call % len(inputs)])
    return [time / calls for time in repeated(graph.replay, replays, before)]


def repeated(launch: Callable[[], Any], repeats: int, before: Callable[[], Any] | None = None) -> list[float]:
    """Return the microseconds of repeated launches after a few that warm up."""
    times = []
    for _ in range(repeats + WARM_UPS):
        if before is not None:
            before()
        times.append(time_of(launch))
    return times[WARM_UPS:]


def time_of(launch: Callable[[], Any]) -> float:
    """Return the microseconds between two events around a launch."""
    start, end = _event(), _event()
    start.record()
    launch()
    end.record()
    end.synchronize()
    return float(start.elapsed_time(end)) * 1000


def queued_time_of(launch: Callable[[], Any], count: int) -> float:
    """Return the microseconds that a launch takes on the device where it need not wait for the host.

    Several are queued while the device does nothing else, and the time is their mean.
    """
    start, end = _event(), _event()
    torch.cuda._sleep(count * CYCLES_TO_QUEUE)  # type: ignore[no-untyped-call]
    start.record()
    for _ in range(count):
        launch()
    end.record()
    end.synchronize()
    return float(start.elapsed_time(end)) * 1000 / count


def host_time_of(launch: Callable[[], Any]) -> float:
    """Return the microseconds that the host takes to queue a launch on an idle device."""
    torch.cuda.synchronize()
    start = perf_counter()
    launch()
    return (perf_counter() - start) * 1e6


def summary(times: Sequence[float]) -> tuple[float, float, float]:
    """Return the median, and the bounds of the middle nine tenths."""
    ordered = sorted(times)
    return ordered[len(ordered) // 2], ordered[len(ordered) // 20], ordered[-1 - len(ordered) // 20]


def _event() -> torch.cuda.Event:
    event: torch.cuda.Event = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
    return event
