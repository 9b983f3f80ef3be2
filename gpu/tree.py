"""Tree: from kept candidates to the arrays that verification walks."""

import torch

from specsim.config import TreeMaskMode
from specsim.gpu.kernels import tree as kernels
from specsim.gpu.launching.blocks import ceil_div, choose_block, chunks_to_fill, power_of_two
from specsim.gpu.launching.buffers import prepare

WORD_BITS = 64
TILE = 4096
PREFIX_WORDS = 128
FEW_REQUESTS = 128


def build_tree(
    bonus_tokens: torch.Tensor,
    parent_list: torch.Tensor,
    top_scores_index: torch.Tensor,
    draft_tokens: torch.Tensor,
    seq_lens: torch.Tensor,
    topk: int,
    num_steps: int,
    num_draft_tokens: int,
    mask_mode: int = TreeMaskMode.QLEN_ONLY,
    seq_lens_sum: int = 0,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Turn kept candidates into draft tokens, links, positions and mask; one launch, parallel over nodes.

    Grid: request, then one program for each 64 mask columns, then as many as fill the GPU for the full mask's prefix
    columns. An orphan stays unlinked, sees the root and itself, and stands at the committed length plus one.
    """
    axes, outputs = prepare("build_tree", locals())
    draft_token, retrieve_index, retrieve_next_token, retrieve_next_sibling, positions, tree_mask = outputs
    num_requests, num_nodes = axes["request"], num_draft_tokens
    if num_requests == 0:
        return draft_token, retrieve_index, retrieve_next_token, retrieve_next_sibling, positions, tree_mask
    is_full, is_packed = mask_mode == TreeMaskMode.FULL_MASK, mask_mode == TreeMaskMode.QLEN_ONLY_BITPACKING
    nodes = power_of_two(num_nodes)
    num_words = ceil_div(num_nodes, WORD_BITS)
    prefix_rows = 16 if num_requests <= FEW_REQUESTS else 4
    num_shares = chunks_to_fill(num_requests, ceil_div(num_nodes, prefix_rows)) if is_full else 0
    kernels._build_tree_kernel[(num_requests, num_words + num_shares)](
        bonus_tokens.contiguous(),
        parent_list.contiguous(),
        top_scores_index.contiguous(),
        draft_tokens.contiguous(),
        seq_lens.contiguous(),
        draft_token,
        retrieve_index,
        retrieve_next_token,
        retrieve_next_sibling,
        positions,
        tree_mask if is_packed else tree_mask.view(torch.uint8),
        num_requests,
        num_nodes,
        parent_list.shape[1],
        tree_mask.numel(),
        IS_FULL=is_full,
        IS_PACKED=is_packed,
        TOPK=topk,
        ROUNDS=(min(num_steps, num_nodes) - 1).bit_length(),
        NODES=nodes,
        BLOCK=_block(nodes),
        COLUMNS=min(nodes, WORD_BITS),
        NUM_WORDS=num_words,
        REQUESTS=power_of_two(num_requests) if is_full else 1,
        PREFIX_ROWS=choose_block(num_nodes, prefix_rows),
        PREFIX_WORDS=PREFIX_WORDS,
        num_warps=_num_warps(nodes, num_requests, 1 if is_full else 2),
    )
    return draft_token, retrieve_index, retrieve_next_token, retrieve_next_sibling, positions, tree_mask


def reconstruct_indices_from_tree_mask(
    tree_mask: torch.Tensor, seq_lens: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Recover positions and links from an ancestor matrix; one program a request."""
    axes, outputs = prepare("reconstruct_indices_from_tree_mask", locals())
    positions, retrieve_index, retrieve_next_token, retrieve_next_sibling = outputs
    num_requests, num_nodes = axes["request"], axes["node"]
    if num_requests and num_nodes:
        nodes = power_of_two(num_nodes)
        kernels._reconstruct_indices_from_tree_mask_kernel[(num_requests,)](
            tree_mask.view(torch.uint8),
            seq_lens.contiguous(),
            positions,
            retrieve_index,
            retrieve_next_token,
            retrieve_next_sibling,
            num_nodes,
            tree_mask.stride(0),
            tree_mask.stride(1),
            tree_mask.stride(2),
            NODES=nodes,
            BLOCK=_block(nodes),
            num_warps=_num_warps(nodes, num_requests, 2),
        )
    return positions, retrieve_index, retrieve_next_token, retrieve_next_sibling


def _block(nodes: int) -> int:
    """Return how many nodes to compare with all others at a time."""
    return choose_block(nodes, max(TILE // nodes, 1), max((1 << 18) // nodes, 1))


def _num_warps(nodes: int, num_requests: int, fewest: int) -> int:
    """Return many warps while requests are few, so that each ends early, and few once they queue for the GPU."""
    return max(1, min(8, nodes // 8)) if num_requests <= FEW_REQUESTS or nodes > 64 else fewest
