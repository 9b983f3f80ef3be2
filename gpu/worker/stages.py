"""What a batch runs on the device, stage after stage: between them the host writes slots and changes logits."""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from specsim.config import SpecConfig
from specsim.gpu.arrays import DEVICE
from specsim.gpu.worker.carried import DeviceWaiting
from specsim.gpu.worker.choices import ChoiceRows
from specsim.gpu.worker.compact import move_accepted
from specsim.gpu.worker.cut import cut_drafts
from specsim.gpu.worker.graphs import Kind, capture
from specsim.gpu.worker.pools import Buffers, Pools
from specsim.gpu.worker.prefill import TargetPrefill
from specsim.gpu.worker.transfer import pinned
from specsim.gpu.worker.verify import run_target, verify, verify_keys
from specsim.phases import VerifyInput, VerifyOutput
from specsim.simulation.models.batches import TargetOutput
from specsim.simulation.models.protocol import Model
from specsim.simulation.sides import DraftSide, Followed

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

    def __init__(self, shared: Shared, kind: Kind, parts: Parts, like: Any, size: int, is_v1: bool) -> None:
        self._shared, self._kind = shared, kind
        self._config = shared.side.facts.sizes_at(shared.config, kind.num_steps)
        self._parts = {part[-1]: part for part in parts}
        self._batch = padding_of(like, size)
        num_slots = size * self._config.num_draft_tokens
        self._window = torch.zeros(num_slots, dtype=torch.int64, device=DEVICE) if is_v1 else None
        self._deepest = torch.zeros(size, dtype=torch.int64, device=DEVICE) if kind.is_cut else None
        self._graphs: dict[str, torch.cuda.CUDAGraph] = {}

    def load(self, batch: Any, window: Tensor | None = None, own_steps: Sequence[int] | None = None) -> None:
        """Bring a batch to where the stages read it, without waiting; padding stays after it."""
        load(self._batch, batch)
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
        elif stage in self._parts:
            self._run_part(self._parts[stage])

    def capture(self, memory: Any | None) -> Any:
        """Capture every part into the memory that all graphs of the worker share, and return that memory.

        A capture runs nothing, so each graph is replayed once: the warm-up of the next part reads what it leaves.
        """
        for stage, part in self._parts.items():
            graph = capture(partial(self._run_part, part), memory)
            graph.replay()
            self._graphs[stage], memory = graph, graph.pool()
        if len(self._parts) == 1:
            # NOTE: no host reads what lies inside of one graph, so that later ones may have its memory.
            del self.output, self._verified
        return memory

    def _run_part(self, part: Sequence[str]) -> None:
        for stage in part:
            {"draft": self._draft, "target": self._target, "accept": self._accept, "settle": self._settle}[stage]()

    def _draft(self) -> None:
        """Draft from what waits and, where the draft borrows slots, on those that the map has."""
        shared, window = self._shared, self._window
        start = self.start = shared.waiting.read(self._batch)
        width = self._config.num_draft_tokens

        def verify_slots() -> Tensor:
            return shared.pools.read_slots(start.req_pool_indices, start.seq_lens.long(), width)

        slots = verify_slots if window is None else lambda: window
        drafted = shared.side.draft(start, self._config, shared.pools, slots)
        self.verify_input = drafted if self._deepest is None else cut_drafts(drafted, self._deepest)

    def _target(self) -> None:
        """Run the target over what is drafted; the slots that it writes are in the map."""
        shared, rows = self._shared, self.start.req_pool_indices
        keys = verify_keys(rows, self.verify_input, shared.pools)
        self._verified = shared.pools.after(keys)
        self.output, self.scratch = run_target(
            rows, self.verify_input, keys, shared.model, shared.pools, *self._kind.wants
        )

    def _accept(self) -> None:
        """Accept along the trees by logits that are final."""
        decided_by = self._shared.choices.deciding(self._kind.is_sampled, self._kind.has_rules)
        self.verify_output = verify(
            self.start.req_pool_indices, self.verify_input, self.output, self._config.num_steps, *decided_by
        )

    def _settle(self) -> None:
        """Keep states and KV of the accepted paths, and let a draft follow that is not the host's."""
        shared, pools, rows = self._shared, self._shared.pools, self.start.req_pool_indices
        phase, accepted, num_nodes = self.verify_input, self.verify_output, self._config.num_draft_tokens
        if pools.states:
            counts = accepted.num_accepted_tokens
            pools.commit_states(self.scratch, rows, phase.seq_lens, accepted.accept_index, counts, num_nodes)
        if shared.branches > 1:
            move_accepted(phase, accepted, self._config.num_steps, pools)
        if not shared.side.facts.drafts_on_host:
            self.followed = shared.side.follow(self.start, phase, accepted, self._config, self._verified)
            shared.waiting.keep(self.followed.start)


def padding_of(batch: Batch, size: int) -> Batch:
    """Return a batch of requests that are padding: zeros, in row 0 and of length 1, as many as are asked for."""
    padding: dict[str, Any] = {}
    for name, values in _tensors(batch).items():
        padding[name] = torch.zeros((size, *values.shape[1:]), dtype=values.dtype, device=DEVICE)
        if name == "seq_lens":
            padding[name].fill_(1)
    changed: Batch = replace(batch, **padding)  # type: ignore[type-var]
    return changed


def load(held: Any, batch: Any) -> None:
    """Copy a batch into the front of a larger one, without waiting; the rest of that becomes padding."""
    for name, values in _tensors(batch).items():
        there = getattr(held, name)
        there[: len(values)].copy_(values, non_blocking=True)
        if len(values) < len(there):
            there[len(values) :].fill_(int(name == "seq_lens"))


def _tensors(batch: Any) -> dict[str, Tensor]:
    """Return the tensors of a batch by name."""
    values = {field.name: getattr(batch, field.name) for field in fields(batch)}
    return {name: value for name, value in values.items() if isinstance(value, Tensor)}
