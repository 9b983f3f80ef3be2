"""The draft side of FROZEN_KV_MTP on the device: it reads the target's KV, has none, and never catches up."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from specsim import gpu
from specsim.assertion import require_present
from specsim.config import SpecConfig
from specsim.gpu.worker.carried import device_zeros
from specsim.gpu.worker.draft import link, map_hot, roots
from specsim.gpu.worker.pools import Pools
from specsim.gpu.worker.prefill import TargetPrefill
from specsim.gpu.worker.sides.extended import ExtendedSide
from specsim.phases import (
    DraftExtendInput,
    DraftInput,
    EagleDraftExtendInput,
    FrozenKVMTPDraftInput,
    FrozenKVMTPVerifyInput,
    VerifyInput,
    VerifyOutput,
    to_frozen_kv_mtp_draft_extend_input,
)
from specsim.simulation.models.batches import ListedKeys
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
    """A draft over the target's KV: seeds start it, and it has no slots (semantics D.11).

    Beams are refused where other ranks wait.
    """

    def __init__(self, setting: Setting) -> None:
        topk = setting.drafting.topk
        description = require_frozen_model(setting.model, "torch", topk, setting.has_dp_attention)
        warn_of_states(description)
        super().__init__(setting, SideFacts.of_seeds(description, topk))
        self._model: FrozenKVModel[Tensor] = setting.model

    def join(self, rows: Sequence[int]) -> None:
        """Keep nothing of a request but its seed."""

    def prefill(self, after: TargetPrefill, pools: Pools) -> DraftInput:
        """Return seeds: the states of the last rows of the chunks; no forward runs."""
        return self._seeds(after.row, after.ends, after.following.int(), after.output.hidden_states, after.last)

    def draft(
        self, start: DraftInput, config: SpecConfig, pools: Pools, verify_slots: Callable[[], Tensor]
    ) -> VerifyInput:
        """Draft over what is committed."""
        return draft_frozen(self._model, start, config, pools, self._hot_token_id, verify_slots)

    def extend(
        self,
        row: Tensor,
        verify_input: VerifyInput,
        verify_output: VerifyOutput,
        phase: DraftExtendInput,
        pools: Pools,
    ) -> DraftInput:
        """Return what starts the next drafts: the rows that an extend would select, without its forward."""
        seq_lens = verify_input.seq_lens + phase.num_accepted_tokens
        return self._seeds(row, seq_lens, verify_output.bonus_tokens, phase.hidden_states, phase.select_index)

    def to_extend_input(self, phase: EagleDraftExtendInput) -> EagleDraftExtendInput:
        """Return it under the tag of FROZEN_KV_MTP."""
        return to_frozen_kv_mtp_draft_extend_input(phase)

    def extend_ragged(self, phase: EagleDraftExtendInput, pools: Pools) -> DraftInput:
        """Return what starts the next drafts of the requests that go on: their last tokens, and the states before."""
        selected = gpu.select_last_verified(phase.num_accepted_tokens)
        return self._seeds(phase.req_pool_indices, phase.seq_lens, phase.bonus_tokens, phase.hidden_states, selected)

    def state(self) -> dict[str, Any]:
        """Return nothing: seeds are the loop's."""
        return {}

    def _seeds(
        self, row: Tensor, seq_lens: Tensor, bonus_tokens: Tensor, states: Tensor | None, selected: Tensor
    ) -> FrozenKVMTPDraftInput:
        """Return a draft input of selected states of the target, with zeros in the place of candidates."""
        shape = len(row), self.facts.num_candidates
        return FrozenKVMTPDraftInput(
            req_pool_indices=row,
            seq_lens=seq_lens,
            topk_p=device_zeros(shape, "float32"),
            topk_index=device_zeros(shape, "int64"),
            hidden_states=require_present("hidden states of the target", states).index_select(0, selected),
            bonus_tokens=bonus_tokens,
        )


def draft_frozen(
    model: FrozenKVModel[Tensor],
    phase: DraftInput,
    config: SpecConfig,
    pools: Pools,
    hot_token_id: Tensor | None,
    verify_slots: Callable[[], Tensor],
) -> VerifyInput:
    """Draft a tree for every request, the first forward making the candidates (semantics D.11).

    Lengths lie on the device, so that the list of keys has room for whole rows.
    """
    if config.num_steps == 0:
        return roots(phase, verify_slots(), FrozenKVMTPVerifyInput)
    topk, req_to_token = config.topk, pools.req_to_token
    kv = shared_kv(model.description, pools.kv[Side.TARGET])
    rows, lengths, positions = gpu.prepare_for_frozen_kv_draft(phase.req_pool_indices, phase.seq_lens, topk)
    num_beams, width = rows.shape[0], req_to_token.shape[1]
    counts = torch.ones(num_beams, dtype=torch.int32, device=rows.device)
    _, kv_indptr, kv_indices = gpu.generate_attn_arg_prefill(rows, req_to_token, lengths, counts, num_beams * width)
    keys = ListedKeys(kv_indices, kv_indptr, width)
    input_ids = phase.bonus_tokens.long().repeat_interleave(topk)
    hidden_states = require_present("seed", phase.hidden_states).repeat_interleave(topk, dim=0)
    scores: Tensor | None = None
    choices = []
    for step in range(config.num_steps):
        drafted = model.draft_frozen(FrozenDraftBatch(input_ids, positions, keys, hidden_states, step + 1), kv)
        probabilities, carried = drafted.probabilities, require_present("what is carried on", drafted.hidden_states)
        if step == 0:
            # NOTE: all copies of a seed come to the same.
            probabilities, carried = probabilities[::topk], carried[::topk]
        topk_p, topk_index = gpu.fast_topk(probabilities, topk)
        topk_index = map_hot(topk_index, hot_token_id)
        chosen = gpu.select_top_k_tokens(step, topk_p, topk_index, carried, scores, topk)
        input_ids, scores = chosen.input_ids, chosen.next_scores
        hidden_states = require_present("what is carried on", chosen.next_hidden_states)
        choices.append(chosen)
    return link(phase, config, choices, verify_slots, FrozenKVMTPVerifyInput)
