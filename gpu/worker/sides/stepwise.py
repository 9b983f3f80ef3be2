"""The draft side of EAGLE, EAGLE3 and STANDALONE on the device: one draft model that runs a forward a step."""

from collections.abc import Callable, Sequence
from typing import Any

from torch import Tensor

from specsim import gpu
from specsim.assertion import require_present
from specsim.config import SpecConfig
from specsim.gpu.worker.draft import draft
from specsim.gpu.worker.extend import ragged_keys
from specsim.gpu.worker.pools import Pools
from specsim.gpu.worker.prefill import TargetPrefill
from specsim.gpu.worker.sides.extended import ExtendedSide
from specsim.phases import DraftExtendInput, DraftInput, EagleDraftExtendInput, VerifyInput, VerifyOutput
from specsim.simulation.models.batches import DraftExtendBatch
from specsim.simulation.models.description import Side
from specsim.simulation.models.protocol import Model, require_model
from specsim.simulation.sides import Setting, SideFacts


class StepwiseSide(ExtendedSide):
    """A forward a step, and one when it catches up (semantics A.4, D.4 to D.7)."""

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting, SideFacts(require_model(setting.model, "torch"), setting.drafting.topk))
        self._model: Model[Tensor] = setting.model

    def join(self, rows: Sequence[int]) -> None:
        """Keep nothing of a request but its KV."""

    def prefill(self, after: TargetPrefill, pools: Pools) -> DraftInput:
        """Run the draft over the chunks, shifted by one."""
        batch = DraftExtendBatch(
            req_pool_indices=after.row,
            input_ids=gpu.rotate_prefill_input_ids(after.input_ids, after.lengths, after.following),
            positions=after.positions,
            out_cache_loc=after.out_cache_loc,
            keys=after.keys,
            hidden_states=after.output.hidden_states,
            select=after.last,
        )
        return self._catch_up(batch, after.ends, after.following.int(), pools)

    def draft(
        self, start: DraftInput, config: SpecConfig, pools: Pools, verify_slots: Callable[[], Tensor]
    ) -> VerifyInput:
        """Draft step by step."""
        page_size = self._setting.sizes.page_size
        return draft(start, config, self._model, pools, self._hot_token_id, verify_slots, page_size)

    def extend(
        self,
        row: Tensor,
        verify_input: VerifyInput,
        verify_output: VerifyOutput,
        phase: DraftExtendInput,
        pools: Pools,
    ) -> DraftInput:
        """Run the draft over all nodes, whose window it fills again; the row after each path proposes."""
        batch = DraftExtendBatch(
            req_pool_indices=row,
            input_ids=phase.input_ids,
            positions=phase.positions,
            out_cache_loc=phase.out_cache_loc,
            keys=require_present("keys of the verify", pools.verify_keys),
            hidden_states=phase.hidden_states,
            select=phase.select_index,
        )
        seq_lens = verify_input.seq_lens + phase.num_accepted_tokens
        return self._catch_up(batch, seq_lens, verify_output.bonus_tokens, pools)

    def extend_ragged(self, phase: EagleDraftExtendInput, pools: Pools) -> DraftInput:
        """Run the draft over the accepted tokens; the last row of each request proposes."""
        keys = ragged_keys(phase, pools)
        batch = DraftExtendBatch(
            req_pool_indices=phase.req_pool_indices,
            input_ids=phase.input_ids,
            positions=phase.positions,
            out_cache_loc=phase.out_cache_loc,
            keys=keys,
            hidden_states=phase.hidden_states,
            select=keys.cu_seqlens_q[1:].long() - 1,
        )
        return self._catch_up(batch, phase.seq_lens, phase.bonus_tokens, pools)

    def state(self) -> dict[str, Any]:
        """Return nothing: all of it lies in the pools."""
        return {}

    def _catch_up(
        self, batch: DraftExtendBatch[Tensor], seq_lens: Tensor, bonus_tokens: Tensor, pools: Pools
    ) -> DraftInput:
        """Run a forward, whose selected rows propose what starts the next drafts."""
        drafted = self._model.draft_extend(batch, pools.kv[Side.DRAFT])
        topk_p, topk_index = gpu.fast_topk(drafted.probabilities, self.facts.num_candidates)
        return DraftInput(
            req_pool_indices=batch.req_pool_indices,
            seq_lens=seq_lens,
            topk_p=topk_p,
            topk_index=topk_index,
            hidden_states=drafted.hidden_states,
            bonus_tokens=bonus_tokens,
        )
