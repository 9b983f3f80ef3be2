"""The toy models of the protocol, on the device; their forwards and heads can be captured."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from specsim.assertion import require_kind, require_present
from specsim.gpu.models.alone import hidden_before_chunks, hidden_before_steps
from specsim.gpu.models.block import features_after, last_slots, store_features
from specsim.gpu.models.forwards import draft_decode_forward, draft_extend_forward, target_forward
from specsim.gpu.models.frozen_forwards import frozen_kv_draft_forward
from specsim.gpu.models.heads import (
    hash_draft_probabilities,
    hash_sampling_logits,
    hash_target_logits,
    text_draft_probabilities,
    text_target_logits,
)
from specsim.gpu.models.layers import as_one, side_by_side
from specsim.gpu.models.lookback import tokens_before
from specsim.gpu.models.recurrence import Recurrence, after_chunks, after_nodes, keep_chains, keep_chunks, keep_nodes
from specsim.gpu.models.stored import digest, unpacked, write_back
from specsim.gpu.models.window import disturb
from specsim.gpu.verify import argmax_target_predict
from specsim.simulation.models.batches import DraftExtendBatch, DraftOutput, DraftStepBatch, TargetBatch, TargetOutput
from specsim.simulation.models.block import BlockBatch, FeatureBatch
from specsim.simulation.models.description import DraftSource, ModelDescription
from specsim.simulation.models.frozen import FrozenDraftBatch
from specsim.simulation.models.ground_truth import LanguageModel, heard
from specsim.simulation.models.hash_model import HashModel
from specsim.simulation.models.pool_kinds import KINDS_WITHOUT_KV, RECURRENT_KINDS, TAG_WORDS
from specsim.simulation.models.text_model import TextModel
from specsim.simulation.models.toys import describe

KV = Mapping[str, Sequence[Tensor]]


class ToyModel:
    """A hash or text model with its tables on a device.

    Parameters
    ----------
    language_model : HashModel or TextModel
        Its parameters.
    device : torch.device
        Where the worker's pools lie.
    """

    def __init__(self, language_model: LanguageModel, device: torch.device) -> None:
        self.language_model = language_model
        self.description: ModelDescription = describe(language_model, "torch")
        hot = language_model.hot_token_id
        self._hot_token_id = None if hot is None else torch.tensor(hot, device=device)
        self._target_layers = torch.tensor(language_model.kv_sharing or (), dtype=torch.int64, device=device)
        self._tables: tuple[Tensor, ...] = ()
        if isinstance(language_model, TextModel):
            counts = (language_model.target_counts, language_model.draft_counts)
            self._tables = tuple(torch.tensor(one, device=device) for one in counts)

    def prefill(self, batch: TargetBatch[Tensor], kv: KV, states: KV) -> TargetOutput[Tensor]:
        """Fold the keys of every token, or go on from the states of the rows; logits of the selected tokens."""
        batch = replace(batch, input_ids=heard(self.language_model, batch.input_ids, batch.positions))
        if self.language_model.target_pool not in RECURRENT_KINDS:
            return self._output(batch, self._attend(batch, kv))
        recurrence = after_chunks(batch, states)
        keep_chunks(recurrence, batch, states)
        return self._output(batch, self._combine(batch, kv, recurrence))

    def verify(self, batch: TargetBatch[Tensor], kv: KV, states: KV, scratch: KV) -> TargetOutput[Tensor]:
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

    def draft_step(self, batch: DraftStepBatch[Tensor], kv: KV) -> DraftOutput[Tensor]:
        """Advance every beam by its token."""
        kind = self.language_model.draft_pool
        kv_buffers = unpacked(kind, kv)
        before = batch.hidden_states
        if self._drafts_alone:
            before = hidden_before_steps(batch, kv_buffers[0], self.language_model.num_target_layers)
        hidden_states, context = draft_decode_forward(
            kv_buffers,
            batch.input_ids,
            require_present("hidden_states", before),
            batch.positions,
            batch.out_cache_loc,
            batch.keys.kv_indices,
            batch.keys.kv_indptr,
        )
        write_back(kind, kv, kv_buffers, batch.out_cache_loc)
        carried = None if self._drafts_alone else hidden_states
        return DraftOutput(self._propose(hidden_states, context, batch.depth), carried)

    def draft_extend(self, batch: DraftExtendBatch[Tensor], kv: KV) -> DraftOutput[Tensor]:
        """Advance every token's hidden states by it; proposals of the selected ones."""
        keys, kind = batch.keys, self.language_model.draft_pool
        kv_buffers = unpacked(kind, kv)
        if self._drafts_alone:
            before = hidden_before_chunks(batch, kv_buffers[0], self.language_model.num_target_layers)
        else:
            facts = require_present("hidden_states", batch.hidden_states)
            before = as_one(facts, self.description.draft_layers) if self.language_model.reads_all_layers else facts
        hidden_states, context = draft_extend_forward(
            kv_buffers,
            batch.input_ids,
            before,
            batch.positions,
            batch.out_cache_loc,
            keys.page_table,
            keys.cache_seqlens,
            keys.cu_seqlens_q,
            keys.page_size,
        )
        write_back(kind, kv, kv_buffers, batch.out_cache_loc)
        selected = hidden_states.index_select(0, batch.select)
        carried = None if self._drafts_alone else selected
        return DraftOutput(self._propose(selected, context.index_select(0, batch.select), 1), carried)

    @property
    def _drafts_alone(self) -> bool:
        """Whether the draft consumes tokens alone."""
        return self.description.draft_source is DraftSource.TOKENS

    def draft_frozen(self, batch: FrozenDraftBatch[Tensor], kv: KV) -> DraftOutput[Tensor]:
        """Advance every beam by its token, over the target's layers that those of the draft read."""
        hidden_states, foreseen, context = frozen_kv_draft_forward(
            unpacked(self.language_model.target_pool, kv),
            batch.input_ids,
            batch.hidden_states,
            batch.positions,
            batch.keys.kv_indices,
            batch.keys.kv_indptr,
            self._target_layers,
            batch.depth,
        )
        return DraftOutput(self._propose(foreseen, context, batch.depth), hidden_states)

    def project_features(self, batch: FeatureBatch[Tensor], kv: KV) -> None:
        """Store what the target's features say of each position, those of several layers as one."""
        if self.language_model.reads_all_layers:
            batch = replace(batch, features=as_one(batch.features, self.description.draft_layers))
        store_features(self.language_model.draft_pool, kv, batch, self.description.hidden_width)

    def draft_block(self, batch: BlockBatch[Tensor], kv: KV) -> DraftOutput[Tensor]:
        """Fold what each block sees; then go on, token by token, from the features of the last committed position."""
        keys, kind, num_nodes = batch.keys, self.language_model.draft_pool, batch.num_draft_tokens
        kv_buffers = unpacked(kind, kv)
        everyone = torch.ones(len(batch.positions) * num_nodes, dtype=torch.bool, device=batch.positions.device)
        folds = target_forward(
            kv_buffers,
            batch.input_ids,
            batch.positions,
            batch.out_cache_loc,
            keys.page_table,
            keys.cache_seqlens,
            keys.cu_seqlens_q,
            everyone,
            keys.page_size,
        )
        write_back(kind, kv, kv_buffers, batch.out_cache_loc)
        context = digest(folds[:, :-1].unbind(1)).view(-1, num_nodes)
        token, place = (one.view(-1, num_nodes)[:, 0] for one in (batch.input_ids, batch.positions))
        slots, num_words = last_slots(keys, num_nodes), self.description.hidden_width
        hidden_states = features_after(kind, kv, slots, place - 1, num_words)
        rows = []
        for depth in range(1, num_nodes):
            hidden_states = _advance(hidden_states, token, (place + depth - 2).clamp(min=0))
            rows.append(self._probabilities(hidden_states, context[:, depth].contiguous(), depth))
            token = argmax_target_predict(rows[-1])
        return DraftOutput(torch.stack(rows, dim=1).view(-1, self.language_model.vocab_size), None)

    def draft_layer(self, layer: int, batch: DraftExtendBatch[Tensor], kv: KV) -> DraftOutput[Tensor]:
        """Fold what one layer has, and advance the target's hidden state by every token up to the selected row's."""
        keys, kind, select = batch.keys, self.language_model.draft_pool, batch.select
        own = {name: [layers[layer]] for name, layers in kv.items()}
        kv_buffers = unpacked(kind, own)
        facts = require_present("hidden_states", batch.hidden_states)
        hidden_states = as_one(facts, self.description.draft_layers) if self.language_model.reads_all_layers else facts
        _, context = draft_extend_forward(
            kv_buffers,
            batch.input_ids,
            hidden_states,
            batch.positions,
            batch.out_cache_loc,
            keys.page_table,
            keys.cache_seqlens,
            keys.cu_seqlens_q,
            keys.page_size,
        )
        write_back(kind, own, kv_buffers, batch.out_cache_loc)
        tokens = (*tokens_before(kv_buffers[0], batch, layer), batch.input_ids.index_select(0, select))
        selected, first = hidden_states.index_select(0, select), batch.positions.index_select(0, select)
        for place, token in enumerate(tokens):
            selected = _advance(selected, token, first + place)
        return DraftOutput(self._propose(selected, context.index_select(0, select), layer + 1), None)

    def _attend(self, batch: TargetBatch[Tensor], kv: KV) -> Tensor:
        """Return the hidden states that the keys of the tokens come to."""
        keys, kind = batch.keys, self.language_model.target_pool
        kv_buffers = unpacked(kind, kv)
        hidden_states = target_forward(
            kv_buffers,
            batch.input_ids,
            batch.positions,
            batch.out_cache_loc,
            keys.page_table,
            keys.cache_seqlens,
            keys.cu_seqlens_q,
            batch.tree_mask,
            keys.page_size,
        )
        write_back(kind, kv, kv_buffers, batch.out_cache_loc)
        return disturb(hidden_states, batch, kv_buffers[:1])

    def _combine(self, batch: TargetBatch[Tensor], kv: KV, recurrence: Recurrence) -> Tensor:
        """Return what the states come to; beside attention, what that comes to and how far the two differ."""
        if self.language_model.target_pool in KINDS_WITHOUT_KV:
            return recurrence.hidden_states()
        return recurrence.beside(self._attend(batch, kv))

    def _output(self, batch: TargetBatch[Tensor], hidden_states: Tensor) -> TargetOutput[Tensor]:
        chosen = hidden_states if batch.select is None else hidden_states.index_select(0, batch.select)
        sampling_logits = self._sampling_logits(chosen) if batch.is_sampled else None
        return TargetOutput(self._logits(chosen), side_by_side(hidden_states, batch.hidden_layers), sampling_logits)

    def _logits(self, hidden_states: Tensor) -> Tensor:
        model = self.language_model
        if isinstance(model, HashModel):
            return hash_target_logits(hidden_states, model.vocab_size, model.seed)
        return text_target_logits(hidden_states, self._tables[0])

    def _sampling_logits(self, hidden_states: Tensor) -> Tensor:
        model = require_kind("model of sampled requests", self.language_model, HashModel)
        return hash_sampling_logits(hidden_states, model.vocab_size, model.seed)

    def _propose(self, hidden_states: Tensor, context: Tensor, depth: int) -> Tensor:
        probabilities = self._probabilities(hidden_states, context, depth)
        return probabilities if self._hot_token_id is None else probabilities.index_select(1, self._hot_token_id)

    def _probabilities(self, hidden_states: Tensor, context: Tensor, depth: int) -> Tensor:
        model = self.language_model
        if isinstance(model, HashModel):
            return hash_draft_probabilities(
                hidden_states, context, model.vocab_size, model.seed, model.agreement_at(depth)
            )
        return text_draft_probabilities(hidden_states, context, self._tables[1])


def _advance(hidden_states: Tensor, tokens: Tensor, positions: Tensor) -> Tensor:
    """Return the target's hidden states after one more token; what the draft's forward folds goes nowhere."""
    count, device = len(tokens), tokens.device
    nowhere = [torch.zeros((count, TAG_WORDS), dtype=torch.int64, device=device) for _ in range(2)]
    alone = torch.arange(count + 1, dtype=torch.int32, device=device)
    slots = alone[:-1].long()
    return draft_decode_forward(nowhere, tokens, hidden_states, positions, slots, alone[:-1], alone).next_hidden_states
