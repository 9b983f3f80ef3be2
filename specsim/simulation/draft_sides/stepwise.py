"""The draft side of EAGLE, EAGLE3 and STANDALONE: one draft model that runs a forward a step."""

from collections.abc import Sequence
from typing import Any

from specsim.assertion import require_present
from specsim.config import SpecConfig
from specsim.phases import Batch, DraftExtendInput, DraftInput, PhaseTag, VerifyInput, VerifyOutput, expect_phase
from specsim.simulation.draft_sides.extended import ExtendedSide, installed
from specsim.simulation.draft_sides.layer import AnyPools
from specsim.simulation.draft_sides.trees import VerifySlots, link, roots
from specsim.simulation.models.batches import DraftExtendBatch, DraftStepBatch, ListedKeys
from specsim.simulation.models.description import Side
from specsim.simulation.models.protocol import Model, require_model
from specsim.simulation.sides import Setting, SideFacts


class StepwiseSide(ExtendedSide):
    """A forward a step, and one when it catches up.

    Notes
    -----
    Source: semantics A.4, D.4 to D.7.
    """

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting, SideFacts(require_model(setting.model, setting.arrays.KIND), setting.drafting.topk))
        self._model: Model[Any] = setting.model

    def join(self, rows: Sequence[int]) -> None:
        """Keep nothing of a request but its KV."""

    def prefill(self, after: Any, pools: AnyPools) -> DraftInput:
        """Run the draft over the chunks, shifted by one (semantics D.7)."""
        shifted = self._operations.rotate_prefill_input_ids(after.input_ids, after.lengths, after.following)
        batch = DraftExtendBatch(
            req_pool_indices=after.row,
            input_ids=shifted,
            positions=after.positions,
            out_cache_loc=after.out_cache_loc,
            keys=after.keys,
            hidden_states=after.output.hidden_states,
            select=after.last,
        )
        ends, bonus_tokens = self._arrays.astype(after.ends, "int64"), self._arrays.astype(after.following, "int32")
        return self._catch_up(batch, ends, bonus_tokens, pools)

    def draft(self, start: DraftInput, config: SpecConfig, pools: AnyPools, verify_slots: VerifySlots) -> VerifyInput:
        """Draft a tree for every request: ``num_steps`` selections, one forward less, then pruning and linking.

        Without a step the draft model does not run, and what is carried for its next draft is left alone. Every beam of
        a tree has pages of its own, which begin with a copy of the prefix's last one (semantics A.4, A.9).
        """
        expect_phase(start, PhaseTag.EAGLE_DRAFT)
        arrays, operations, page_size = self._arrays, self._operations, self._setting.sizes.page_size
        topk, num_steps = config.topk, config.num_steps
        if num_steps == 0:
            return roots(start, verify_slots(), arrays)
        row, row_width = start.req_pool_indices, pools.req_to_token.shape[1]
        beams = pools.beams(row, start.seq_lens, config, page_size, operations)
        candidates = start.topk_p, self._map_hot(start.topk_index), start.hidden_states
        chosen = operations.select_top_k_tokens(0, *candidates, None, topk)
        choices = [chosen]
        for step in range(num_steps - 1):
            batch = DraftStepBatch(
                req_pool_indices=row,
                input_ids=chosen.input_ids,
                positions=beams.positions[step],
                out_cache_loc=beams.step_cache_loc[step],
                keys=ListedKeys(beams.kv_indices[step], beams.kv_indptr[step], row_width),
                hidden_states=chosen.next_hidden_states,
                depth=step + 2,
            )
            drafted = self._model.draft_step(batch, pools.open(Side.DRAFT, batch.out_cache_loc))
            chosen = arrays.choose_beams(
                step + 1,
                drafted.probabilities,
                self._hot_token_id,
                drafted.hidden_states,
                chosen.next_scores,
                topk,
                operations,
            )
            choices.append(chosen)
        return link(start, config, choices, verify_slots, operations, arrays)

    def extend(
        self,
        row: Any,
        verify_input: VerifyInput,
        verify_output: VerifyOutput,
        phase: DraftExtendInput,
        seq_lens: Any,
        pools: AnyPools,
    ) -> DraftInput:
        """Run the draft over all nodes, whose window it fills again; the row after each path proposes (D.6)."""
        expect_phase(phase, PhaseTag.EAGLE_DRAFT_EXTEND_V2)
        batch = DraftExtendBatch(
            req_pool_indices=row,
            input_ids=phase.input_ids,
            positions=phase.positions,
            out_cache_loc=phase.out_cache_loc,
            keys=pools.keys_of_extend(row, verify_input, phase, self._operations),
            hidden_states=phase.hidden_states,
            select=phase.select_index,
        )
        return self._catch_up(batch, seq_lens, verify_output.bonus_tokens, pools)

    def extend_ragged(self, batch: Batch, pools: AnyPools) -> DraftInput:
        """Run the draft over the accepted tokens; the last row of each request proposes (semantics D.4, D.5)."""
        phase = installed(batch, PhaseTag.EAGLE_DRAFT_EXTEND)
        keys = pools.ragged_keys(phase, self._operations)
        extend_batch = DraftExtendBatch(
            req_pool_indices=phase.req_pool_indices,
            input_ids=phase.input_ids,
            positions=require_present("positions", phase.positions),
            out_cache_loc=phase.out_cache_loc,
            keys=keys,
            hidden_states=phase.hidden_states,
            select=self._arrays.astype(keys.cu_seqlens_q[1:], "int64") - 1,
        )
        return self._catch_up(extend_batch, phase.seq_lens, phase.bonus_tokens, pools)

    def state(self) -> dict[str, Any]:
        """Return nothing: all of it lies in the pools."""
        return {}

    def _catch_up(self, batch: DraftExtendBatch[Any], seq_lens: Any, bonus_tokens: Any, pools: AnyPools) -> DraftInput:
        """Run a forward, whose selected rows propose what starts the next drafts."""
        drafted = self._model.draft_extend(batch, pools.open(Side.DRAFT, batch.out_cache_loc))
        topk_p, topk_index = self._operations.fast_topk(drafted.probabilities, self.facts.num_candidates)
        return DraftInput(batch.req_pool_indices, seq_lens, topk_p, topk_index, drafted.hidden_states, bonus_tokens)
