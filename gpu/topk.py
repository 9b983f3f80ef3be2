"""Ranking on the GPU: the largest entries of each row, whatever its length."""

import torch

from specsim.gpu.kernels import draft as kernels
from specsim.gpu.launching.blocks import ceil_div, power_of_two
from specsim.gpu.launching.buffers import Call
from specsim.gpu.launching.calls import operation
from specsim.gpu.launching.launcher import Buffers, Launch
from specsim.gpu.launching.mode import choose_block, current_mode
from specsim.gpu.launching.plan import Plan, strides_of

LARGEST_BLOCK = 4096
"""Candidates that one program ranks: 64-bit keys, eight a thread of sixteen warps, in registers."""

GROUP, PART = 32, 8
"""Columns of which only the largest is ranked at first, and at second among the best groups; measured on an H200."""

FEW = 4
"""Up to so many maxima cost less one after another than one partial sort; measured on an H200."""

FEW_PROGRAMS = 128
"""Programs up to which each has a multiprocessor of its own, 132 on an H200."""


@operation
def fast_topk(call: Call) -> list[Launch]:
    """Pick the k largest entries of each row, ties by lower index; NaN counts as -inf.

    One program a block of 4096 columns; rows of several blocks are reduced again until one block is left. Who looks for
    several ranks groups of columns by their largest entry, reads the best groups again, and ranks those.
    """
    return rank(call, call.arguments["values"], call.axes["k"], call.returned())[0]


def rank(
    call: Call, values: torch.Tensor, k: int, outputs: Buffers, most: int = 0
) -> tuple[list[Launch], torch.Tensor | None]:
    """Return launches that reduce every row to its k largest entries, or as far as another kernel goes on from.

    Parameters
    ----------
    outputs : mapping
        What the last one writes, where nothing goes on from it.
    most : int
        Entries of a row, or keys that are kept of it, from which another kernel goes on; at least a power of two of k.

    Returns
    -------
    launches : list of Launch
        None for rows that have no more entries.
    keys : int64 [row, key] or None
        What is kept for the other kernel, if something is launched.
    """
    num_rows, num_columns, width = *values.shape, power_of_two(k)
    launches: list[Launch] = []
    scratch: dict[str, torch.Tensor] = {}
    while num_rows and num_columns > most:
        block = max(choose_block(num_columns, LARGEST_BLOCK, LARGEST_BLOCK), min(2 * width, power_of_two(num_columns)))
        num_blocks = ceil_div(num_columns, block)
        is_last = num_blocks == 1 and most == 0
        # NOTE: the keys that one launch keeps are what the next one reduces.
        scratch = {"keys": scratch["kept_keys"]} if launches else {}
        if not is_last:
            scratch["kept_keys"] = call.scratch(num_rows, num_blocks * width, dtype=torch.int64)
        warps, is_idle = ranking_warps(block, num_rows * num_blocks), num_rows * num_blocks <= FEW_PROGRAMS
        is_grouped = not launches and k > (FEW if is_idle else 1) and 2 * width * GROUP <= block
        absent = {"keys", "kept_keys", "topk_values", "topk_index"} - {*scratch, *outputs}
        plan = Plan(
            kernels._fast_topk_kernel,
            grid=(num_rows, num_blocks),
            sizes={"num_columns": num_columns, **strides_of(values, "row", "column")},
            constants={
                "K": k,
                "WIDTH": width,
                "FROM_KEYS": bool(launches),
                "IS_LAST": is_last,
                "GROUP": GROUP if is_grouped else 1,
                "PART": PART if is_grouped else 1,
                **{f"{name}_ptr": None for name in sorted(absent)},
            },
            tunables={"BLOCK": block, "ONE_BY_ONE": takes_maxima(k)},
            num_warps=min(4, warps // 2) if is_grouped else warps,
        )
        launches.append(Launch(plan, {"values": values}, outputs, scratch))
        num_columns = 0 if is_last else num_blocks * width
    return launches, scratch.get("kept_keys")


def takes_maxima(count: int) -> bool:
    """Return whether taking maxima one after another beats a partial sort."""
    return count <= FEW or not current_mode().blocks.sorts


def ranking_warps(block: int, num_programs: int) -> int:
    """Return many warps while programs are few, so that each ends early, and few once they queue for the GPU."""
    if num_programs <= FEW_PROGRAMS:
        return max(1, min(16, block // 32))
    return max(1, min(4, block // 32)) if block <= 512 else max(2, block // 1024)
