"""Draft: choose candidates and prune them."""

from collections.abc import Sequence

import torch

from specsim.counts import count_candidates, count_draft_nodes
from specsim.gpu.kernels import draft as kernels
from specsim.gpu.launching.blocks import INTERPRETED, ceil_div, choose_block, power_of_two
from specsim.gpu.launching.buffers import prepare

LARGEST_BLOCK = 4096
FEW = 4
FEW_PROGRAMS = 128


def fast_topk(values: torch.Tensor, k: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Pick the k largest entries of each row, ties by lower index; NaN counts as -inf.

    One program a block of 4096 columns; rows of several blocks are reduced again until one block is left.
    """
    axes, (topk_values, topk_index) = prepare("fast_topk", locals())
    num_rows, num_columns = axes["row"], axes["column"]
    if num_rows == 0:
        return topk_values, topk_index
    width = power_of_two(k)
    keys, is_last = None, False
    while not is_last:
        block = max(choose_block(num_columns, LARGEST_BLOCK, LARGEST_BLOCK), min(2 * width, power_of_two(num_columns)))
        num_blocks = ceil_div(num_columns, block)
        is_last = num_blocks == 1
        kept_keys = None if is_last else values.new_empty((num_rows, num_blocks * width), dtype=torch.int64)
        kernels._fast_topk_kernel[(num_rows, num_blocks)](
            values,
            keys,
            kept_keys,
            topk_values,
            topk_index,
            num_columns,
            values.stride(0),
            values.stride(1),
            K=k,
            WIDTH=width,
            BLOCK=block,
            FROM_KEYS=keys is not None,
            IS_LAST=is_last,
            ONE_BY_ONE=_one_by_one(k),
            num_warps=_num_warps(block, num_rows * num_blocks),
        )
        keys, num_columns = kept_keys, num_blocks * width
    return topk_values, topk_index


def select_top_k_tokens(
    step_index: int,
    topk_p: torch.Tensor,
    topk_index: torch.Tensor,
    hidden_states: torch.Tensor | None,
    scores: torch.Tensor | None,
    topk: int,
) -> tuple[torch.Tensor, torch.Tensor | None, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Choose the beams of the next depth and emit the tree blocks of this depth; one launch."""
    axes, outputs = prepare("select_top_k_tokens", locals())
    input_ids, next_hidden_states, next_scores, score_block, token_block, parent_block = outputs
    num_requests = axes["request"]
    if num_requests:
        is_first = step_index == 0
        width, block = power_of_two(topk), power_of_two(axes["branch"] * topk)
        hidden_size = 0 if hidden_states is None else hidden_states.shape[1]
        hidden_block = choose_block(hidden_size, max(LARGEST_BLOCK // width, 16))
        kernels._select_top_k_tokens_kernel[(num_requests, max(1, ceil_div(hidden_size, hidden_block)))](
            topk_p.contiguous(),
            topk_index.contiguous(),
            hidden_states,
            None if is_first or scores is None else scores.contiguous(),
            input_ids,
            next_hidden_states,
            next_scores,
            score_block,
            token_block,
            parent_block,
            step_index,
            hidden_size,
            0 if hidden_states is None else hidden_states.stride(0),
            0 if hidden_states is None else hidden_states.stride(1),
            TOPK=topk,
            WIDTH=width,
            BLOCK=block,
            HIDDEN_BLOCK=hidden_block,
            IS_FIRST=is_first,
            HAS_HIDDEN=hidden_size > 0,
            ONE_BY_ONE=_one_by_one(topk),
            num_warps=_num_warps(block, num_requests),
        )
    return input_ids, next_hidden_states, next_scores, score_block, token_block, parent_block


def organize_draft_results(
    score_list: Sequence[torch.Tensor],
    token_list: Sequence[torch.Tensor],
    parents_list: Sequence[torch.Tensor],
    num_draft_tokens: int,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Keep the N-1 best candidates of all depths, in flat-id order; one program a request.

    More than 4096 candidates a request go through ``fast_topk`` block by block.
    """
    axes, (parent_list, top_scores_index, draft_tokens) = prepare("organize_draft_results", locals())
    num_requests, num_steps, topk = axes["request"], axes["step"], axes["topk"]
    if num_requests == 0:
        return parent_list, top_scores_index, draft_tokens
    num_candidates, num_kept = count_candidates(topk, num_steps), count_draft_nodes(num_draft_tokens)
    block = power_of_two(num_candidates)
    if block > LARGEST_BLOCK:
        scores = torch.cat([scores.flatten(1) for scores in score_list], dim=1)
        top_scores_index.copy_(fast_topk(scores, num_kept)[1].sort(dim=1).values)
        torch.gather(torch.cat(list(token_list), dim=1), 1, top_scores_index, out=draft_tokens)
        torch.cat(list(parents_list[:-1]), dim=1, out=parent_list)
        return parent_list, top_scores_index, draft_tokens
    kernels._organize_draft_results_kernel[(num_requests,)](
        tuple(scores.contiguous() for scores in score_list),
        tuple(tokens.contiguous() for tokens in token_list),
        tuple(parents.contiguous() for parents in parents_list),
        parent_list,
        top_scores_index,
        draft_tokens,
        NUM_STEPS=num_steps,
        TOPK=topk,
        NUM_KEPT=num_kept,
        WIDTH=power_of_two(num_kept),
        BLOCK=block,
        PARENT_BLOCK=power_of_two(topk + 1),
        ONE_BY_ONE=_one_by_one(num_kept),
        num_warps=_num_warps(block, num_requests),
    )
    return parent_list, top_scores_index, draft_tokens


def organize_chain_draft_results(
    token_list: Sequence[torch.Tensor],
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Organise the drafts of a chain, where nothing is pruned; one launch."""
    axes, (parent_list, top_scores_index, draft_tokens) = prepare("organize_chain_draft_results", locals())
    num_requests = axes["request"]
    if num_requests:
        block = choose_block(num_requests, 128)
        kernels._organize_chain_draft_results_kernel[(ceil_div(num_requests, block),)](
            tuple(tokens.contiguous() for tokens in token_list),
            parent_list,
            top_scores_index,
            draft_tokens,
            num_requests,
            NUM_STEPS=axes["step"],
            BLOCK=block,
        )
    return parent_list, top_scores_index, draft_tokens


def map_hot_tokens(topk_index: torch.Tensor, hot_token_id: torch.Tensor) -> torch.Tensor:
    """Map draft-vocabulary ids to target-vocabulary ids; an id outside the draft vocabulary maps to 0."""
    axes, (token_index,) = prepare("map_hot_tokens", locals())
    num_entries = token_index.numel()
    if num_entries:
        block = choose_block(num_entries, 256)
        kernels._map_hot_tokens_kernel[(ceil_div(num_entries, block),)](
            topk_index,
            hot_token_id.contiguous(),
            token_index,
            num_entries,
            axes["column"],
            axes["draft_vocab"],
            topk_index.stride(0),
            topk_index.stride(1),
            BLOCK=block,
        )
    return token_index


def _one_by_one(count: int) -> bool:
    """Return whether taking maxima one after another beats a partial sort; the interpreter sorts element by element."""
    return INTERPRETED or count <= FEW


def _num_warps(block: int, num_programs: int) -> int:
    """Return many warps while programs are few, so that each ends early, and few once they queue for the GPU."""
    if num_programs <= FEW_PROGRAMS:
        return max(1, min(16, block // 32))
    return max(1, min(4, block // 32)) if block <= 512 else max(2, block // 1024)
