"""What a batch runs on the device, stage after stage: between them the host writes slots and changes logits."""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from specsim import gpu
from specsim.assertion import require_present
from specsim.config import SpecConfig
from specsim.gpu.launching.simulated import SimulatedGraph
from specsim.gpu.worker.carried import DeviceWaiting
from specsim.gpu.worker.choices import Asked, ChoiceRows
from specsim.gpu.worker.cut import cut_drafts
from specsim.gpu.worker.fused import finish_paths
from specsim.gpu.worker.graphs import Graph, Kind, bucket_for, bucket_sizes, capture
from specsim.gpu.worker.pools import Buffers, Pools
from specsim.gpu.worker.prefill import TargetPrefill
from specsim.gpu.worker.rules import writable
from specsim.gpu.worker.sampling import accept, greedy_choices, links_of
from specsim.gpu.worker.scheduled import Admitted, admit, cap, compact_batch, on_the_host, scatter_output
from specsim.gpu.worker.static import poison_static, require_guards, static_zeros
from specsim.gpu.worker.transfer import pinned
from specsim.phases import VerifyInput, VerifyOutput
from specsim.simulation.models.batches import TargetBatch, TargetOutput
from specsim.simulation.models.description import Side
from specsim.simulation.models.protocol import Model
from specsim.simulation.models.reported_states import layers_to_ask, part_states
from specsim.simulation.numbers import Widths
from specsim.simulation.sides import DraftSide, Followed
from specsim.simulation.verification import Verified, VerifyLimits

Batch = TypeVar("Batch")
DeviceSide = DraftSide[Tensor, Pools, TargetPrefill, DeviceWaiting]

Parts = tuple[tuple[str, ...], ...]
"""The stages of a batch, in order: those of a part run without the host, and are one graph."""

BORROWING: Parts = (("draft",), ("target",), ("accept",))
"""Stages of V1, where the host writes the slots of the verify over those that the draft borrows."""

SETTLING: Parts = (("draft", "target"), ("accept",))
"""Stages of V1 with a draft that borrows nothing."""

HALVES: Parts = (("draft", "target"), ("accept", "settle"))
"""Stages of V2, where the host changes logits or goes on from them."""

WHOLE: Parts = (("draft", "target", "accept", "settle"),)
"""Stages of V2 that the host leaves alone."""


@dataclass(frozen=True)
class Shared:
    """What all batches of a worker share; ``branches`` is the branching factor of its drafts."""

    config: SpecConfig
    model: Model[Tensor]
    pools: Pools
    choices: ChoiceRows
    side: DeviceSide
    waiting: DeviceWaiting
    branches: int


