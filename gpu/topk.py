"""Ranking on the GPU: the largest entries of each row, whatever its length."""

import torch

from specsim.gpu.kernels import draft as kernels
from specsim.gpu.launching.blocks import ceil_div, power_of_two
from specsim.gpu.launching.buffers import Call
from specsim.gpu.launching.calls import operation
from specsim.gpu.launching.launcher import Launch
from specsim.gpu.launching.mode import choose_block, current_mode
from specsim.gpu.launching.plan import Plan, strides_of

LARGEST_BLOCK = 4096
"""Candidates that one program ranks: 64-bit keys, eight a thread of sixteen warps, in registers."""

FEW = 4
"""Up to so many maxima cost less one after another than one partial sort; measured on an H200."""

FEW_PROGRAMS = 128
"""Programs up to which each has a multiprocessor of its own, 132 on an H200."""


@operation
def fast_topk(call: Call) -> list[Launch]:
    """Pick the k largest entries of each row, ties by lower index; NaN counts as -inf.

    One program a block of 4096 columns; rows of several blocks are reduced again until one block is left.
    """
    values, num_rows, num_columns, k = call.arguments["values"], *(call.axes[name] for name in ("row", "column", "k"))
    if num_rows == 0:
        return []
    width, num_blocks = power_of_two(k), 0
    launches: list[Launch] = []
    scratch: dict[str, torch.Tensor] = {}
    while num_blocks != 1:
        block = max(choose_block(num_columns, LARGEST_BLOCK, LARGEST_BLOCK), min(2 * width, power_of_two(num_columns)))
        num_blocks = ceil_div(num_columns, block)
        # NOTE: the keys that one launch keeps are what the next one reduces.
        scratch = {"keys": scratch["kept_keys"]} if launches else {}
        if num_blocks > 1:
            scratch["kept_keys"] = call.scratch(num_rows, num_blocks * width, dtype=torch.int64)
        plan = Plan(
            kernels._fast_topk_kernel,
            grid=(num_rows, num_blocks),
            sizes={"num_columns": num_columns, **strides_of(values, "row", "column")},
            constants={
                "K": k,
                "WIDTH": width,
                "FROM_KEYS": bool(launches),
                "IS_LAST": num_blocks == 1,
                **{f"{name}_ptr": None for name in ("keys", "kept_keys") if name not in scratch},
            },
            tunables={"BLOCK": block, "ONE_BY_ONE": takes_maxima(k)},
            num_warps=ranking_warps(block, num_rows * num_blocks),
        )
        launches.append(Launch(plan, {"values": values}, call.returned(), scratch))
        num_columns = num_blocks * width
    return launches


def takes_maxima(count: int) -> bool:
    """Return whether taking maxima one after another beats a partial sort."""
    return count <= FEW or not current_mode().blocks.sorts


def ranking_warps(block: int, num_programs: int) -> int:
    """Return many warps while programs are few, so that each ends early, and few once they queue for the GPU."""
    if num_programs <= FEW_PROGRAMS:
        return max(1, min(16, block // 32))
    return max(1, min(4, block // 32)) if block <= 512 else max(2, block // 1024)
