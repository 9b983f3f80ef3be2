"""Tree: from kept candidates to the arrays that verification walks."""

from typing import Any

import torch

from specsim.config import TreeMaskMode
from specsim.gpu.kernels import tree as kernels
from specsim.gpu.launching.blocks import LARGEST_TILE, ceil_div, power_of_two
from specsim.gpu.launching.buffers import Call
from specsim.gpu.launching.calls import operation
from specsim.gpu.launching.launcher import Launch
from specsim.gpu.launching.mode import choose_block, chunks_to_fill
from specsim.gpu.launching.plan import Plan, strides_of

WORD_BITS = kernels.WORD_BITS.value
"""Mask columns of a program: the ancestors of a node are bits of one word."""

PAIRS = 4096
"""Pairs of nodes that a program compares at once: 32 a thread of four warps, in registers."""

PAIRS_OF_A_WARP = 256
"""Pairs of nodes that a warp compares while requests are few: eight a thread."""

PREFIX_WORDS = 128
"""Words of 8 bytes that a row of the full mask's prefix is filled with at a time: one a thread of four warps."""

FEW_REQUESTS = 128
"""Requests up to which every program has a multiprocessor of its own, 132 on an H200."""

FEW_PREFIX_ROWS, MANY_PREFIX_ROWS = 16, 4
"""Rows of the full mask that a prefix program fills, measured fastest for few requests and for many."""


@operation
def build_tree(call: Call) -> Launch | None:
    """Turn kept candidates into draft tokens, links, positions and mask; one launch, parallel over nodes.

    Grid: request, then while requests are few one program for links, then one for each 64 mask columns, then as many
    as fill the GPU for the full mask's prefix columns. An orphan stays unlinked, sees the root and itself, and stands
    at the committed length plus one.
    """
    axes, outputs, mode = call.axes, call.outputs, call.axes["mask_mode"]
    mask = outputs.tree_mask
    num_requests, num_nodes = axes["request"], axes["node"]
    if num_requests == 0:
        return None
    is_full, is_packed = mode == TreeMaskMode.FULL_MASK, mode == TreeMaskMode.QLEN_ONLY_BITPACKING
    nodes, num_words = power_of_two(num_nodes), ceil_div(num_nodes, WORD_BITS)
    prefix_rows = FEW_PREFIX_ROWS if num_requests <= FEW_REQUESTS else MANY_PREFIX_ROWS
    num_shares = chunks_to_fill(num_requests, ceil_div(num_nodes, prefix_rows)) if is_full else 0
    num_apart = int(chunks_to_fill(num_requests, 2, 2 * FEW_REQUESTS) > 1)
    return Launch(
        Plan(
            kernels._build_tree_kernel,
            grid=(num_requests, num_apart + num_words + num_shares),
            sizes={
                "num_requests": num_requests,
                "num_nodes": num_nodes,
                "parent_width": call.arguments["parent_list"].shape[1],
                "mask_length": mask.shape[0],
            },
            constants={
                "IS_FULL": is_full,
                "IS_PACKED": is_packed,
                "TOPK": axes["topk"],
                # NOTE: each round doubles the ancestors that are known.
                "ROUNDS": (min(axes["num_steps"], num_nodes) - 1).bit_length(),
                "NODES": nodes,
                "NUM_WORDS": num_words,
                "REQUESTS": power_of_two(num_requests) if is_full else 1,
                "LINKS": -num_apart,
            },
            tunables={
                "BLOCK": _block(nodes),
                "PREFIX": (choose_block(num_nodes, prefix_rows), PREFIX_WORDS),
            },
            num_warps=_num_warps(nodes, num_requests, 1 if is_full else 2, 16),
        ),
        inputs={
            "kept": call.group("parent_list", "top_scores_index", "draft_tokens"),
            **call.contiguous("bonus_tokens", "seq_lens"),
        },
        outputs={
            "draft_token": outputs.draft_token,
            "link": _links(outputs),
            "tree_mask": mask if is_packed else mask.view(torch.uint8),
        },
    )


@operation
def reconstruct_indices_from_tree_mask(call: Call) -> Launch | None:
    """Recover positions and links from an ancestor matrix; one program a request."""
    num_requests, num_nodes = call.axes["request"], call.axes["node"]
    if not num_requests or not num_nodes:
        return None
    mask, nodes = call.arguments["tree_mask"].view(torch.uint8), power_of_two(num_nodes)
    return Launch(
        Plan(
            kernels._reconstruct_indices_from_tree_mask_kernel,
            grid=(num_requests,),
            sizes={"num_nodes": num_nodes, **strides_of(mask, "request", "row", "column")},
            constants={"NODES": nodes},
            tunables={"BLOCK": _block(nodes)},
            num_warps=_num_warps(nodes, num_requests, 2, 8),
        ),
        inputs={"tree_mask": mask, **call.contiguous("seq_lens")},
        outputs={"link": _links(call.outputs)},
    )


def _links(outputs: Any) -> tuple[torch.Tensor, ...]:
    """Return what every tree has, as kernels take it together."""
    return outputs.retrieve_index, outputs.retrieve_next_token, outputs.retrieve_next_sibling, outputs.positions


def _block(nodes: int) -> int:
    """Return how many nodes to compare with all others at a time."""
    return choose_block(nodes, max(PAIRS // nodes, 1), max(LARGEST_TILE // nodes, 1))


def _num_warps(nodes: int, num_requests: int, fewest: int, most: int) -> int:
    """Return many warps while requests are few, so that each ends early, and few once they queue for the GPU."""
    if num_requests <= FEW_REQUESTS:
        return max(1, min(most, max(nodes // 8, nodes * nodes // PAIRS_OF_A_WARP)))
    return fewest if nodes <= WORD_BITS else min(8, nodes // 8)
