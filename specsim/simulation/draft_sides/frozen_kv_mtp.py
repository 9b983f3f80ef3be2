"""The draft side of FROZEN_KV_MTP: it reads the target's KV, has none, and never catches up after a verify."""

from collections.abc import Sequence
from dataclasses import fields
from typing import Any

from specsim.assertion import require_present
from specsim.config import SpecConfig
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
from specsim.simulation.draft_sides.extended import ExtendedSide, installed
from specsim.simulation.draft_sides.layer import AnyPools
from specsim.simulation.draft_sides.trees import VerifySlots, link, roots
from specsim.simulation.models.batches import DraftOutput
from specsim.simulation.models.description import Side
from specsim.simulation.models.frozen import (
    FrozenDraftBatch,
    FrozenKVModel,
    require_frozen_model,
    shared_kv,
    warn_of_states,
)
from specsim.simulation.sides import Setting, SideFacts


class FrozenSide(ExtendedSide):
    """A draft over the target's KV: seeds start it, and it has no slots; beams are refused where other ranks wait.

    Notes
    -----
    Source: semantics D.11.
    """

    def __init__(self, setting: Setting) -> None:
        topk = setting.drafting.topk
        description = require_frozen_model(setting.model, setting.arrays.KIND, topk, setting.has_dp_attention)
        warn_of_states(description)
        super().__init__(setting, SideFacts.of_seeds(description, topk))
        self._model: FrozenKVModel[Any] = setting.model

    def join(self, rows: Sequence[int]) -> None:
        """Keep nothing of a request but its seed."""

    def prefill(self, after: Any, pools: AnyPools) -> DraftInput:
        """Return seeds: the states of the last rows of the chunks; no forward runs."""
        del pools
        return self._seeds(after.row, after.ends, after.following, after.output.hidden_states, after.last)

    def draft(self, start: DraftInput, config: SpecConfig, pools: AnyPools, verify_slots: VerifySlots) -> VerifyInput:
        """Draft a tree for every request: as many forwards as steps, of which the first one makes the candidates.

        What waited by row gets the tag. No slot after the committed ones is read, and none is written.
        """
        seeds = FrozenKVMTPDraftInput(**{field.name: getattr(start, field.name) for field in fields(DraftInput)})
        if config.num_steps == 0:
            return roots(seeds, verify_slots(), self._arrays, FrozenKVMTPVerifyInput)
        arrays, operations, topk = self._arrays, self._operations, config.topk
        beams = operations.prepare_for_frozen_kv_draft(seeds.req_pool_indices, seeds.seq_lens, topk)
        keys = pools.listed_keys(beams.beam_req_pool_indices, beams.beam_seq_lens, operations)
        input_ids = arrays.repeat(arrays.astype(seeds.bonus_tokens, "int64"), topk)
        hidden_states = arrays.repeat(require_present("seed", seeds.hidden_states), topk)
        scores, choices = None, []
        for step in range(config.num_steps):
            drafted = self._forward(FrozenDraftBatch(input_ids, beams.positions, keys, hidden_states, step + 1), pools)
            probabilities, carried = drafted.probabilities, require_present("what is carried on", drafted.hidden_states)
            if step == 0:
                # NOTE: all copies of a seed come to the same.
                probabilities, carried = probabilities[::topk], carried[::topk]
            chosen = arrays.choose_beams(step, probabilities, self._hot_token_id, carried, scores, topk, operations)
            input_ids, scores = chosen.input_ids, chosen.next_scores
            hidden_states = require_present("what is carried on", chosen.next_hidden_states)
            choices.append(chosen)
        return link(seeds, config, choices, verify_slots, operations, arrays, FrozenKVMTPVerifyInput)

    def extend(
        self,
        row: Any,
        verify_input: VerifyInput,
        verify_output: VerifyOutput,
        phase: DraftExtendInput,
        seq_lens: Any,
        pools: AnyPools,
    ) -> DraftInput:
        """Return what starts the next drafts: the rows that an extend would select, without its forward."""
        del pools
        expect_phase(phase, PhaseTag.EAGLE_DRAFT_EXTEND_V2)
        return self._seeds(row, seq_lens, verify_output.bonus_tokens, phase.hidden_states, phase.select_index)

    def to_extend_input(self, phase: EagleDraftExtendInput) -> EagleDraftExtendInput:
        """Return it under the tag of FROZEN_KV_MTP."""
        return to_frozen_kv_mtp_draft_extend_input(phase)

    def extend_ragged(self, batch: Batch, pools: AnyPools) -> DraftInput:
        """Return what starts the next drafts of the requests that go on: their last tokens, and the states before."""
        del pools
        phase = installed(batch, PhaseTag.FROZEN_KV_MTP_DRAFT_EXTEND)
        selected = self._operations.select_last_verified(phase.num_accepted_tokens)
        return self._seeds(phase.req_pool_indices, phase.seq_lens, phase.bonus_tokens, phase.hidden_states, selected)

    def state(self) -> dict[str, Any]:
        """Return nothing: seeds are the loop's."""
        return {}

    def _forward(self, batch: FrozenDraftBatch[Any], pools: AnyPools) -> DraftOutput[Any]:
        """Run the draft over the target's buffers that its layers read."""
        return self._model.draft_frozen(batch, shared_kv(self.facts.description, pools.kv[Side.TARGET]))

    def _seeds(self, row: Any, seq_lens: Any, bonus_tokens: Any, states: Any, selected: Any) -> FrozenKVMTPDraftInput:
        """Return a draft input of selected states of the target, with zeros in the place of candidates."""
        arrays, shape = self._arrays, (len(row), self.facts.num_candidates)
        return FrozenKVMTPDraftInput(
            req_pool_indices=row,
            seq_lens=arrays.astype(seq_lens, "int64"),
            topk_p=arrays.zeros(shape, "float32"),
            topk_index=arrays.zeros(shape, "int64"),
            hidden_states=arrays.take(require_present("hidden states of the target", states), selected),
            bonus_tokens=arrays.astype(bonus_tokens, "int32"),
        )