class Stages:
    """The stages of one batch, run in order, each when it is asked for; the attributes are what they left.

    Once captured, a part replays, and reads whatever ``load`` has brought. ``own_steps`` are those that it has brought
    last, on the host.

    Parameters
    ----------
    shared : Shared
        The worker's.
    kind : Kind
        How deep drafts are, and what requests ask for.
    parts : Parts
        Which stages run together.
    like : dataclass
        A batch as ``take`` of what waits returns it, of any number of requests.
    size : int
        Requests of this one, those that pad it included.
    is_v1 : bool
        Whether the host brings the slots that the target writes; otherwise the map has them.
    """

    start: Any
    verify_input: VerifyInput
    output: TargetOutput[Tensor]
    scratch: Buffers
    verify_output: VerifyOutput
    followed: Followed[Tensor]
    own_steps: Sequence[int] | None = None
    _admitted: Admitted | None = None
    _trim: Tensor | None = None

    def __init__(self, shared: Shared, kind: Kind, parts: Parts, like: Any, size: int, is_v1: bool) -> None:
        self._shared, self._kind = shared, kind
        self._config = shared.side.facts.sizes_at(shared.config, kind.num_steps)
        self._parts = {part[-1]: part for part in parts}
        self._batch = padding_of(like, size)
        num_slots = size * self._config.num_draft_tokens
        self._window = static_zeros((num_slots,), torch.int64) if is_v1 else None
        self._deepest = static_zeros((size,), torch.int64) if kind.is_cut else None
        self._graphs: dict[str, Graph] = {}

    def load(self, batch: Any, window: Tensor | None = None, own_steps: Sequence[int] | None = None) -> None:
        """Bring a batch to where the stages read it, without waiting; padding stays after it."""
        for name, values in poison_static(self._loaded(), _tensors(batch)).items():
            held = getattr(self._batch, name)
            held[: len(values)].copy_(values, non_blocking=True)
            if len(values) < len(held):
                held[len(values) :].fill_(int(name == "seq_lens"))
        self.own_steps = own_steps
        if self._deepest is not None and own_steps is not None:
            self._deepest[: len(own_steps)].copy_(pinned(np.array(own_steps, dtype=np.int64)), non_blocking=True)
            self._deepest[len(own_steps) :].zero_()
        if self._window is not None and window is not None:
            self._window[: len(window)].copy_(window)
            self._window[len(window) :].zero_()

    def run(self, stage: str) -> None:
        """Run the part that ends with a stage; nothing where the stage is inside of a part."""
        if stage in self._graphs:
            self._graphs[stage].replay()
            require_guards(self._loaded())
            return
        steps = {"draft": self._draft, "target": self._target, "accept": self._accept, "settle": self._settle}
        for one in self._parts.get(stage, ()):
            steps[one]()

    def verified(self, live: int) -> Verified | None:
        """Wait for what live requests verified, and return it; None where everything is."""
        if self._admitted is None:
            return None
        return on_the_host(self._admitted, require_present("trim", self._trim), live)

    def _loaded(self) -> dict[str, Tensor]:
        """Return the buffers that ``load`` fills, by name."""
        own = {"window": self._window, "deepest": self._deepest}
        return _tensors(self._batch) | {name: values for name, values in own.items() if values is not None}

    def capture(self, memory: Any | None) -> Any:
        """Capture every part into the memory that all graphs of the worker share, and return that memory.

        A capture runs nothing, so each graph is replayed once: the warm-up of the next part reads what it leaves. The
        last one's first replay brings a GPU what it needs for the others.
        """
        *_, last = self._parts
        for stage in self._parts:
            graph = capture(partial(self.run, stage), memory)
            if stage != last or not isinstance(graph, SimulatedGraph):
                graph.replay()
            self._graphs[stage], memory = graph, graph.pool()
        if len(self._parts) == 1:
            # NOTE: no host reads what lies inside of one graph, so that later ones may have its memory.
            del self.output, self._verified, self._moved, self._keys
        return memory

    def _draft(self) -> None:
        """Draft from what waits and, where the draft borrows slots, on those that the map has."""
        shared, slots = self._shared, self._window
        start = self.start = shared.waiting.read(self._batch)
        if slots is None:
            num_nodes = self._config.num_draft_tokens
            slots, self._keys = shared.pools.nodes(start.req_pool_indices, start.seq_lens, num_nodes, gpu)
        drafted = shared.side.draft(start, self._config, shared.pools, lambda: slots)
        self.verify_input = drafted if self._deepest is None else cut_drafts(drafted, self._deepest)

    def _target(self) -> None:
        """Run the target over what is drafted, on slots that are in the map: logits, and the state after every node."""
        shared, kind, rows, phase = self._shared, self._kind, self.start.req_pool_indices, self.verify_input
        pools, description = shared.pools, shared.model.description
        if self._window is not None:
            # NOTE: the host has written the slots of the nodes since they were drafted.
            _, self._keys = pools.nodes(rows, phase.seq_lens, phase.num_draft_tokens, gpu)
        keys = self._keys
        self._verified, self.scratch = pools.after(keys), pools.scratch(len(rows), phase.num_draft_tokens)
        batch = TargetBatch(
            req_pool_indices=rows,
            input_ids=phase.draft_token,
            positions=phase.positions,
            out_cache_loc=phase.out_cache_loc,
            prefix_lens=phase.seq_lens,
            keys=keys,
            tree_mask=phase.tree_mask,
            parents=parents_of(phase) if pools.states else None,
            select=None,
            hidden_layers=layers_to_ask(description, kind.hands_states),
            is_sampled=kind.is_sampled,
            window_keys=pools.window_keys(keys.page_table, phase.out_cache_loc),
        )
        if kind.limits is not None:
            deepest = require_present("deepest", self._deepest)
            self._admitted = admit(phase, kind.limits, deepest, description)
        is_compact = self._admitted is not None and self._admitted.is_compact
        if self._admitted is not None and is_compact:
            batch = compact_batch(batch, phase, self._admitted, pools)
        output = shared.model.verify(batch, pools.kv[Side.TARGET], pools.states, self.scratch)
        if self._admitted is not None and is_compact:
            output = scatter_output(output, phase, self._admitted)
        output = part_states(description, output, kind.hands_states)
        self.output = writable(output) if kind.has_rules else output

    def _accept(self) -> None:
        """Accept along the trees by logits that are final: greedily, or by chance for the whole batch.

        Rules change the logits in place before, and what is accepted is committed to their rows.
        """
        choices, kind, phase, output = self._shared.choices, self._kind, self.verify_input, self.output
        rows, num_steps = self.start.req_pool_indices, self._config.num_steps
        if kind.has_rules:
            choices.rules.apply(rows, phase.draft_token, phase.tree_mask, output)
        target_predict = greedy_choices(output)
        if kind.is_sampled:
            asked = choices.gather(rows), choices.is_top_k_exact, choices.acceptance
            accepted = accept(phase, output, target_predict, num_steps, *asked)
        else:
            greedy = target_predict.view(phase.retrieve_index.shape)
            accepted = gpu.verify_tree_greedy(*links_of(phase), greedy, num_steps)
        if self._admitted is not None:
            accepted, self._trim = cap(accepted, phase, self._admitted)
        predict, accept_index, num_accepted_drafts = accepted
        if kind.has_rules:
            choices.rules.commit(rows, accept_index, predict)
        finished = finish_paths(predict, accept_index, num_accepted_drafts, phase.out_cache_loc)
        self._moved = finished.target_slots, finished.source_slots
        self.verify_output = VerifyOutput(
            target_predict=target_predict,
            predict=predict,
            accept_index=accept_index,
            num_accepted_drafts=num_accepted_drafts,
            num_accepted_tokens=finished.num_accepted_tokens,
            bonus_tokens=finished.bonus_tokens,
            hidden_states=output.hidden_states,
        )

    def _settle(self) -> None:
        """Keep states and KV of the accepted paths, and let a draft follow that is not the host's."""
        shared, pools, rows = self._shared, self._shared.pools, self.start.req_pool_indices
        phase, accepted, num_nodes = self.verify_input, self.verify_output, self._config.num_draft_tokens
        if pools.states:
            counts = accepted.num_accepted_tokens
            pools.commit_states(self.scratch, rows, phase.seq_lens, accepted.accept_index, counts, num_nodes)
        if shared.branches > 1:
            pools.move_kv(Side.TARGET, *self._moved, gpu)
        if not shared.side.facts.drafts_on_host:
            self.followed = shared.side.follow(self.start, phase, accepted, self._config, self._verified)
            shared.waiting.keep(self.followed.start)


