"""What iterations of a model cost on this device: forwards over a grid of sizes, and the rest of an iteration.

Forwards are captured as graphs and replayed where there is a GPU, as the worker replays them, and called elsewhere. The
rest is what whole iterations take whose forwards are left out, as a sum of shares.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np
import torch
from torch import Tensor

from specsim import gpu
from specsim.config import PoolSizes, SpecConfig
from specsim.gpu.arrays import DEVICE
from specsim.gpu.bench.decode import StillModel, started
from specsim.gpu.bench.timing import repeated
from specsim.gpu.worker.graphs import capture
from specsim.gpu.worker.pools import Pools
from specsim.gpu.worker.v2 import GpuWorker
from specsim.simulation.engine import Engine
from specsim.simulation.models.batches import DraftExtendBatch, DraftStepBatch, ListedKeys, TargetBatch
from specsim.simulation.models.description import DraftSource, ModelDescription, Side
from specsim.simulation.models.protocol import Model
from specsim.simulation.pools import sizes_for
from specsim.simulation.requests import Request

OnProgress = Callable[[str, int, int], None]
Rewind = Callable[[], object]

CALLS_A_GRAPH = 2
KV_SHARE = 0.9
DEEPEST = 2
"""Depth of the tokens that a measured step proposes; all steps run over as many beams."""

TERMS = ("iteration", "step", "node", "beam")
"""What the rest of an iteration is a sum of: of itself, of its steps, of all nodes, and of the beams of all steps."""


@dataclass(frozen=True)
class Probes:
    """The sizes that are measured, and how often; ``rests`` are drafts whose iterations are timed without forwards."""

    requests: tuple[int, ...] = (1, 8, 64)
    nodes: tuple[int, ...] = (1, 2, 4, 8, 16, 32)
    beams: tuple[int, ...] = (1, 2, 4, 8)
    lengths: tuple[int, ...] = (128, 512)
    rests: tuple[SpecConfig, ...] = (
        SpecConfig(1, 1, 2),
        SpecConfig(1, 4, 5),
        SpecConfig(4, 2, 16),
        SpecConfig(4, 4, 16),
        SpecConfig(8, 4, 32),
    )
    repeats: int = 11


class Forwards:
    """The forwards of a model over batches of any size, in pools of their own; slots lie in random order."""

    def __init__(self, model: Model[Tensor], probes: Probes) -> None:
        self.model, self.facts = model, model.description
        most = max(probes.requests)
        self._width = max(probes.lengths) + max(*probes.nodes, *probes.beams) + 1
        sizes = PoolSizes(most * self._width + 1, most + 1, self._width)
        self.pools = Pools(self.facts, max(probes.nodes), sizes, DEVICE)
        slots = torch.randperm(most * self._width, device=DEVICE).int() + 1
        self.pools.req_to_token[1:] = slots.view(most, self._width)
        for side in Side:
            for layers in self.pools.kv[side].values():
                for buffer in layers:
                    buffer.normal_() if buffer.is_floating_point() else buffer.zero_()

    def target(self, num_requests: int, nodes: int, length: int) -> Callable[[], Any]:
        """Return the target's forward over chains of nodes, which see as many keys as those of any tree."""
        row, seq_lens, positions = self._placed(num_requests, nodes, length)
        slots, keys = self.pools.nodes(row, seq_lens, nodes, gpu)
        mask = torch.ones((nodes, nodes), dtype=torch.bool, device=DEVICE).tril().repeat(num_requests, 1, 1)
        parents = torch.arange(-1, nodes - 1, device=DEVICE).repeat(num_requests, 1) if self.pools.states else None
        batch = TargetBatch(
            req_pool_indices=row,
            input_ids=self._tokens(num_requests * nodes),
            positions=positions,
            out_cache_loc=slots,
            prefix_lens=seq_lens,
            keys=keys,
            tree_mask=mask.view(-1),
            parents=parents,
            select=None,
            hidden_layers=self.facts.hidden_layers,
            is_sampled=False,
            window_keys=self.pools.window_keys(keys.page_table, slots),
        )
        scratch = self.pools.scratch(num_requests, nodes)
        return partial(self.model.verify, batch, self.pools.kv[Side.TARGET], self.pools.states, scratch)

    def draft_step(self, num_requests: int, beams: int, length: int) -> Callable[[], Any]:
        """Return the draft's forward over a token a beam, which sees the text and the beam's own token."""
        row, seq_lens, _ = self._placed(num_requests, 1, length)
        table = self.pools.req_to_token[row.long()]
        own = table[:, length : length + beams].reshape(-1)
        listed = torch.cat([table[:, :length].repeat_interleave(beams, dim=0), own[:, None]], dim=1)
        offsets = torch.arange(num_requests * beams + 1, dtype=torch.int32, device=DEVICE) * (length + 1)
        batch = DraftStepBatch(
            req_pool_indices=row,
            input_ids=self._tokens(num_requests * beams),
            positions=seq_lens.repeat_interleave(beams),
            out_cache_loc=own.long(),
            keys=ListedKeys(listed.reshape(-1).contiguous(), offsets, self._width),
            hidden_states=self._hidden(num_requests * beams, self.facts.draft_hidden_width),
            depth=DEEPEST,
        )
        return partial(self.model.draft_step, batch, self.pools.kv[Side.DRAFT])

    def draft_extend(self, num_requests: int, nodes: int, length: int) -> Callable[[], Any]:
        """Return the forward by which the draft catches up, over a row a node, as V2 runs it."""
        row, seq_lens, positions = self._placed(num_requests, nodes, length)
        slots, keys = self.pools.nodes(row, seq_lens, nodes, gpu)
        batch = DraftExtendBatch(
            req_pool_indices=row,
            input_ids=self._tokens(num_requests * nodes),
            positions=positions,
            out_cache_loc=slots,
            keys=keys,
            hidden_states=self._hidden(num_requests * nodes, len(self.facts.hidden_layers) * self.facts.hidden_width),
            select=torch.arange(num_requests, device=DEVICE) * nodes + nodes // 2,
        )
        return partial(self.model.draft_extend, batch, self.pools.kv[Side.DRAFT])

    def _placed(self, num_requests: int, nodes: int, length: int) -> tuple[Tensor, Tensor, Tensor]:
        row = torch.arange(1, num_requests + 1, device=DEVICE)
        seq_lens = torch.full((num_requests,), length, dtype=torch.int64, device=DEVICE)
        return row, seq_lens, (seq_lens[:, None] + torch.arange(nodes, device=DEVICE)).view(-1)

    def _tokens(self, count: int) -> Tensor:
        return torch.randint(0, self.facts.vocab_size, (count,), device=DEVICE)

    def _hidden(self, count: int, width: int) -> Tensor | None:
        if self.facts.draft_source is DraftSource.TOKENS or not width:
            return None
        return torch.zeros((count, width), dtype=getattr(torch, self.facts.hidden_dtype), device=DEVICE)


