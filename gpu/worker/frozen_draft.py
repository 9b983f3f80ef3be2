"""The draft of FROZEN_KV_MTP on the device: forwards over the target's KV that stand still, and their seeds."""

from collections.abc import Callable

import torch
from torch import Tensor

from specsim import gpu
from specsim.assertion import require_present
from specsim.config import SpecConfig
from specsim.gpu.worker.carried import device_zeros
from specsim.gpu.worker.draft import link, map_hot, roots
from specsim.gpu.worker.pools import Pools
from specsim.gpu.worker.prefill import TargetPrefill
from specsim.phases import DraftInput, EagleDraftExtendInput, FrozenKVMTPDraftInput, FrozenKVMTPVerifyInput, VerifyInput
from specsim.simulation.models.batches import ListedKeys
from specsim.simulation.models.description import Side
from specsim.simulation.models.frozen import FrozenDraftBatch, FrozenKVModel, shared_kv


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


def seed_of_prefill(behind: TargetPrefill, topk: int) -> FrozenKVMTPDraftInput:
    """Return what starts the first draft behind chunks: no forward of the draft has run (semantics D.11)."""
    hidden_states = require_present("hidden states of the target", behind.output.hidden_states)
    seeds = hidden_states.index_select(0, behind.last)
    return frozen_draft_input(behind.row, behind.ends, behind.following.int(), seeds, topk)


def seed_of_extend(phase: EagleDraftExtendInput, topk: int) -> FrozenKVMTPDraftInput:
    """Return what starts the next draft: last tokens, and the states before these (semantics D.11).

    ``phase`` is prepared.
    """
    hidden_states = require_present("hidden states of the target", phase.hidden_states)
    seeds = hidden_states.index_select(0, gpu.select_last_verified(phase.num_accepted_tokens))
    return frozen_draft_input(phase.req_pool_indices, phase.seq_lens, phase.bonus_tokens, seeds, topk)


def frozen_draft_input(
    row: Tensor, seq_lens: Tensor, bonus_tokens: Tensor, hidden_states: Tensor, topk: int
) -> FrozenKVMTPDraftInput:
    """Return a draft input of seeds, with zeros in the place of candidates."""
    return FrozenKVMTPDraftInput(
        req_pool_indices=row,
        seq_lens=seq_lens,
        topk_p=device_zeros((len(row), topk), "float32"),
        topk_index=device_zeros((len(row), topk), "int64"),
        hidden_states=hidden_states,
        bonus_tokens=bonus_tokens,
    )
