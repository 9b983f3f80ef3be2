"""The work for which targets stand, in microseconds on one H200, and how far from them and from its floor it is."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from specsim.config import TreeMaskMode
from specsim.conformance.backend import Backend
from specsim.gpu.arrays import DEVICE
from specsim.gpu.bench import drawn
from specsim.gpu.bench.decode import ITERATION, measure_around_the_model, measure_iterations
from specsim.gpu.bench.every import Machine, Timed, Unmeasured, Work, measure_every
from specsim.gpu.bench.from_logits import EVERYTHING, FLAT_BONUS, TOP_K, TOP_P, VOCAB, greedy_inputs, sampled_inputs
from specsim.gpu.bench.iteration import EngineSizes, Iteration
from specsim.gpu.bench.memory import penalty_inputs, reported_inputs
from specsim.gpu.bench.operations import move_inputs, row_inputs, tree_inputs, verify_inputs
from specsim.gpu.bench.rows import ROWS
from specsim.gpu.bench.timing import summary

GREEDY, SAMPLED = "verify_tree_greedy_from_logits", "verify_tree_sampled_from_logits"
TREES = ((1, 16), (16, 16), (64, 16), (64, 32))
AROUND_US, KERNELS, EAGER_US = 45.0, 35, 1500.0


@dataclass(frozen=True)
class Target:
    """Work of one operation, and how many microseconds it should take."""

    operation: str
    shape: str
    target_us: float
    build: Callable[[], dict[str, Any]]


@dataclass(frozen=True)
class Compared:
    """One row: what was measured beside its target; an iteration has no floor.

    ``target_launches`` is how many kernels there should be at most, where that is a target too, ``peer_us`` the median
    of another module's function on the same inputs.
    """

    operation: str
    shape: str
    target_us: float
    median_us: float
    low_us: float
    high_us: float
    floor_us: float | None
    num_launches: int | None
    target_launches: int | None = None
    peer_us: float | None = None

    @property
    def peer_times_ours(self) -> float | None:
        """How many times as long as ours the peer's call takes."""
        return None if self.peer_us is None else self.peer_us / self.median_us

    @property
    def times_target(self) -> float:
        """How many times its target the work takes."""
        return self.median_us / self.target_us

    @property
    def share_of_floor(self) -> float | None:
        """Which part of the time its floor is."""
        return None if self.floor_us is None else self.floor_us / self.median_us


def chain_inputs(batch: int, vocab: int) -> dict[str, Any]:
    """Return chains of five drafts and the probabilities of both models."""
    return drawn.chain(Iteration(EngineSizes(batch, vocab=vocab)))


def renorm_inputs(rows: int, name: str, value: float, dtype: torch.dtype) -> dict[str, Any]:
    """Return rows of probabilities, and one bound of all."""
    probabilities = (torch.randn((rows, VOCAB), device=DEVICE) * 3).softmax(-1)
    return {"probabilities": probabilities, name: torch.full((rows,), value, dtype=dtype, device=DEVICE)}