def measure_costs(model: Model[Tensor], probes: Probes, on_progress: OnProgress | None = None) -> dict[str, Any]:
    """Return a document of costs, as ``specsim.tuning.costs`` reads it.

    Parameters
    ----------
    model : Model
        One that fits the protocol, with a draft that has KV of its own.
    probes : Probes
        The sizes; the median of the timed replays of each counts.
    """
    asked = [
        (name, (num_requests, tokens, length))
        for name, sizes in (("target", probes.nodes), ("draft_step", probes.beams), ("draft_extend", probes.nodes))
        for num_requests in probes.requests
        for tokens in sizes
        for length in probes.lengths
    ]
    memory = slots_that_fit(model.description)
    forwards, timed = Forwards(model, probes), {}
    for done, (name, sizes) in enumerate(asked):
        if on_progress is not None:
            on_progress(f"{name} of {sizes[0]} x {sizes[1]} tokens after {sizes[2]}", done, len(asked))
        timed[name, sizes] = seconds_of(vars(Forwards)[name](forwards, *sizes), model, probes.repeats)
    tokens_of = {"target": probes.nodes, "draft_step": probes.beams, "draft_extend": probes.nodes}
    grids = {
        name: {
            "requests": list(probes.requests),
            "tokens": list(tokens),
            "lengths": list(probes.lengths),
            "seconds": [
                [[timed[name, (b, n, length)] for length in probes.lengths] for n in tokens] for b in probes.requests
            ],
        }
        for name, tokens in tokens_of.items()
    }
    free = {} if memory is None else {"memory": {"slots": memory}}
    return {
        **free,
        "schema": "specsim.costs/1",
        "device": torch.cuda.get_device_name() if DEVICE.type == "cuda" else "cpu",
        "model": model.description.name,
        "iteration_times": {**grids, "rest": measure_rest(model, probes)},
    }


