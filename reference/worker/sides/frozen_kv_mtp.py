"""The draft side of FROZEN_KV_MTP: it reads the target's KV, has none, and never catches up after a verify."""

from collections.abc import Callable, Sequence
from dataclasses import fields
from functools import partial
from typing import Any

import numpy as np

from specsim.assertion import require_kind, require_present
from specsim.config import SpecConfig
from specsim.conformance.arrays import Array
from specsim.operations.protocol import Operations
from specsim.phases import (
    Batch,
    DraftExtendInput,
    DraftInput,
    EagleDraftExtendInput,
    FrozenKVMTPDraftInput,
    FrozenKVMTPVerifyInput,
    PhaseTag,
    VerifyInput,
    VerifyOutput,
    expect_phase,
    to_frozen_kv_mtp_draft_extend_input,
)
from specsim.reference.worker.draft import link, map_hot, roots
from specsim.reference.worker.pools import Pools
from specsim.reference.worker.prefill import TargetPrefill
from specsim.reference.worker.sides.extended import ExtendedSide
from specsim.simulation.models.batches import DraftOutput, ListedKeys
from specsim.simulation.models.description import Side
from specsim.simulation.models.frozen import (
    FrozenDraftBatch,
    FrozenKVModel,
    require_frozen_model,
    shared_kv,
    warn_of_states,
)
from specsim.simulation.sides import Setting, SideFacts

Forward = Callable[[FrozenDraftBatch[Array]], DraftOutput[Array]]


class FrozenSide(ExtendedSide):
    """A draft over the target's KV: seeds start it, and it has no slots; beams are refused where other ranks wait.

    Notes
    -----
    Source: semantics D.11.
    """

    def __init__(self, setting: Setting) -> None:
        topk = setting.drafting.topk
        description = require_frozen_model(setting.model, "numpy", topk, setting.has_dp_attention)
        warn_of_states(description)
        super().__init__(setting, SideFacts.of_seeds(description, topk))
        self._model: FrozenKVModel[Array] = setting.model

    def join(self, rows: Sequence[int]) -> None:
        """Keep nothing of a request but its seed."""

    def prefill(self, after: TargetPrefill, pools: Pools) -> DraftInput:
        """Return seeds: the states of the last rows of the chunks; no forward runs."""
        del pools
        states = require_present("hidden states of the target", after.output.hidden_states)[after.last]
        return self._seeds(after.row, after.ends, after.following, states)

    def draft(
        self, start: DraftInput, config: SpecConfig, pools: Pools, verify_slots: Callable[[], Array]
    ) -> VerifyInput:
        """Draft over what is committed; what waited by row gets the tag."""
        forward = partial(self._forward, pools=pools)
        seeds = FrozenKVMTPDraftInput(**{field.name: getattr(start, field.name) for field in fields(DraftInput)})
        return draft_frozen(seeds, config, self._model, forward, pools.req_to_token, verify_slots, self._operations)

    def extend(
        self,
        row: Array,
        verify_input: VerifyInput,
        verify_output: VerifyOutput,
        phase: DraftExtendInput,
        pools: Pools,
    ) -> DraftInput:
        """Return what starts the next drafts: the rows that an extend would select, without its forward."""
        del pools
        expect_phase(phase, PhaseTag.EAGLE_DRAFT_EXTEND_V2)
        states = require_present("hidden states of the target", phase.hidden_states)[phase.select_index]
        seq_lens = np.asarray(verify_input.seq_lens + phase.num_accepted_tokens)
        return self._seeds(row, seq_lens, verify_output.bonus_tokens, states)

    def to_extend_input(self, phase: EagleDraftExtendInput) -> EagleDraftExtendInput:
        """Return it under the tag of FROZEN_KV_MTP."""
        return to_frozen_kv_mtp_draft_extend_input(phase)

    def extend_ragged(self, batch: Batch, pools: Pools) -> DraftInput:
        """Return what starts the next drafts of the requests that go on: their last tokens, and the states before."""
        del pools
        expect_phase(batch.info, PhaseTag.FROZEN_KV_MTP_DRAFT_EXTEND)
        phase = require_kind("what is installed", batch.info, EagleDraftExtendInput)
        selected = self._operations.select_last_verified(phase.num_accepted_tokens)
        states = require_present("hidden states of the target", phase.hidden_states)[selected]
        return self._seeds(phase.req_pool_indices, phase.seq_lens, phase.bonus_tokens, states)

    def state(self) -> dict[str, Any]:
        """Return nothing: seeds are the loop's."""
        return {}

    def _forward(self, batch: FrozenDraftBatch[Array], pools: Pools) -> DraftOutput[Array]:
        """Run the draft over the target's buffers that its layers read."""
        return self._model.draft_frozen(batch, shared_kv(self.facts.description, pools.kv[Side.TARGET]))

    def _seeds(self, row: Array, seq_lens: Array, bonus_tokens: Array, hidden_states: Array) -> FrozenKVMTPDraftInput:
        """Return a draft input of seeds, with zeros in the place of candidates."""
        count = len(row), self.facts.num_candidates
        return FrozenKVMTPDraftInput(
            req_pool_indices=row,
            seq_lens=seq_lens.astype(np.int64),
            topk_p=np.zeros(count, dtype=np.float32),
            topk_index=np.zeros(count, dtype=np.int64),
            hidden_states=hidden_states,
            bonus_tokens=bonus_tokens.astype(np.int32),
        )


