"""The toy models behind the protocol, on NumPy arrays: every forward is one of the eight model operations."""

from collections.abc import Mapping, Sequence

from specsim.assertion import require_kind, require_present
from specsim.conformance.arrays import Array
from specsim.operations.protocol import ModelOperations
from specsim.reference.models.kept import KeptForwards
from specsim.simulation.models.batches import DraftExtendBatch, DraftOutput, DraftStepBatch, TargetBatch, TargetOutput
from specsim.simulation.models.description import ModelDescription
from specsim.simulation.models.ground_truth import LanguageModel
from specsim.simulation.models.hash_model import HashModel
from specsim.simulation.models.kv_pool import KVPool
from specsim.simulation.models.toys import describe, layered

KV = Mapping[str, Sequence[Array]]


class ToyModel:
    """A hash or text model.

    Parameters
    ----------
    language_model : HashModel or TextModel
        Its parameters.
    operations : ModelOperations
        Who computes: the oracle, another implementation, or one with a planted fault.
    may_keep : bool
        Whether the forwards may be the oracle's own over digests that are kept, on pools that know who writes them.
    """

    def __init__(
        self, language_model: LanguageModel, operations: ModelOperations[Array], may_keep: bool = False
    ) -> None:
        self.language_model = language_model
        self.description: ModelDescription = describe(language_model, "numpy")
        self._operations = operations
        self._may_keep = may_keep

    def prefill(self, batch: TargetBatch[Array], kv: KV, states: KV) -> TargetOutput[Array]:
        """Fold the keys of every token; logits of the selected ones."""
        del states
        return self._run_target(batch, kv)

    def verify(self, batch: TargetBatch[Array], kv: KV, states: KV, scratch: KV) -> TargetOutput[Array]:
        """Fold what every node sees; it has no recurrent state."""
        del states, scratch
        return self._run_target(batch, kv)

    def draft_step(self, batch: DraftStepBatch[Array], kv: KV) -> DraftOutput[Array]:
        """Advance every beam by its token."""
        hidden_states, context = self._forwards(kv).draft_decode_forward(
            kv_buffers=layered(kv),
            input_ids=batch.input_ids,
            hidden_states=require_present("hidden_states", batch.hidden_states),
            positions=batch.positions,
            out_cache_loc=batch.out_cache_loc,
            kv_indices=batch.keys.kv_indices,
            kv_indptr=batch.keys.kv_indptr,
        )
        return DraftOutput(self._propose(hidden_states, context, batch.depth), hidden_states)

    def draft_extend(self, batch: DraftExtendBatch[Array], kv: KV) -> DraftOutput[Array]:
        """Advance every token's hidden states by it; proposals of the selected ones."""
        hidden_states, context = self._forwards(kv).draft_extend_forward(
            kv_buffers=layered(kv),
            input_ids=batch.input_ids,
            hidden_states=require_present("hidden_states", batch.hidden_states),
            positions=batch.positions,
            out_cache_loc=batch.out_cache_loc,
            page_table=batch.keys.page_table,
            cache_seqlens=batch.keys.cache_seqlens,
            cu_seqlens_q=batch.keys.cu_seqlens_q,
            page_size=batch.keys.page_size,
        )
        selected = hidden_states[batch.select]
        return DraftOutput(self._propose(selected, context[batch.select], 1), selected)

    def _run_target(self, batch: TargetBatch[Array], kv: KV) -> TargetOutput[Array]:
        hidden_states = self._forwards(kv).target_forward(
            kv_buffers=layered(kv),
            input_ids=batch.input_ids,
            positions=batch.positions,
            out_cache_loc=batch.out_cache_loc,
            page_table=batch.keys.page_table,
            cache_seqlens=batch.keys.cache_seqlens,
            cu_seqlens_q=batch.keys.cu_seqlens_q,
            tree_mask=batch.tree_mask,
            page_size=batch.keys.page_size,
        )
        chosen = hidden_states if batch.select is None else hidden_states[batch.select]
        sampling_logits = self._sampling_logits(chosen) if batch.is_sampled else None
        return TargetOutput(self._logits(chosen), hidden_states, sampling_logits)

    def _forwards(self, kv: KV) -> ModelOperations[Array] | KeptForwards:
        if self._may_keep and isinstance(kv, KVPool) and kv.is_kept:
            return KeptForwards(kv)
        return self._operations

    def _logits(self, hidden_states: Array) -> Array:
        model = self.language_model
        if isinstance(model, HashModel):
            return self._operations.hash_target_logits(hidden_states, model.vocab_size, model.seed)
        return self._operations.text_target_logits(hidden_states, model.target_counts)

    def _sampling_logits(self, hidden_states: Array) -> Array:
        model = require_kind("model of sampled requests", self.language_model, HashModel)
        return self._operations.hash_sampling_logits(hidden_states, model.vocab_size, model.seed)

    def _propose(self, hidden_states: Array, context: Array, depth: int) -> Array:
        model = self.language_model
        if isinstance(model, HashModel):
            probabilities = self._operations.hash_draft_probabilities(
                hidden_states, context, model.vocab_size, model.seed, model.agreement_at(depth)
            )
        else:
            probabilities = self._operations.text_draft_probabilities(hidden_states, context, model.draft_counts)
        return probabilities if model.hot_token_id is None else probabilities[:, model.hot_token_id]