def slots_that_fit(description: ModelDescription) -> int | None:
    """Return how many KV slots of both sides fit beside the weights of a model on the GPU; None without one.

    A tenth of what is free is left to graphs and activations. Layers with a sliding window have slots of their own.
    """
    layers = [one for one in description.kv_components if not one.window]
    sizes = (one.num_layers * math.prod(one.row_shape) * getattr(torch, one.dtype).itemsize for one in layers)
    num_bytes = sum(sizes)
    if DEVICE.type != "cuda" or not num_bytes:
        return None
    torch.cuda.empty_cache()
    return int(torch.cuda.mem_get_info()[0] * KV_SHARE) // num_bytes


def measure_rest(model: Model[Tensor], probes: Probes) -> dict[str, float]:
    """Return the shares of an iteration without forwards: the sum that is nearest to what was measured."""
    length, counts = min(probes.lengths), sorted({min(probes.requests), max(probes.requests)})
    sizes = [(config, count) for config in probes.rests for count in counts]
    measured = [without_forwards(model, config, count, length, probes.repeats) for config, count in sizes]
    features = [
        [1, config.num_steps, count * config.num_draft_tokens, count * config.topk * config.num_steps]
        for config, count in sizes
    ]
    shares = non_negative(np.array(features, dtype=float), np.array(measured))
    return dict(zip(TERMS, shares.tolist(), strict=True))


def without_forwards(model: Model[Tensor], config: SpecConfig, num_requests: int, length: int, repeats: int) -> float:
    """Return the seconds of an iteration whose forwards return at once what they have returned before."""
    still = StillModel(model)
    launch, _ = started(still, config, num_requests, use_graphs=False, length=length)
    launch()
    still.is_still = True
    launch, rewind = started(still, config, num_requests, use_graphs=uses_graphs(model), length=length)
    return seconds_of_launch(launch, rewind, repeats)


def iteration_seconds(model: Model[Tensor], config: SpecConfig, num_requests: int, length: int, repeats: int) -> float:
    """Return the seconds of a whole iteration: one graph where the model can be captured, and eager otherwise."""
    launch, rewind = started(model, config, num_requests, use_graphs=uses_graphs(model), length=length)
    return seconds_of_launch(launch, rewind, repeats)


def uses_graphs(model: Model[Tensor]) -> bool:
    """Return whether iterations of a model are captured here."""
    return DEVICE.type == "cuda" and model.description.is_capturable


def seconds_of(forward: Callable[[], Any], model: Model[Tensor], repeats: int) -> float:
    """Return the median seconds of a forward: of replays of a graph that holds it a few times, or of calls."""
    if not uses_graphs(model):
        return seconds_of_launch(forward, lambda: None, repeats)
    outputs: list[Any] = []

    def call() -> None:
        outputs.clear()
        for _ in range(CALLS_A_GRAPH):
            outputs.append(forward())

    graph = capture(call, None)
    outputs.clear()
    return median(repeated(graph.replay, repeats)) / CALLS_A_GRAPH / 1e6


def seconds_of_launch(launch: Callable[[], Any], rewind: Rewind, repeats: int) -> float:
    """Return the median seconds of launches, on the device where it is a GPU; ``rewind`` is not timed."""
    if DEVICE.type == "cuda":
        return median(repeated(launch, repeats, rewind)) / 1e6
    return median(_called(launch, rewind, repeats))


def _called(launch: Callable[[], Any], rewind: Rewind, repeats: int) -> Iterator[float]:
    for _ in range(repeats):
        rewind()
        start = perf_counter()
        launch()
        yield perf_counter() - start


def non_negative(features: np.ndarray[Any, Any], measured: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return the shares, none below 0, whose sums are nearest to what was measured, each in proportion to it."""
    scaled, kept = features / measured[:, None], list(range(features.shape[1]))
    shares = np.zeros(features.shape[1])
    while kept:
        found = np.linalg.lstsq(scaled[:, kept], np.ones(len(measured)), rcond=None)[0]
        if (found >= 0).all():
            shares[kept] = found
            break
        kept.pop(int(found.argmin()))
    return shares


def accepted_of(
    model: Model[Tensor], config: SpecConfig, prompts: Sequence[Sequence[int]], max_new_tokens: int
) -> list[tuple[int, int]]:
    """Return verifies and accepted drafts of each prompt, decoded on the worker."""
    requests = [Request(number, list(prompt), max_new_tokens) for number, prompt in enumerate(prompts)]
    worker = GpuWorker(config, model, sizes_for(config, requests, len(requests)), use_graphs=False)
    engine = Engine(worker, len(requests))
    for request in requests:
        engine.submit(request)
    return [(one.counters.num_verifies, one.counters.num_accepted_drafts) for one in engine.run()]
