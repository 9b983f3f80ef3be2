"""Verify: attention metadata of the target forward, and acceptance."""

import torch
from torch import Tensor

from specsim.counts import count_tokens, path_width
from specsim.gpu.kernels import verify as kernels
from specsim.gpu.launching.blocks import WARP_SIZE, ceil_div, power_of_two
from specsim.gpu.launching.buffers import Call
from specsim.gpu.launching.calls import operation
from specsim.gpu.launching.launcher import NOTHING, Buffers, Launch
from specsim.gpu.launching.mode import choose_block, chunks_to_fill
from specsim.gpu.launching.plan import Plan, strides_of

PAGES = 1024
"""Page-table entries of a program: eight a thread of four warps, so that a long row takes several programs."""

LOGITS = 4096
"""Logits that a program of the greedy choice compares at once: sixteen a thread of eight warps, in registers."""

PROGRAMS_TO_SPLIT = 512
"""Programs over which few rows of logits are split: about four for each of the 132 multiprocessors of an H200."""

CHAIN_TILE = 256
"""Places of chains that a program compares at once: two a thread of four warps."""

WALKED = 256
"""Nodes that a warp walks, or shares of rows that it merges: eight a thread. One warp reduces without a barrier."""

INTERPRETED_NODES = 4096
"""Nodes of a tile under the interpreter; its loops run until the deepest request of the tile is done."""


@operation
def target_verify_metadata(call: Call) -> Launch | None:
    """Lay out lengths and page table of a verify forward; one launch over requests and blocks of pages."""
    return lay_out_verify(call, call.axes["tokens_per_request"])


def lay_out_verify(call: Call, tokens_per_request: int, *ragged: str) -> Launch | None:
    """Return the launch of a forward's metadata; ``ragged`` names the lengths that are added to those of all."""
    axes, outputs, rows = call.axes, call.outputs, call.arguments["req_to_token"]
    if axes["request"] == 0:
        outputs.cu_seqlens_q.zero_()
        outputs.cu_seqlens_k.zero_()
        return None
    num_pages = outputs.page_table.shape[1]
    block = choose_block(num_pages, PAGES)
    return Launch(
        Plan(
            kernels._target_verify_metadata_kernel,
            grid=(axes["request"], max(1, ceil_div(num_pages, block))),
            sizes={
                "num_requests": axes["request"],
                "num_rows": axes["row"],
                "tokens_per_request": tokens_per_request,
                "num_pages": num_pages,
                "page_size": axes["page_size"],
                **strides_of(rows, "row", "column"),
            },
            constants={
                "REQUESTS": power_of_two(axes["request"]),
                **({} if ragged else {"verify_lens_ptr": None}),
            },
            tunables={"BLOCK": block},
        ),
        inputs={"req_to_token": rows, **call.contiguous("req_pool_indices", "seq_lens", *ragged)},
        outputs=call.returned(),
    )


@operation
def argmax_target_predict(call: Call) -> list[Launch]:
    """Return the target's greedy choice of every row, ties by lower id; few rows are split over more programs."""
    logits, outputs = call.arguments["logits"], call.returned()
    if len(logits) == 0:
        return []
    plan, scratch = read_shares(call, logits, keeps_shares=False)
    launches = [Launch(plan, {"logits": logits}, outputs, scratch)]
    if scratch:
        num_shares = plan.grid[1]
        merge = Plan(
            kernels._merge_argmax_kernel,
            grid=(len(logits),),
            sizes={"num_shares": num_shares},
            constants={"SHARES": power_of_two(num_shares)},
            num_warps=1,
        )
        launches.append(Launch(merge, {}, outputs, scratch))
    return launches