def _targets() -> Iterator[Target]:
    for batch, vocab, us in ((1, VOCAB, 9.0), (16, VOCAB, 15.0), (64, VOCAB, 30.0), (256, 32_000, 22.0)):
        shape = f"{batch} x 5 drafts, V {vocab:,}"
        yield Target("chain_speculative_sampling", shape, us, partial(chain_inputs, batch, vocab))
    for rows, us in ((16, 8.0), (256, 90.0), (1024, 360.0)):
        yield Target("target_probabilities", f"{rows} rows, temperature alone", us, partial(row_inputs, rows))
    for rows, us in ((16, 15.0), (256, 120.0), (1024, 440.0)):
        yield Target(
            "top_k_renorm", f"{rows} rows, k 50", us, partial(renorm_inputs, rows, "top_k", TOP_K, torch.int32)
        )
    for rows, us in ((16, 25.0), (256, 140.0), (1024, 500.0)):
        build = partial(renorm_inputs, rows, "top_p", TOP_P, torch.float32)
        yield Target("top_p_renorm", f"{rows} rows, p 0.95", us, build)
    for (batch, nodes), us in zip(TREES, (6.5, 18.0, 25.0, 25.0), strict=True):
        yield Target(GREEDY, f"{batch} x {nodes}, bf16", us, partial(greedy_inputs, batch, nodes))
    kinds: tuple[tuple[str, dict[str, Any], tuple[float, ...]], ...] = (
        ("temperature alone", {"top_k": None, "top_p": None}, (12.0, 30.0, 50.0, 55.0)),
        ("top-k 50, top-p 0.95", {}, (15.0, 30.0, 50.0, 55.0)),
        ("top-p 0.95 alone, flat rows", {"top_k": EVERYTHING, "bonus": FLAT_BONUS}, (60.0, 80.0, 100.0, 110.0)),
    )
    for kind, parameters, all_us in kinds:
        for (batch, nodes), us in zip(TREES, all_us, strict=True):
            build = partial(sampled_inputs, batch, nodes, **parameters)
            yield Target(SAMPLED, f"{batch} x {nodes}, bf16, {kind}", us, build)
    for batch, us in ((16, 35.0), (64, 110.0)):
        yield Target("gather_output_logprobs", f"{batch} x 16, bf16, top 5", us, partial(reported_inputs, batch, 16))
    for batch, us in ((16, 45.0), (64, 170.0)):
        yield Target("apply_penalties", f"{batch} x 16, bf16", us, partial(penalty_inputs, batch, 16))
    windows, whole = TreeMaskMode.QLEN_ONLY, TreeMaskMode.FULL_MASK
    for batch, mode, us in ((64, windows, 4.0), (256, windows, 5.5), (512, whole, 10.0)):
        yield Target("build_tree", f"{batch} x 64, {mode.name}", us, partial(tree_inputs, batch, 16, 64, mode, 1000))
    for batch, topk, nodes, us in ((1, 4, 16, 2.0), (64, 4, 16, 2.2), (64, 16, 64, 2.6), (512, 16, 64, 3.0)):
        yield Target("verify_tree_greedy", f"{batch} x {nodes}", us, partial(verify_inputs, batch, topk, nodes))
    for slots, us in ((256, 18.0), (1024, 68.0)):
        yield Target("move_kv_cache", f"32 layers, 8 x 128 bf16, {slots} slots", us, partial(move_inputs, slots))


TARGETS = tuple(_targets())


def works() -> list[Work]:
    """Return what is timed of each target."""
    needed = {row.operation: row.needed for row in ROWS}
    return [Work(one.operation, one.shape, one.build, needed[one.operation]) for one in TARGETS]


def measure_targets(
    machine: Machine, on_progress: Callable[[str, int, int], None] | None = None, peer: Backend | None = None
) -> Iterator[Compared | Unmeasured]:
    """Time the work of every target, a peer's functions beside ours, and last a decode iteration."""
    target_us = {(one.operation, one.shape): one.target_us for one in TARGETS}
    for one in measure_every(machine, works(), on_progress, peer):
        yield one if isinstance(one, Unmeasured) else _beside(target_us[one.operation, one.shape], one)
    yield from _measure_iteration(64)


def _beside(target_us: float, timed: Timed) -> Compared:
    times = (timed.median_us, timed.low_us, timed.high_us)
    figures = (target_us, *times, timed.floor_us, timed.num_launches)
    return Compared(timed.operation, timed.shape, *figures, peer_us=timed.peer_us)


def _measure_iteration(batch: int) -> Iterator[Compared]:
    times, num_kernels = measure_around_the_model(batch)
    shape = f"{batch} requests, topk 4, 5 steps, 16 nodes"
    around = f"{shape}, one graph without the model's forwards"
    yield Compared(ITERATION, around, AROUND_US, *summary(times), None, num_kernels or None, KERNELS)
    (_, eager) = measure_iterations([batch])
    times_of_all = (eager.median_us, eager.low_us, eager.high_us)
    yield Compared(ITERATION, f"{shape}, single launches", EAGER_US, *times_of_all, None, None)
