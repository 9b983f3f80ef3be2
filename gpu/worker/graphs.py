"""CUDA graphs by batch-size bucket: which buckets there are, how one is captured."""

import gc
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch

from specsim.gpu.arrays import DEVICE
from specsim.gpu.launching.simulated import SimulatedGraph
from specsim.gpu.switches import simulates_graphs
from specsim.rejection import Reason, SpecRejection
from specsim.simulation.verification import VerifyLimits

NUM_WARM_UPS = 2 if DEVICE.type == "cuda" else 1
"""Runs before a capture: on a GPU compilers and libraries get ready at the first."""

Graph = torch.cuda.CUDAGraph | SimulatedGraph


@dataclass(frozen=True)
class Kind:
    """What decides the launches of an iteration.

    How many steps are drafted, whether a request is sampled, whether users are handed hidden states, whether rules
    follow the output, whether requests have fewer steps than these: how many each has is read where it lies, and how
    many drafts are verified.
    """

    num_steps: int
    is_sampled: bool
    hands_states: bool = False
    has_rules: bool = False
    is_cut: bool = False
    limits: VerifyLimits | None = None


def bucket_sizes(max_batch: int) -> tuple[int, ...]:
    """Return 1, 2, 4, 8, then multiples of 8 up to 64, then of 32, ending exactly at ``max_batch``."""
    sizes = [size for size in (1, 2, 4, *range(8, 64, 8), *range(64, max_batch, 32)) if size < max_batch]
    return (*sizes, max_batch)


def bucket_for(num_requests: int, buckets: Sequence[int]) -> int:
    """Return the smallest bucket that holds a batch.

    Raises
    ------
    SpecRejection
        SCALAR_OUT_OF_RANGE: the batch exceeds the largest bucket.
    """
    place = bisect_left(buckets, num_requests)
    if place == len(buckets):
        raise SpecRejection(
            Reason.SCALAR_OUT_OF_RANGE,
            what="batch",
            got=num_requests,
            expected=f"at most {buckets[-1]}",
            because="no larger graph was captured",
        )
    return buckets[place]


def require_graphs(name: str, is_capturable: bool) -> None:
    """Raise unless graphs of a model can be captured here.

    Raises
    ------
    SpecRejection
        BAD_CONFIGURATION: its forwards cannot be captured; WRONG_DEVICE: there is no GPU, and graphs are not simulated.
    """
    if not is_capturable:
        raise SpecRejection(
            Reason.BAD_CONFIGURATION,
            what="use_graphs",
            got=True,
            expected="False",
            because=f"forwards of {name} cannot be captured, says its description",
        )
    if DEVICE.type != "cuda" and not simulates_graphs():
        raise SpecRejection(
            Reason.WRONG_DEVICE,
            what="use_graphs",
            got=True,
            expected="False",
            because="there is no GPU to capture on",
        )


def capture(run: Callable[[], None], pool: Any | None) -> Graph:
    """Capture what a function launches on one bucket.

    Parameters
    ----------
    run : callable
        Reads and writes memory that stays in place, without synchronising; padding while it is captured.
    pool : graph pool handle or None
        Memory shared with the graphs captured before; capture larger buckets first.

    Returns
    -------
    graph : CUDAGraph or SimulatedGraph
        Simulated where there is no GPU.

    Notes
    -----
    Warm-up runs on padding rows only, so it touches row 0 and slot 0 and nothing else. Python collects no garbage
    during the capture: a graph of a worker that no one holds any more cannot be destroyed there, and would end it.
    """
    if DEVICE.type != "cuda":
        for _ in range(NUM_WARM_UPS):
            run()
        simulated = SimulatedGraph()
        with _keeping_garbage(), simulated.capture(pool):
            run()
        return simulated
    stream: torch.cuda.Stream = torch.cuda.Stream(DEVICE)  # type: ignore[no-untyped-call]
    stream.wait_stream(torch.cuda.current_stream(DEVICE))
    with torch.cuda.stream(stream):
        for _ in range(NUM_WARM_UPS):
            run()
    torch.cuda.current_stream(DEVICE).wait_stream(stream)
    torch.cuda.synchronize(DEVICE)
    graph = torch.cuda.CUDAGraph()
    with _keeping_garbage(), torch.cuda.graph(graph, pool=pool):
        run()
    return graph


@contextmanager
def _keeping_garbage() -> Iterator[None]:
    """Let cycles that no one holds live on until the end."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
