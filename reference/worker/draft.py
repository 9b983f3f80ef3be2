"""The draft phase: from the candidates of depth 1 to the tree that the target verifies."""

from collections.abc import Callable
from typing import Any

import numpy as np

from specsim.config import SpecConfig
from specsim.conformance.arrays import Array
from specsim.phases import DraftInput, PhaseTag, VerifyInput, expect_phase
from specsim.reference.worker.heads import Heads


def draft(
    phase: DraftInput,
    config: SpecConfig,
    heads: Heads,
    req_to_token: Array,
    draft_kv: list[Array],
    verify_slots: Callable[[], Array],
    call: Callable[..., Any],
) -> VerifyInput:
    """Draft a tree for every request: ``num_steps`` selections, one forward less, then pruning and linking.

    Parameters
    ----------
    phase : DraftInput
        The candidates of depth 1 and what is behind them.
    req_to_token : int32 [row, position]
        Slot of each position, allocated far enough ahead.
    draft_kv : list of int64 [slot, 4]
        The draft's pool; written in place.
    verify_slots : callable
        Returns int64 [request*node], the slots that the target will write; called when the trees are built.
    call : callable
        Runs an operation by name.

    Returns
    -------
    verify_input : VerifyInput
        The trees, and the slots of the verify window.

    Notes
    -----
    Source: semantics A.4.
    """
    expect_phase(phase, PhaseTag.EAGLE_DRAFT)
    topk, num_steps, width = config.topk, config.num_steps, config.num_draft_tokens
    where = {
        "req_pool_indices": phase.req_pool_indices,
        "req_to_token": req_to_token,
        "seq_lens": phase.seq_lens,
    }
    shape = {"topk": topk, "num_steps": num_steps}
    positions = np.repeat(phase.seq_lens, topk)
    out_cache_loc = call("assign_draft_cache_locs", **where, **shape)
    step_cache_loc = call("per_step_draft_out_cache_loc", out_cache_loc=out_cache_loc, **shape)
    kv_indices, kv_indptr = call("generate_draft_decode_kv_indices", **where, positions=positions, **shape)
    topk_p, topk_index, hidden_states = phase.topk_p, heads.map_hot(phase.topk_index), phase.hidden_states
    scores, blocks = None, []
    for step in range(num_steps):
        input_ids, hidden_states, scores, *block = call(
            "select_top_k_tokens",
            step_index=step,
            topk_p=topk_p,
            topk_index=topk_index,
            hidden_states=hidden_states,
            scores=scores,
            topk=topk,
        )
        blocks.append(block)
        if step == num_steps - 1:
            break
        hidden_states, context = call(
            "draft_decode_forward",
            kv_buffers=draft_kv,
            input_ids=input_ids,
            hidden_states=hidden_states,
            positions=positions + step,
            out_cache_loc=step_cache_loc[step],
            kv_indices=kv_indices[step],
            kv_indptr=kv_indptr[step],
        )
        topk_p, topk_index = heads.propose(hidden_states, context, depth=step + 2)
        topk_index = heads.map_hot(topk_index)
    score_list, token_list, parents_list = (list(column) for column in zip(*blocks, strict=True))
    if topk == 1:
        kept = call("organize_chain_draft_results", token_list=token_list)
    else:
        kept = call(
            "organize_draft_results",
            score_list=score_list,
            token_list=token_list,
            parents_list=parents_list,
            num_draft_tokens=width,
        )
    parent_list, top_scores_index, draft_tokens = kept
    tree: tuple[Array, Array, Array, Array, Array, Array] = call(
        "build_tree",
        bonus_tokens=phase.bonus_tokens,
        parent_list=parent_list,
        top_scores_index=top_scores_index,
        draft_tokens=draft_tokens,
        seq_lens=phase.seq_lens,
        num_draft_tokens=width,
        **shape,
    )
    return VerifyInput(*tree, verify_slots(), phase.seq_lens, width)