def draft_frozen(
    phase: DraftInput,
    config: SpecConfig,
    model: FrozenKVModel[Array],
    forward: Forward,
    req_to_token: Array,
    verify_slots: Callable[[], Array],
    operations: Operations[Array],
) -> VerifyInput:
    """Draft a tree for every request: as many forwards as steps, of which the first one makes the candidates.

    Parameters
    ----------
    phase : FrozenKVMTPDraftInput
        Root and seed of each request; it carries no candidates.
    forward : callable
        Runs the draft of the model over the target's KV.
    req_to_token : int32 [row, position]
        The request-to-token map; no slot after the committed ones is read, and none is written.
    verify_slots : callable
        Returns int64 [request*node], the slots that the target will write; called when the trees are built.

    Notes
    -----
    Source: semantics D.11.
    """
    expect_phase(phase, PhaseTag.FROZEN_KV_MTP_DRAFT)
    if config.num_steps == 0:
        return roots(phase, verify_slots(), FrozenKVMTPVerifyInput)
    topk = config.topk
    beams = operations.prepare_for_frozen_kv_draft(phase.req_pool_indices, phase.seq_lens, topk)
    lengths = beams.beam_seq_lens
    metadata = operations.generate_attn_arg_prefill(
        beams.beam_req_pool_indices, req_to_token, lengths, np.ones(len(lengths), np.int32), int(lengths.sum())
    )
    keys = ListedKeys(metadata.kv_indices, metadata.kv_indptr, req_to_token.shape[1])
    input_ids = np.repeat(phase.bonus_tokens.astype(np.int64), topk)
    hidden_states = np.repeat(require_present("seed", phase.hidden_states), topk, axis=0)
    scores, choices = None, []
    for step in range(config.num_steps):
        drafted = forward(FrozenDraftBatch(input_ids, beams.positions, keys, hidden_states, step + 1))
        probabilities, carried = drafted.probabilities, require_present("what is carried on", drafted.hidden_states)
        if step == 0:
            # NOTE: all copies of a seed come to the same.
            probabilities, carried = probabilities[::topk], carried[::topk]
        proposal = operations.fast_topk(probabilities, topk)
        chosen = operations.select_top_k_tokens(
            step, proposal.topk_values, map_hot(proposal.topk_index, model, operations), carried, scores, topk
        )
        input_ids, scores = chosen.input_ids, chosen.next_scores
        hidden_states = require_present("what is carried on", chosen.next_hidden_states)
        choices.append(chosen)
    return link(phase, config, choices, verify_slots, operations, FrozenKVMTPVerifyInput)
