"""The toy models of the protocol, on NumPy arrays: every forward is one of the eight model operations."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

import numpy as np

from specsim.assertion import require_kind, require_present
from specsim.conformance.arrays import Array
from specsim.hashing import digest_rows
from specsim.operations.protocol import ModelOperations
from specsim.reference.models.alone import hidden_before_chunks, hidden_before_steps
from specsim.reference.models.block import features_after, last_slots, store_features
from specsim.reference.models.kept import KeptForwards
from specsim.reference.models.layers import as_one, side_by_side
from specsim.reference.models.lookback import tokens_before
from specsim.reference.models.recurrence import (
    Recurrence,
    after_chunks,
    after_nodes,
    keep_chains,
    keep_chunks,
    keep_nodes,
)
from specsim.reference.models.stored import StoredTags, blank, unpacked, write_back
from specsim.reference.models.window import disturb
from specsim.simulation.models.batches import DraftExtendBatch, DraftOutput, DraftStepBatch, TargetBatch, TargetOutput
from specsim.simulation.models.block import BlockBatch, FeatureBatch
from specsim.simulation.models.description import DraftSource, ModelDescription, Side
from specsim.simulation.models.frozen import FrozenDraftBatch
from specsim.simulation.models.ground_truth import LanguageModel, heard
from specsim.simulation.models.hash_model import HashModel
from specsim.simulation.models.kv_pool import KVPool
from specsim.simulation.models.moving import layer_by_layer
from specsim.simulation.models.pool_kinds import FORMS, KEYS, KINDS_WITHOUT_KV, RECURRENT_KINDS, TAG_WORDS
from specsim.simulation.models.toys import describe, kind_of

KV = Mapping[str, Sequence[Array]]
Forwards = ModelOperations[Array] | KeptForwards
ResultT = TypeVar("ResultT")


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
        """Fold the keys of every token, or go on from the states of the rows; logits of the selected tokens."""
        batch = replace(batch, input_ids=heard(self.language_model, batch.input_ids, batch.positions))
        if self.language_model.target_pool not in RECURRENT_KINDS:
            return self._output(batch, self._attend(batch, kv))
        recurrence = after_chunks(batch, states)
        keep_chunks(recurrence, batch, states)
        return self._output(batch, self._combine(batch, kv, recurrence))

    def verify(self, batch: TargetBatch[Array], kv: KV, states: KV, scratch: KV) -> TargetOutput[Array]:
        """Fold what every node sees, or go on from the state of its parent."""
        if self.language_model.target_pool not in RECURRENT_KINDS:
            return self._output(batch, self._attend(batch, kv))
        if batch.tree_mask is None:
            recurrence = after_chunks(batch, states)
            keep_chains(recurrence, batch, scratch)
        else:
            recurrence = after_nodes(batch, states)
            keep_nodes(recurrence, scratch)
        return self._output(batch, self._combine(batch, kv, recurrence))

    def draft_step(self, batch: DraftStepBatch[Array], kv: KV) -> DraftOutput[Array]:
        """Advance every beam by its token."""
        before = batch.hidden_states
        if self._drafts_alone:
            before = hidden_before_steps(batch, self._draft_keys(kv), self.language_model.num_target_layers)
        hidden_states, context = self._forward(
            Side.DRAFT,
            kv,
            batch.out_cache_loc,
            lambda forwards, kv_buffers: forwards.draft_decode_forward(
                kv_buffers=kv_buffers,
                input_ids=batch.input_ids,
                hidden_states=require_present("hidden_states", before),
                positions=batch.positions,
                out_cache_loc=batch.out_cache_loc,
                kv_indices=batch.keys.kv_indices,
                kv_indptr=batch.keys.kv_indptr,
            ),
        )
        carried = None if self._drafts_alone else hidden_states
        return DraftOutput(self._propose(hidden_states, context, batch.depth), carried)

    def draft_extend(self, batch: DraftExtendBatch[Array], kv: KV) -> DraftOutput[Array]:
        """Advance every token's hidden states by it; proposals of the selected ones."""
        if self._drafts_alone:
            before = hidden_before_chunks(batch, self._draft_keys(kv), self.language_model.num_target_layers)
        else:
            facts = require_present("hidden_states", batch.hidden_states)
            before = as_one(facts, self.description.draft_layers) if self.language_model.reads_all_layers else facts
        hidden_states, context = self._forward(
            Side.DRAFT,
            kv,
            batch.out_cache_loc,
            lambda forwards, kv_buffers: forwards.draft_extend_forward(
                kv_buffers=kv_buffers,
                input_ids=batch.input_ids,
                hidden_states=before,
                positions=batch.positions,
                out_cache_loc=batch.out_cache_loc,
                page_table=batch.keys.page_table,
                cache_seqlens=batch.keys.cache_seqlens,
                cu_seqlens_q=batch.keys.cu_seqlens_q,
                page_size=batch.keys.page_size,
            ),
        )
        selected = hidden_states[batch.select]
        carried = None if self._drafts_alone else selected
        return DraftOutput(self._propose(selected, context[batch.select], 1), carried)

    @property
    def _drafts_alone(self) -> bool:
        """Whether the draft consumes tokens alone."""
        return self.description.draft_source is DraftSource.TOKENS

    def _draft_keys(self, kv: KV) -> StoredTags:
        """Return the keys of the draft's lowest layer, where they are stored."""
        return StoredTags.of(FORMS[kind_of(self.language_model, Side.DRAFT)], kv)[0]

    def draft_layer(self, layer: int, batch: DraftExtendBatch[Array], kv: KV) -> DraftOutput[Array]:
        """Fold what one layer has, and advance the target's hidden state by every token up to the selected row's.

        Those before the row's own stand in the layer's KV, where a stale one shows.
        """
        facts = require_present("hidden_states", batch.hidden_states)
        hidden_states = as_one(facts, self.description.draft_layers) if self.language_model.reads_all_layers else facts

        def run(forwards: Forwards, kv_buffers: Sequence[Array]) -> tuple[Array, Array]:
            _, context = forwards.draft_extend_forward(
                kv_buffers=kv_buffers,
                input_ids=batch.input_ids,
                hidden_states=hidden_states,
                positions=batch.positions,
                out_cache_loc=batch.out_cache_loc,
                page_table=batch.keys.page_table,
                cache_seqlens=batch.keys.cache_seqlens,
                cu_seqlens_q=batch.keys.cu_seqlens_q,
                page_size=batch.keys.page_size,
            )
            return context, tokens_before(kv_buffers[0], batch, layer)

        own = {name: [layers[layer]] for name, layers in kv.items()}
        context, earlier = self._forward(Side.DRAFT, own, batch.out_cache_loc, run)
        selected, first = hidden_states[batch.select], batch.positions[batch.select]
        for place, token in enumerate([*earlier.T, batch.input_ids[batch.select]]):
            selected = self._advance(selected, token, first + place)
        return DraftOutput(self._propose(selected, context[batch.select], layer + 1), None)

    def project_features(self, batch: FeatureBatch[Array], kv: KV) -> None:
        """Store what the target's features say of each position, those of several layers as one."""
        if self.language_model.reads_all_layers:
            batch = replace(batch, features=as_one(batch.features, self.description.draft_layers))
        form = FORMS[kind_of(self.language_model, Side.DRAFT)]
        store_features(form, kv, batch, self.description.hidden_width)

    def draft_block(self, batch: BlockBatch[Array], kv: KV) -> DraftOutput[Array]:
        """Fold what each block sees; then go on, token by token, from the features of the last committed position."""
        num_nodes = batch.num_draft_tokens
        folds = self._forward(
            Side.DRAFT,
            kv,
            batch.out_cache_loc,
            lambda forwards, kv_buffers: forwards.target_forward(
                kv_buffers=kv_buffers,
                input_ids=batch.input_ids,
                positions=batch.positions,
                out_cache_loc=batch.out_cache_loc,
                page_table=batch.keys.page_table,
                cache_seqlens=batch.keys.cache_seqlens,
                cu_seqlens_q=batch.keys.cu_seqlens_q,
                tree_mask=np.ones(len(batch.positions) * num_nodes, dtype=np.bool_),
                page_size=batch.keys.page_size,
            ),
        )
        context = digest_rows(folds[:, :-1]).reshape(-1, num_nodes)
        token, place = (one.reshape(-1, num_nodes)[:, 0] for one in (batch.input_ids, batch.positions))
        form, slots = FORMS[kind_of(self.language_model, Side.DRAFT)], last_slots(batch.keys, num_nodes)
        hidden_states = features_after(form, kv, slots, place - 1, self.description.hidden_width)
        rows = []
        for depth in range(1, num_nodes):
            # NOTE: a block of padding stands at position 0, after which nothing is.
            hidden_states = self._advance(hidden_states, token, np.maximum(place + depth - 2, 0))
            rows.append(self._probabilities(hidden_states, context[:, depth], depth))
            token = np.argmax(rows[-1], axis=1)
        return DraftOutput(np.stack(rows, axis=1).reshape(-1, self.language_model.vocab_size), None)

    def _advance(self, hidden_states: Array, tokens: Array, positions: Array) -> Array:
        """Return the target's hidden states after one more token; what the draft's forward folds goes nowhere."""
        count = len(tokens)
        return self._operations.draft_decode_forward(
            kv_buffers=[np.zeros((count, TAG_WORDS), dtype=np.int64) for _ in range(2)],
            input_ids=tokens,
            hidden_states=hidden_states,
            positions=positions,
            out_cache_loc=np.arange(count),
            kv_indices=np.arange(count, dtype=np.int32),
            kv_indptr=np.arange(count + 1, dtype=np.int32),
        ).next_hidden_states

    def draft_frozen(self, batch: FrozenDraftBatch[Array], kv: KV) -> DraftOutput[Array]:
        """Advance every beam by its token, over the target's layers that those of the draft read."""
        forward = self._operations.frozen_kv_draft_forward(
            kv_buffers=unpacked(FORMS[kind_of(self.language_model, Side.TARGET)], kv),
            input_ids=batch.input_ids,
            hidden_states=batch.hidden_states,
            positions=batch.positions,
            kv_indices=batch.keys.kv_indices,
            kv_indptr=batch.keys.kv_indptr,
            target_layers=np.array(require_present("kv_sharing", self.language_model.kv_sharing), dtype=np.int64),
            depth=batch.depth,
        )
        probabilities = self._propose(forward.foreseen_hidden_states, forward.context, batch.depth)
        return DraftOutput(probabilities, forward.next_hidden_states)

    def _attend(self, batch: TargetBatch[Array], kv: KV) -> Array:
        """Return the hidden states that the keys of the tokens come to."""
        hidden_states = self._forward(
            Side.TARGET,
            kv,
            batch.out_cache_loc,
            lambda forwards, kv_buffers: forwards.target_forward(
                kv_buffers=kv_buffers,
                input_ids=batch.input_ids,
                positions=batch.positions,
                out_cache_loc=batch.out_cache_loc,
                page_table=batch.keys.page_table,
                cache_seqlens=batch.keys.cache_seqlens,
                cu_seqlens_q=batch.keys.cu_seqlens_q,
                tree_mask=batch.tree_mask,
                page_size=batch.keys.page_size,
            ),
        )
        return disturb(hidden_states, batch, kv.get(KEYS, ()))

    def _combine(self, batch: TargetBatch[Array], kv: KV, recurrence: Recurrence) -> Array:
        """Return what the states come to; beside attention, what that comes to and how far the two differ."""
        if self.language_model.target_pool in KINDS_WITHOUT_KV:
            return recurrence.hidden_states()
        return recurrence.beside(self._attend(batch, kv))

    def _output(self, batch: TargetBatch[Array], hidden_states: Array) -> TargetOutput[Array]:
        chosen = hidden_states if batch.select is None else hidden_states[batch.select]
        sampling_logits = self._sampling_logits(chosen) if batch.is_sampled else None
        return TargetOutput(self._logits(chosen), side_by_side(hidden_states, batch.hidden_layers), sampling_logits)

    def _forward(
        self, side: Side, kv: KV, out_cache_loc: Array, run: Callable[[Forwards, Sequence[Array]], ResultT]
    ) -> ResultT:
        """Run a forward on the tags of a side, which go back to where they are stored."""
        form = FORMS[kind_of(self.language_model, side)]
        if self._may_keep and isinstance(kv, KVPool) and kv.is_kept:
            if form.is_plain:
                layers = kv.layers()
                return run(KeptForwards(kv, layers), layers)
            return run(KeptForwards(kv, StoredTags.of(form, kv)), blank(form, kv))
        if form.is_plain:
            return run(self._operations, layer_by_layer(kv))
        buffers = unpacked(form, kv)
        result = run(self._operations, buffers)
        write_back(form, kv, buffers, out_cache_loc)
        return result

    def _logits(self, hidden_states: Array) -> Array:
        model = self.language_model
        if isinstance(model, HashModel):
            return self._operations.hash_target_logits(hidden_states, model.vocab_size, model.seed)
        return self._operations.text_target_logits(hidden_states, model.target_counts)

    def _sampling_logits(self, hidden_states: Array) -> Array:
        model = require_kind("model of sampled requests", self.language_model, HashModel)
        return self._operations.hash_sampling_logits(hidden_states, model.vocab_size, model.seed)

    def _propose(self, hidden_states: Array, context: Array, depth: int) -> Array:
        probabilities = self._probabilities(hidden_states, context, depth)
        hot_token_id = self.language_model.hot_token_id
        return probabilities if hot_token_id is None else probabilities[:, hot_token_id]

    def _probabilities(self, hidden_states: Array, context: Array, depth: int) -> Array:
        model = self.language_model
        if isinstance(model, HashModel):
            return self._operations.hash_draft_probabilities(
                hidden_states, context, model.vocab_size, model.seed, model.agreement_at(depth)
            )
        return self._operations.text_draft_probabilities(hidden_states, context, model.draft_counts)
