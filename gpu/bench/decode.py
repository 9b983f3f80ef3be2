"""Latencies of whole decode iterations: with their model, and of what an engine runs around it."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch.profiler import ProfilerActivity, profile

from specsim.config import SpecConfig
from specsim.gpu.bench.timing import Latency, host_time_of, queued_time_of, summary, time_of
from specsim.gpu.models import load_model
from specsim.gpu.worker.v2 import GpuWorker
from specsim.simulation.engine import Engine
from specsim.simulation.models.batches import DraftExtendBatch, DraftOutput, DraftStepBatch, TargetBatch, TargetOutput
from specsim.simulation.models.description import ModelDescription
from specsim.simulation.models.hash_model import HashModel
from specsim.simulation.models.protocol import Model
from specsim.simulation.pools import sizes_for
from specsim.simulation.requests import Request

ITERATION = "decode iteration"
ITERATION_BATCHES = (1, 8, 64, 256)
ITERATIONS, WARM_UPS = 20, 5
QUEUED = 4
"""Iterations that are queued together: as many as fit into the slots that requests have after their texts."""

Output = TypeVar("Output")
KV = Mapping[str, Sequence[Tensor]]


class StillModel:
    """A model whose forwards, once it is still, return what they have returned before to batches of the same size.

    Parameters
    ----------
    model : Model
        Whose forwards they are; prefills always run.
    """

    def __init__(self, model: Model[Tensor]) -> None:
        self.is_still = False
        self._model = model
        self._kept: dict[Hashable, Any] = {}

    @property
    def description(self) -> ModelDescription:
        """As of the model."""
        return self._model.description

    def prefill(self, batch: TargetBatch[Tensor], kv: KV, states: KV) -> TargetOutput[Tensor]:
        """Run the prompts."""
        return self._model.prefill(batch, kv, states)

    def verify(self, batch: TargetBatch[Tensor], kv: KV, states: KV, scratch: KV) -> TargetOutput[Tensor]:
        """Run the trees, or return what came of as many nodes."""
        return self._once(("verify", len(batch.input_ids)), partial(self._model.verify, batch, kv, states, scratch))

    def draft_step(self, batch: DraftStepBatch[Tensor], kv: KV) -> DraftOutput[Tensor]:
        """Run the beams, or return what came of as many at this depth."""
        return self._once(("step", batch.depth, len(batch.input_ids)), partial(self._model.draft_step, batch, kv))

    def draft_extend(self, batch: DraftExtendBatch[Tensor], kv: KV) -> DraftOutput[Tensor]:
        """Run the new tokens, or return what came of as many."""
        return self._once(("extend", len(batch.input_ids)), partial(self._model.draft_extend, batch, kv))

    def _once(self, key: Hashable, forward: Callable[[], Output]) -> Output:
        if self.is_still and key in self._kept:
            kept: Output = self._kept[key]
            return kept
        output = forward()
        if not self.is_still:
            self._kept[key] = output
        return output


def measure_iterations(batches: Sequence[int] = ITERATION_BATCHES, topk: int = 4, nodes: int = 16) -> list[Latency]:
    """Time whole decode iterations, launched as one graph and as single kernels."""
    latencies = []
    for batch in batches:
        for use_graphs in (True, False):
            config = config_of(topk, nodes)
            launch, rewind = started(load_model(HashModel(256)), config, batch, use_graphs)
            times, host_times = [], []
            for _ in range(ITERATIONS + WARM_UPS):
                rewind()
                times.append(time_of(launch))
                rewind()
                host_times.append(host_time_of(launch))
            how = "one graph" if use_graphs else "single launches"
            shape = f"batch {batch}, topk {topk}, 5 steps, {nodes} nodes, length about 70, {how}"
            host_us = summary(host_times[WARM_UPS:])[0]
            latencies.append(Latency(ITERATION, shape, *summary(times[WARM_UPS:]), "-", host_us))
    return latencies


def measure_around_the_model(batch: int, topk: int = 4, nodes: int = 16) -> tuple[list[float], int]:
    """Time an iteration as one graph in which no forward of the model is left, on the device alone.

    Returns
    -------
    times : list of float
        Microseconds an iteration, each of a few that are queued one after another.
    num_kernels : int
        Kernels and copies of one; 0 where the device cannot be traced.
    """
    model = StillModel(load_model(HashModel(256)))
    config = config_of(topk, nodes)
    launch, _ = started(model, config, batch, use_graphs=False)
    launch()
    model.is_still = True
    launch, rewind = started(model, config, batch, use_graphs=True)
    times = []
    for _ in range(ITERATIONS + WARM_UPS):
        rewind()
        times.append(queued_time_of(launch, QUEUED))
    rewind()
    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CUDA]) as seen:
        launch()
        torch.cuda.synchronize()
    return times[WARM_UPS:], sum(event.device_type.name == "CUDA" for event in seen.events())


def config_of(topk: int, nodes: int) -> SpecConfig:
    """Return the sizes of trees of so many nodes, in up to five levels."""
    return SpecConfig(topk=topk, num_steps=min(5, nodes - 1), num_draft_tokens=nodes)


def started(
    model: Model[Tensor], config: SpecConfig, batch: int, use_graphs: bool, length: int = 64
) -> tuple[Callable[[], None], Callable[[], object]]:
    """Prefill requests of a length; return what launches an iteration of them, and what brings their lengths back."""
    requests = [Request(number, ([number % 251, 7] * length)[:length], 64) for number in range(batch)]
    worker = GpuWorker(config, model, sizes_for(config, requests, batch), use_graphs=use_graphs)
    engine = Engine(worker, batch)
    for request in requests:
        engine.submit(Request(request.request_id, request.prompt, request.max_new_tokens))
    engine.step()
    rows = [request.row for request in engine.scheduler.running]
    return partial(worker.launch, rows), worker.rewinder()
