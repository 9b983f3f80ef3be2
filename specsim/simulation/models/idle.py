"""Idle batches, and pools that hold nothing but the dump: what a rank without requests runs its forwards on."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, TypeVar

from specsim.phases.form import Zeros
from specsim.simulation.models.batches import (
    DraftExtendBatch,
    DraftStepBatch,
    ListedKeys,
    PagedKeys,
    TargetBatch,
    WindowKeys,
)
from specsim.simulation.models.block import BlockBatch, FeatureBatch
from specsim.simulation.models.description import KVComponent, ModelDescription, Side
from specsim.simulation.models.frozen import FrozenDraftBatch

BatchT = TypeVar("BatchT")
DUMP_SLOTS = 64
"""Slots of the pools: a page of an indexer."""


@dataclass(frozen=True)
class IdleBatches:
    """Empty batches for the forwards of a model, made with ``zeros``.

    Notes
    -----
    Source: semantics D.10, J.3.
    """

    description: ModelDescription
    zeros: Zeros

    def prompts(self) -> TargetBatch[Any]:
        """Return chunks of no prompt."""
        return self._target(None)

    def trees(self, num_nodes: int) -> TargetBatch[Any]:
        """Return no tree of so many nodes."""
        return self._target(num_nodes)

    def beams(self) -> DraftStepBatch[Any]:
        """Return no beam."""
        return self._empty(DraftStepBatch, keys=self._lists(), hidden_states=self._hidden(), depth=2)

    def extend(self) -> DraftExtendBatch[Any]:
        """Return no token to catch up with."""
        heard = self._heard() if self.description.hidden_layers else None
        return self._empty(DraftExtendBatch, keys=self._keys(), hidden_states=heard)

    def frozen_beams(self) -> FrozenDraftBatch[Any]:
        """Return no beam of a draft over the target's KV."""
        return self._empty(FrozenDraftBatch, keys=self._lists(), hidden_states=self._hidden(), depth=1)

    def blocks(self, num_nodes: int) -> BlockBatch[Any]:
        """Return no block of so many positions."""
        return self._empty(BlockBatch, keys=self._keys(), num_draft_tokens=num_nodes)

    def features(self) -> FeatureBatch[Any]:
        """Return the features of no position."""
        return self._empty(FeatureBatch, features=self._heard())

    def states(self, *leading: int) -> Mapping[str, list[Any]]:
        """Return recurrent states with these leading axes."""
        return {
            one.name: [self.zeros((*leading, *one.row_shape), one.dtype) for _ in range(one.num_layers)]
            for one in self.description.state_components
        }

    def dump(self, side: Side) -> Mapping[str, list[Any]]:
        """Return pools of a side that hold the dump alone."""
        return self._buffers(self.description.components_of(side))

    def _target(self, num_nodes: int | None) -> TargetBatch[Any]:
        facts, window = self.description, None
        if facts.swa_components:
            table = self.zeros((0, 0), "int64")
            window = WindowKeys(self._buffers(facts.swa_components), self._ids(), table, facts.window)
        parents = num_nodes is not None and facts.state_components
        return self._empty(
            TargetBatch,
            keys=self._keys(),
            tree_mask=None if num_nodes is None else self.zeros((0,), "bool"),
            parents=self.zeros((0, num_nodes or 0), "int64") if parents else None,
            select=self._ids() if num_nodes is None else None,
            hidden_layers=facts.hidden_layers,
            is_sampled=False,
            window_keys=window,
        )

    def _empty(self, kind: type[BatchT], **given: Any) -> BatchT:
        """Return a batch of a kind without a row; of a field that is not given it has no id, position or slot."""
        return kind(**{one.name: self._ids() for one in fields(kind) if one.name not in given}, **given)  # type: ignore[arg-type]

    def _ids(self) -> Any:
        return self.zeros((0,), "int64")

    def _keys(self) -> PagedKeys[Any]:
        return PagedKeys(self.zeros((0, 0), "int32"), self.zeros((0,), "int32"), self.zeros((1,), "int32"), 1)

    def _lists(self) -> ListedKeys[Any]:
        """Return no list; there is room for a key, which a forward may load and throw away."""
        return ListedKeys(self.zeros((1,), "int32"), self.zeros((1,), "int32"), 1)

    def _heard(self) -> Any:
        """Return the target's hidden states, of the layers that the draft consumes."""
        facts = self.description
        return self.zeros((0, facts.hidden_width * len(facts.hidden_layers)), facts.hidden_dtype)

    def _hidden(self) -> Any:
        facts = self.description
        return self.zeros((0, facts.draft_hidden_width), facts.hidden_dtype) if facts.has_draft_hidden else None

    def _buffers(self, components: Sequence[KVComponent]) -> Mapping[str, list[Any]]:
        return {
            one.name: [self.zeros(one.buffer_shape(DUMP_SLOTS), one.dtype) for _ in range(one.num_layers)]
            for one in components
        }
