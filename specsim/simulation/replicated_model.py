"""A model for ranks that run the same requests: what it says is what the first of them computed.

Ranks that share out one model differ in the last bits of what they gather, and a coin or a tie decides by them. A rank
that went its own way once would launch other forwards from then on.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from specsim.assertion import require_kind
from specsim.conformance.arrays import Array
from specsim.host.ranks import broadcast_decision
from specsim.simulation.models.batches import DraftExtendBatch, DraftOutput, DraftStepBatch, TargetBatch, TargetOutput
from specsim.simulation.models.block import BlockBatch, BlockModel, FeatureBatch
from specsim.simulation.models.frozen import FrozenDraftBatch, FrozenKVModel
from specsim.simulation.models.layered import LayeredModel
from specsim.simulation.models.protocol import Model
from specsim.simulation.ranks import Group

ArrayT = TypeVar("ArrayT")
Buffers = Mapping[str, Sequence[Any]]
Words = NDArray[np.int64]


class NumpyWords:
    """Says rows of NumPy arrays in words, bit for bit."""

    def words_of(self, values: Array) -> Words:
        """Return the elements of an array, each as a word."""
        bits: Words = np.ascontiguousarray(values).reshape(-1).view(f"i{values.itemsize}").astype(np.int64)
        return bits

    def values_of(self, words: Words, like: Array) -> Array:
        """Return the array that words say, in the shape and of the type of another."""
        return words.astype(f"i{like.itemsize}").view(like.dtype).reshape(like.shape)


class OneVoiceModel(Generic[ArrayT]):
    """Another model, whose logits and proposals are those of the first rank that is left.

    Every rank runs every forward, and writes KV and states of its own. Hidden states go no further than the draft, and
    stay each rank's.

    Parameters
    ----------
    model : Model
        Whose forwards run.
    group : Group
        The ranks that run the same requests.
    form : NumpyWords
        Says arrays in words; NumPy's by default.

    Notes
    -----
    Source: semantics B.8.
    """

    def __init__(self, model: Model[ArrayT], group: Group, form: Any = None) -> None:
        self.inner = model
        self.group = group
        # NOTE: what ranks say passes through the host, which a captured forward would not ask again.
        self.description = replace(model.description, is_capturable=False)
        self._form: Any = form or NumpyWords()

    def prefill(self, batch: TargetBatch[ArrayT], kv: Buffers, states: Buffers) -> TargetOutput[ArrayT]:
        """Run chunks of prompts."""
        return self._target(self.inner.prefill(batch, kv, states))

    def verify(
        self, batch: TargetBatch[ArrayT], kv: Buffers, states: Buffers, scratch: Buffers
    ) -> TargetOutput[ArrayT]:
        """Run trees."""
        return self._target(self.inner.verify(batch, kv, states, scratch))

    def draft_step(self, batch: DraftStepBatch[ArrayT], kv: Buffers) -> DraftOutput[ArrayT]:
        """Run one token a beam."""
        return self._draft(self.inner.draft_step(batch, kv))

    def draft_extend(self, batch: DraftExtendBatch[ArrayT], kv: Buffers) -> DraftOutput[ArrayT]:
        """Run the tokens with which the draft catches up."""
        return self._draft(self.inner.draft_extend(batch, kv))

    def draft_layer(self, layer: int, batch: DraftExtendBatch[ArrayT], kv: Buffers) -> DraftOutput[ArrayT]:
        """Run the window of a layer."""
        return self._draft(self._having(LayeredModel).draft_layer(layer, batch, kv))

    def draft_frozen(self, batch: FrozenDraftBatch[ArrayT], kv: Buffers) -> DraftOutput[ArrayT]:
        """Run one token a beam over the target's KV."""
        return self._draft(self._having(FrozenKVModel).draft_frozen(batch, kv))

    def draft_block(self, batch: BlockBatch[ArrayT], kv: Buffers) -> DraftOutput[ArrayT]:
        """Run blocks."""
        return self._draft(self._having(BlockModel).draft_block(batch, kv))

    def project_features(self, batch: FeatureBatch[ArrayT], kv: Buffers) -> None:
        """Make KV of features; nothing is said."""
        self._having(BlockModel).project_features(batch, kv)

    def _target(self, output: TargetOutput[ArrayT]) -> TargetOutput[ArrayT]:
        sampled = None if output.sampling_logits is None else self._said("sampling logits", output.sampling_logits)
        return replace(output, logits=self._said("logits", output.logits), sampling_logits=sampled)

    def _draft(self, output: DraftOutput[ArrayT]) -> DraftOutput[ArrayT]:
        return replace(output, probabilities=self._said("proposals", output.probabilities))

    def _said(self, what: str, own: ArrayT) -> ArrayT:
        """Return what the first rank has; it says so, and the others say nothing."""
        said = broadcast_decision(what, self._form.words_of(own), self.group)
        values: ArrayT = self._form.values_of(said, own)
        return values

    def _having(self, kind: Any) -> Any:
        """Return the other model, which has the forwards of a kind of draft."""
        return require_kind("the model of several ranks", self.inner, kind)
