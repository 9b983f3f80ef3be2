"""Verify: attention metadata of the target forward, and acceptance."""

import torch

from specsim.counts import path_width
from specsim.gpu.kernels import verify as kernels
from specsim.gpu.launching.blocks import ceil_div, power_of_two
from specsim.gpu.launching.buffers import Call
from specsim.gpu.launching.calls import run
from specsim.gpu.launching.launcher import launch
from specsim.gpu.launching.mode import choose_block, chunks_to_fill
from specsim.gpu.launching.plan import Plan, planned
from specsim.operations.outputs import TargetVerifyMetadataOutputs, VerifyTreeGreedyOutputs

PAGES = 1024
"""Page-table entries of a program: eight a thread of four warps, so that a long row takes several programs."""

LOGITS = 4096
"""Logits that a program of the greedy choice holds at once: sixteen a thread of eight warps, in registers."""

PROGRAMS_TO_SPLIT = 512
"""Programs over which few rows of logits are split: about four for each of the 132 multiprocessors of an H200."""

INTERPRETED_NODES = 4096
"""Nodes of a tile under the interpreter; its loops run until the deepest request of the tile is done."""


def target_verify_metadata(
    req_pool_indices: torch.Tensor,
    req_to_token: torch.Tensor,
    seq_lens: torch.Tensor,
    num_tokens: int,
    max_seq_len_k: int,
    page_size: int = 1,
) -> TargetVerifyMetadataOutputs[torch.Tensor]:
    """Lay out lengths and page table of a verify forward; one launch over requests and blocks of pages."""
    return run("target_verify_metadata", launch_target_verify_metadata, locals())


def launch_target_verify_metadata(call: Call) -> TargetVerifyMetadataOutputs[torch.Tensor]:
    """Launch into the buffers of a checked call."""
    axes, outputs = call.axes, call.outputs
    if axes["request"] == 0:
        outputs.cu_seqlens_q.zero_()
        outputs.cu_seqlens_k.zero_()
        return outputs
    rows = call.arguments["req_to_token"]
    launch(
        _plan_metadata(
            axes["request"],
            axes["row"],
            axes["tokens_per_request"],
            outputs.page_table.shape[1],
            axes["page_size"],
            *rows.stride(),
        ),
        inputs={"req_to_token": rows, **call.contiguous("req_pool_indices", "seq_lens")},
        outputs=call.returned(),
    )
    return outputs


@planned
def _plan_metadata(
    num_requests: int,
    num_rows: int,
    tokens_per_request: int,
    num_pages: int,
    page_size: int,
    row_stride: int,
    column_stride: int,
) -> Plan:
    block = choose_block(num_pages, PAGES)
    return Plan(
        kernels._target_verify_metadata_kernel,
        grid=(num_requests, max(1, ceil_div(num_pages, block))),
        sizes={
            "num_requests": num_requests,
            "num_rows": num_rows,
            "tokens_per_request": tokens_per_request,
            "num_pages": num_pages,
            "page_size": page_size,
            "row_stride": row_stride,
            "column_stride": column_stride,
        },
        constants={"REQUESTS": power_of_two(num_requests)},
        tunables={"BLOCK": block},
    )


def argmax_target_predict(logits: torch.Tensor) -> torch.Tensor:
    """Return the target's greedy choice of every row, ties by lower id; few rows are split over more programs."""
    return run("argmax_target_predict", launch_argmax_target_predict, locals())


def launch_argmax_target_predict(call: Call) -> torch.Tensor:
    """Launch into the buffers of a checked call."""
    logits, num_rows = call.arguments["logits"], call.axes["token"]
    if num_rows == 0:
        return call.outputs
    plans = _plan_argmax(num_rows, call.axes["vocab"], logits.is_floating_point(), *logits.stride())
    num_shares = plans[0].grid[1]
    scratch = {}
    if num_shares > 1:
        scratch["block_values"] = call.scratch(num_rows, num_shares, dtype=logits.dtype)
        scratch["block_index"] = call.scratch(num_rows, num_shares, dtype=torch.int32)
    launch(*plans, inputs={"logits": logits}, outputs={"target_predict": call.outputs}, scratch=scratch)
    return call.outputs


@planned
def _plan_argmax(
    num_rows: int, vocab: int, is_float: bool, row_stride: int, column_stride: int
) -> tuple[Plan] | tuple[Plan, Plan]:
    """One launch where a program reads a whole row, and another that merges the shares of a row where several do."""
    block = choose_block(vocab, LOGITS)
    num_blocks = ceil_div(vocab, block)
    num_blocks_each = ceil_div(num_blocks, chunks_to_fill(num_rows, num_blocks, PROGRAMS_TO_SPLIT))
    num_shares = ceil_div(num_blocks, num_blocks_each)
    absent = {"block_values_ptr": None, "block_index_ptr": None} if num_shares == 1 else {}
    choose = Plan(
        kernels._argmax_target_predict_kernel,
        grid=(num_rows, num_shares),
        sizes={
            "vocab": vocab,
            "num_blocks_each": num_blocks_each,
            "row_stride": row_stride,
            "column_stride": column_stride,
        },
        constants={"IS_FLOAT": is_float, "IS_LAST": num_shares == 1, **absent},
        tunables={"BLOCK": block},
        num_warps=max(1, min(8, block // 512)),
    )
    if num_shares == 1:
        return (choose,)
    merge = Plan(
        kernels._merge_argmax_kernel,
        grid=(num_rows,),
        sizes={"num_shares": num_shares},
        constants={"SHARES": power_of_two(num_shares)},
        num_warps=1,
    )
    return choose, merge


def verify_tree_greedy(
    candidates: torch.Tensor,
    retrieve_index: torch.Tensor,
    retrieve_next_token: torch.Tensor,
    retrieve_next_sibling: torch.Tensor,
    target_predict: torch.Tensor,
    num_steps: int,
) -> VerifyTreeGreedyOutputs[torch.Tensor]:
    """Walk each tree along the target's greedy choices and record the accepted path; one program a request.

    All nodes look for their accepted child at once, so the tree is read in as many rounds as it has siblings.
    """
    return run("verify_tree_greedy", launch_verify_tree_greedy, locals())


def launch_verify_tree_greedy(call: Call) -> VerifyTreeGreedyOutputs[torch.Tensor]:
    """Launch into the buffers of a checked call."""
    axes = call.axes
    if axes["request"]:
        launch(
            _plan_walk(axes["request"], axes["node"], axes["num_steps"]),
            inputs=call.contiguous(
                "candidates", "retrieve_index", "retrieve_next_token", "retrieve_next_sibling", "target_predict"
            ),
            outputs=call.returned(),
        )
    return call.outputs


@planned
def _plan_walk(num_requests: int, num_nodes: int, num_steps: int) -> Plan:
    nodes = power_of_two(num_nodes)
    requests = choose_block(num_requests, 1, max(1, INTERPRETED_NODES // nodes))
    return Plan(
        kernels._verify_tree_greedy_kernel,
        grid=(ceil_div(num_requests, requests),),
        sizes={"num_requests": num_requests, "num_nodes": num_nodes, "num_steps": num_steps},
        constants={"NODES": nodes, "WIDTH": power_of_two(path_width(num_steps))},
        tunables={"REQUESTS": requests},
        num_warps=max(1, min(4, nodes // 32)),
    )
