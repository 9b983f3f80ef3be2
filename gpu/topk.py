"""Ranking on the GPU: the largest entries of each row, whatever its length."""

import torch

from specsim.gpu.kernels import draft as kernels
from specsim.gpu.launching.blocks import ceil_div, power_of_two
from specsim.gpu.launching.buffers import Call
from specsim.gpu.launching.calls import run
from specsim.gpu.launching.launcher import launch
from specsim.gpu.launching.mode import choose_block, current_mode
from specsim.gpu.launching.plan import Plan, planned
from specsim.operations.outputs import FastTopkOutputs

LARGEST_BLOCK = 4096
"""Candidates that one program ranks: 64-bit keys, eight a thread of sixteen warps, in registers."""

FEW = 4
"""Up to so many maxima cost less one after another than one partial sort; measured on an H200."""

FEW_PROGRAMS = 128
"""Programs up to which each has a multiprocessor of its own, 132 on an H200."""


def fast_topk(values: torch.Tensor, k: int) -> FastTopkOutputs[torch.Tensor]:
    """Pick the k largest entries of each row, ties by lower index; NaN counts as -inf.

    One program a block of 4096 columns; rows of several blocks are reduced again until one block is left.
    """
    return run("fast_topk", launch_fast_topk, locals())


def launch_fast_topk(call: Call) -> FastTopkOutputs[torch.Tensor]:
    """Launch into the buffers of a checked call."""
    values, num_rows = call.arguments["values"], call.axes["row"]
    if num_rows == 0:
        return call.outputs
    kept_keys = None
    for plan in _plan_topk(num_rows, call.axes["column"], call.axes["k"], *values.stride()):
        scratch = {} if kept_keys is None else {"keys": kept_keys}
        if not plan.constants["IS_LAST"]:
            kept_keys = call.scratch(num_rows, plan.grid[1] * plan.constants["WIDTH"], dtype=torch.int64)
            scratch["kept_keys"] = kept_keys
        launch(plan, inputs={"values": values}, outputs=call.returned(), scratch=scratch)
    return call.outputs


@planned
def _plan_topk(num_rows: int, num_columns: int, k: int, row_stride: int, column_stride: int) -> tuple[Plan, ...]:
    """Plan one launch for each reduction of a row's blocks; the keys of one are what the next one reduces."""
    width, num_blocks = power_of_two(k), 0
    plans: list[Plan] = []
    while num_blocks != 1:
        block = max(choose_block(num_columns, LARGEST_BLOCK, LARGEST_BLOCK), min(2 * width, power_of_two(num_columns)))
        num_blocks = ceil_div(num_columns, block)
        absent = [] if plans else ["keys_ptr"]
        absent += ["kept_keys_ptr"] if num_blocks == 1 else []
        plans.append(
            Plan(
                kernels._fast_topk_kernel,
                grid=(num_rows, num_blocks),
                sizes={"num_columns": num_columns, "row_stride": row_stride, "column_stride": column_stride},
                constants={
                    "K": k,
                    "WIDTH": width,
                    "FROM_KEYS": bool(plans),
                    "IS_LAST": num_blocks == 1,
                    **dict.fromkeys(absent),
                },
                tunables={"BLOCK": block, "ONE_BY_ONE": takes_maxima(k)},
                num_warps=ranking_warps(block, num_rows * num_blocks),
            )
        )
        num_columns = num_blocks * width
    return tuple(plans)


def takes_maxima(count: int) -> bool:
    """Return whether taking maxima one after another beats a partial sort."""
    return count <= FEW or not current_mode().blocks.sorts


def ranking_warps(block: int, num_programs: int) -> int:
    """Return many warps while programs are few, so that each ends early, and few once they queue for the GPU."""
    if num_programs <= FEW_PROGRAMS:
        return max(1, min(16, block // 32))
    return max(1, min(4, block // 32)) if block <= 512 else max(2, block // 1024)
