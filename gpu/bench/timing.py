"""How latencies are measured: by replay of CUDA graphs that hold many calls, or around single launches."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import torch

from specsim import gpu
from specsim.gpu.bench.host import measure_host

CALLS_PER_GRAPH = 20
REPLAYS = 50
WARM_UPS = 5


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
    function = vars(gpu)[case.operation]
    inputs = [case.build() for _ in range(case.num_inputs)]
    function(**inputs[0])
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for call in range(CALLS_PER_GRAPH):
            function(**inputs[call % case.num_inputs])
    times = [time / CALLS_PER_GRAPH for time in repeated(graph.replay, REPLAYS)]
    host = measure_host(case.operation, inputs[0])
    return Latency(case.operation, case.shape, *summary(times), case.engines_us, host.eager_us, host.prepared_us)


def repeated(launch: Callable[[], Any], repeats: int) -> list[float]:
    """Return the microseconds of repeated launches after a few that warm up."""
    return [time_of(launch) for _ in range(repeats + WARM_UPS)][WARM_UPS:]


def time_of(launch: Callable[[], Any]) -> float:
    """Return the microseconds between two events around a launch."""
    start, end = _event(), _event()
    start.record()
    launch()
    end.record()
    end.synchronize()
    return float(start.elapsed_time(end)) * 1000


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
