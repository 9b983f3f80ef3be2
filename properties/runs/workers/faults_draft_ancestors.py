"""A fault in what beams read while a tree is drafted: it changes proposals, never a token.

Beams change places and slots do not, so that a beam reads what lies at its own place; engines that put that right draft
other trees than those of the specification.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from specsim.config import PoolSizes, SpecConfig
from specsim.conformance.arrays import Array
from specsim.properties.mutants.record import Mutant, unchanged
from specsim.reference.worker.v2 import ReferenceWorker
from specsim.simulation.models.batches import DraftOutput, DraftStepBatch
from specsim.simulation.models.protocol import Model

KV = Mapping[str, Sequence[Array]]
SECOND_DEPTH = 2
"""Depth of the tokens that the first forward of a draft proposes."""


class OfTrueAncestors:
    """A model whose drafting beams read the slots that their ancestors wrote, wherever those stood."""

    def __init__(self, model: Model[Array]) -> None:
        self._model, self.description = model, model.description
        self.prefill, self.verify, self.draft_extend = model.prefill, model.verify, model.draft_extend
        self._written: list[list[int]] = []
        self._left = np.zeros((0, 0), dtype=np.int64)

    def draft_step(self, batch: DraftStepBatch[Array], kv: KV) -> DraftOutput[Array]:
        """Advance every beam on the slots of its ancestors: those of the beam whose hidden state it goes on from."""
        hidden, count = batch.hidden_states, len(batch.input_ids)
        before: list[list[int]] = [[] for _ in range(count)]
        if batch.depth > SECOND_DEPTH and hidden is not None and len(self._left) == count:
            same = (hidden[:, None] == self._left[None]).all(axis=2)
            before = [self._written[int(row.argmax())] for row in same]
        written = [[*slots, int(slot)] for slots, slot in zip(before, batch.out_cache_loc, strict=True)]
        indices = batch.keys.kv_indices.copy()
        for end, slots in zip(batch.keys.kv_indptr[1:].tolist(), written, strict=True):
            indices[end - len(slots) : end] = slots
        output = self._model.draft_step(replace(batch, keys=replace(batch.keys, kv_indices=indices)), kv)
        self._written, self._left = written, np.asarray(output.hidden_states)
        return output


class AncestorReader(ReferenceWorker):
    """Lets every beam read the slots of its true ancestors."""

    def __init__(
        self, config: SpecConfig, model: Model[Array], sizes: PoolSizes, *further: Any, **options: Any
    ) -> None:
        chosen = model if isinstance(model, OfTrueAncestors) else OfTrueAncestors(model)
        super().__init__(config, chosen, sizes, *further, **options)


MUTANTS = (
    Mutant(
        "OWN-3140",
        "select_top_k_tokens",
        "A beam reads the slots of its ancestors, not of its place.",
        unchanged,
        worker=AncestorReader,
    ),
)