def read_shares(call: Call, logits: Tensor, keeps_shares: bool) -> tuple[Plan, Buffers]:
    """Return what is planned of the launch that finds the largest logit of each share of a row, and where it goes.

    A row that is one share goes into ``target_predict``, unless shares are kept.
    """
    num_rows, vocab = logits.shape
    block = choose_block(vocab, LOGITS)
    num_blocks = ceil_div(vocab, block)
    num_blocks_each = ceil_div(num_blocks, chunks_to_fill(num_rows, num_blocks, PROGRAMS_TO_SPLIT))
    num_shares = ceil_div(num_blocks, num_blocks_each)
    is_last = not keeps_shares and num_shares == 1
    absent = ("block_values_ptr", "block_index_ptr") if is_last else ("target_predict_ptr",)
    plan = Plan(
        kernels._argmax_target_predict_kernel,
        grid=(num_rows, num_shares),
        sizes={"vocab": vocab, "num_blocks_each": num_blocks_each, **strides_of(logits, "row", "column")},
        constants={"IS_FLOAT": logits.is_floating_point(), **dict.fromkeys(absent)},
        tunables={"BLOCK": block},
        num_warps=max(1, min(8, block // 512)),
    )
    if is_last:
        return plan, {}
    compared = torch.float32 if logits.dtype is torch.bfloat16 else logits.dtype
    return plan, {
        "block_values": call.scratch(num_rows, num_shares, dtype=compared),
        "block_index": call.scratch(num_rows, num_shares, dtype=torch.int32),
    }


@operation
def verify_tree_greedy(call: Call) -> Launch | None:
    """Walk each tree along the target's greedy choices and record the accepted path; one program a request.

    A tree is read in one round, and walked in registers.
    """
    return follow_choices(call, call.contiguous("target_predict")) if call.axes["request"] else None


def follow_choices(call: Call, choices: Buffers, scratch: Buffers = NOTHING, num_shares: int = 0) -> Launch:
    """Return the launch that walks the trees of a call along choices, or along those that shares of rows have."""
    num_requests, num_nodes, num_steps = (call.axes[name] for name in ("request", "node", "num_steps"))
    nodes, shares = max(WARP_SIZE, power_of_two(num_nodes)), power_of_two(num_shares)
    requests = choose_block(num_requests, 1, max(1, INTERPRETED_NODES // (nodes * shares)))
    tree = call.contiguous("candidates", "retrieve_index", "retrieve_next_token", "retrieve_next_sibling")
    absent = ("target_predict_ptr",) if num_shares else ("block_values_ptr", "block_index_ptr")
    return Launch(
        Plan(
            kernels._verify_tree_greedy_kernel,
            grid=(ceil_div(num_requests, requests),),
            sizes={
                "num_requests": num_requests,
                "num_nodes": num_nodes,
                "num_steps": num_steps,
                "num_shares": num_shares,
            },
            constants={
                "NODES": nodes,
                "WIDTH": power_of_two(path_width(num_steps)),
                "SHARES": shares,
                **dict.fromkeys(absent),
            },
            tunables={"REQUESTS": requests},
            num_warps=max(1, min(4, nodes * shares // WALKED)),
        ),
        inputs={**tree, **choices},
        outputs=call.returned(),
        scratch=scratch,
    )


@operation
def verify_chain_greedy(call: Call) -> Launch | None:
    """Accept ragged chains as long as each draft is the target's greedy choice; one launch over blocks of requests."""
    num_requests, max_num_drafts = call.axes["request"], call.axes["max_num_drafts"]
    if num_requests == 0:
        return None
    width = power_of_two(count_tokens(max_num_drafts))
    requests = choose_block(num_requests, max(1, CHAIN_TILE // width), max(1, INTERPRETED_NODES // width))
    return Launch(
        Plan(
            kernels._verify_chain_greedy_kernel,
            grid=(ceil_div(num_requests, requests),),
            sizes={
                "num_requests": num_requests,
                "num_drafted": call.axes["drafted"],
                "max_num_drafts": max_num_drafts,
            },
            constants={"WIDTH": width},
            tunables={"REQUESTS": requests},
            num_warps=max(1, min(4, requests * width // 64)),
        ),
        inputs=call.contiguous("draft_tokens", "cu_num_drafts", "target_predict"),
        outputs=call.returned(),
    )