class Batches:
    """The stages of a worker's batches, by size and kind: captured where there are graphs, and made anew elsewhere.

    Parameters
    ----------
    shared : Shared
        The worker's.
    is_v1, use_graphs : bool
        Whether the host brings slots, and whether stages are captured.
    pads : bool
        Whether batches are padded to buckets in eager mode too.
    most_requests : int
        Requests of the largest batch.
    """

    def __init__(self, shared: Shared, is_v1: bool, use_graphs: bool, pads: bool, most_requests: int) -> None:
        self._shared, self._is_v1, self._use_graphs = shared, is_v1, use_graphs
        self._buckets = bucket_sizes(most_requests) if pads or use_graphs else ()
        self.captured: dict[tuple[int, Kind, Parts], Stages] = {}
        self._memory: Any = None

    def capture_greedy(self, parts: Parts) -> None:
        """Capture the widest batches of greedy requests, the largest first."""
        idle = self._shared.waiting.take([])
        for size in reversed(self._buckets):
            self._capture(size, Kind(self._shared.config.num_steps, False), parts, idle)

    def load(
        self,
        start: Any,
        widths: Widths,
        asked: Asked,
        parts: Parts,
        window: Tensor | None = None,
        limits: VerifyLimits | None = None,
    ) -> Stages:
        """Return the stages of a batch, to which it is brought: padded to its bucket, and captured where graphs are."""
        live, own_steps, num_steps = len(asked.choices), widths.own_steps, widths.config.num_steps
        if limits is not None and own_steps is None:
            # NOTE: padding has no drafts, and must not spend of the budget.
            own_steps = (num_steps,) * live
        kind = Kind(num_steps, asked.is_sampled, asked.hands_states, asked.has_rules, own_steps is not None, limits)
        size = bucket_for(live, self._buckets) if self._buckets and live else live
        if self._use_graphs and live:
            stages = self._capture(size, kind, parts, start)
        else:
            stages = Stages(self._shared, kind, parts, start, size, self._is_v1)
        stages.load(start, window, own_steps)
        return stages

    def _capture(self, size: int, kind: Kind, parts: Parts, like: Any) -> Stages:
        """Return the graphs of a bucket; those of batches that are sampled, narrower or cut are captured as needed."""
        if (size, kind, parts) not in self.captured:
            stages = Stages(self._shared, kind, parts, like, size, self._is_v1)
            self._memory = stages.capture(self._memory)
            self.captured[size, kind, parts] = stages
        return self.captured[size, kind, parts]


def padding_of(batch: Batch, size: int) -> Batch:
    """Return a batch of requests that are padding: zeros, in row 0 and of length 1, as many as are asked for."""
    padding: dict[str, Any] = {}
    for name, values in _tensors(batch).items():
        padding[name] = static_zeros((size, *values.shape[1:]), values.dtype)
        if name == "seq_lens":
            padding[name].fill_(1)
    changed: Batch = replace(batch, **padding)  # type: ignore[type-var]
    return changed


def _tensors(batch: Any) -> dict[str, Tensor]:
    """Return the tensors of a batch by name."""
    values = {field.name: getattr(batch, field.name) for field in fields(batch)}
    return {name: value for name, value in values.items() if isinstance(value, Tensor)}


def parents_of(phase: VerifyInput) -> Tensor:
    """Return int64 [request, node]: the last ancestor of each node, -1 for the root; parents come before children."""
    num_nodes = phase.num_draft_tokens
    is_ancestor = phase.tree_mask.view(-1, num_nodes, num_nodes).tril(-1)
    number = torch.arange(1, num_nodes + 1, device=is_ancestor.device)
    return (is_ancestor * number).amax(dim=2) - 1
