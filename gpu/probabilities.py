"""Probabilities: from raw logits to the target's distribution of every row."""

from typing import Any

import torch

from specsim.gpu.kernels import filtering, nucleus
from specsim.gpu.kernels import probabilities as kernels
from specsim.gpu.launching.blocks import LARGEST_TILE, ceil_div, power_of_two
from specsim.gpu.launching.buffers import Call
from specsim.gpu.launching.calls import operation
from specsim.gpu.launching.launcher import Buffer, Buffers, Launch
from specsim.gpu.launching.mode import choose_block
from specsim.gpu.launching.plan import Plan, Size, strides_of
from specsim.host.grammar import BITS_PER_WORD

TILE = 1024
"""Logits that a program prepares: eight a thread of four warps."""

ROW_BLOCK = 2048
"""Entries of its row, or of its lists, that a program looks at together: eight a thread of eight warps."""

CHUNK = 8192
"""Entries of a row that a program reads and writes: 32 a thread of eight warps, all loaded at once."""

UNITS = 1024
"""Parts of a chunk, of eight entries each: the largest of them say which entries are listed."""

SLOTS = 2048
"""Entries of a chunk that have room in its list. Three of four units hold a sixth of the entries, in any order of them
that is not made up: 1,420 of a chunk, and 22,000 of a row of 128,256."""

FEW = 64
"""Entries among which a search ends, which are gathered for it: sixteen pairs a thread of eight warps."""

REGISTERS = 64
"""Registers of a thread where chunks are read, so that a multiprocessor has room for four programs."""

SETTLING_REGISTERS = 128
"""Registers of a thread where rows are settled, so that a multiprocessor has room for two programs."""

LAG = 8
"""Rows that are read before the first of them is written: the next programs have no one to wait for, and 8 rows of
128,256 logits in float32 are 4 MB, which the cache of 50 MB still holds."""

TOP_P_LAG = 32
"""Rows between two stages of top-p, three times as many between the first and the last: what is not in the cache any
more by then costs less than programs that wait for rows to be settled."""

CELLS = 12
"""Cells of two binades whose masses are added up, from the largest entry of a chunk downwards: 24 binades."""

OPTIONAL = ("scaling_penalty", "additive_penalty", "logit_bias", "vocab_mask")
FILTERS = ("temperature", "top_k", "top_p", "min_p")


@operation
def prepare_logits(call: Call) -> Launch | None:
    """Apply penalties, bias and grammar mask; one launch, every step rounded to float32 as in the reference."""
    logits = call.arguments["logits"]
    num_rows, vocab = call.outputs.shape
    if num_rows == 0:
        return None
    given = [name for name in OPTIONAL if call.arguments[name] is not None]
    tokens = choose_block(vocab, TILE)
    rows = choose_block(num_rows, TILE // tokens, LARGEST_TILE // tokens)
    return Launch(
        Plan(
            kernels._prepare_logits_kernel,
            grid=(ceil_div(num_rows, rows), ceil_div(vocab, tokens)),
            sizes={
                "num_rows": num_rows,
                "num_nodes": call.axes["num_draft_tokens"],
                "vocab": vocab,
                "num_words": ceil_div(vocab, BITS_PER_WORD),
                **strides_of(logits, "row", "column"),
            },
            constants={f"{name}_ptr": None for name in OPTIONAL if name not in given},
            tunables={"ROWS": rows, "BLOCK": tokens},
            options={"enable_fp_fusion": False},
        ),
        inputs={"logits": logits, **call.contiguous(*given)},
        outputs=call.returned(),
    )


@operation
def top_k_renorm(call: Call) -> list[Launch]:
    """Keep the k most probable tokens of a row."""
    return filter_rows(call, call.outputs, "probabilities", 1, "top_k")


@operation
def top_p_renorm(call: Call) -> list[Launch]:
    """Keep the most probable tokens whose mass reaches p; the threshold of a long row is found some bits at a time."""
    num_rows, vocab = call.outputs.shape
    chunk = choose_block(vocab, CHUNK)
    if num_rows == 0 or vocab <= chunk:
        return filter_rows(call, call.outputs, "probabilities", 1, "top_p")
    tensor, num_chunks = call.arguments["probabilities"], ceil_div(vocab, chunk)
    lag = min(TOP_P_LAG, ceil_div(num_rows, 4))
    sizes: dict[str, Size] = {"num_rows": num_rows, "row_sizes": (num_chunks, vocab, *tensor.stride())}
    keep = Plan(
        nucleus._keep_top_p_kernel,
        grid=((num_rows + 3 * lag) * num_chunks,),
        sizes={**sizes, "lag": lag, "pitch": tensor.stride(0)},
        constants={"CHUNKS": power_of_two(num_chunks)},
        tunables={"CHUNK": chunk, "CELLS": CELLS},
        num_warps=max(1, min(8, chunk // 256)),
        options={"maxnreg": REGISTERS},
    )
    few = min(FEW, choose_block(vocab, FEW))
    left_out = ("temperature_ptr", "top_k_ptr", "min_p_ptr", "chunk_ptrs", "list_ptrs")
    settle = _settling(
        num_rows,
        {**sizes, "num_nodes": 1},
        {**dict.fromkeys(left_out), "CHUNKS": 1, "SHIFT": 0, "IS_LISTED": False},
        tile=(1, 1, 1, 1, few),
        rows=1,
        block=choose_block(vocab, ROW_BLOCK),
    )
    parts = (num_rows, num_chunks)
    threshold = call.scratch(num_rows, dtype=torch.int32)
    scratch: dict[str, Buffer] = {
        "count": call.scratch(num_rows, dtype=torch.int32),
        # NOTE: of each chunk its mass, the mass above the cell of the threshold, its largest cell, and masses of cells.
        "part": (
            call.scratch(*parts, dtype=torch.float64),
            call.scratch(*parts, dtype=torch.float64),
            call.scratch(*parts, dtype=torch.int32),
            call.scratch(*parts, CELLS, dtype=torch.float32),
        ),
        "bins": call.scratch(num_rows, 2, nucleus.BINS.value, dtype=torch.int64),
        # NOTE: of each row the bits of its threshold so far, the mass after these bits, the goal, and what is kept.
        "found": (
            call.scratch(num_rows, dtype=torch.int32),
            call.scratch(num_rows, dtype=torch.int64),
            call.scratch(num_rows, dtype=torch.float64),
            call.scratch(num_rows, dtype=torch.float64),
        ),
        "threshold": threshold,
        "gathered": call.scratch(num_rows, few, dtype=torch.float32),
    }
    inputs: Buffers = {"values": tensor, **call.contiguous("top_p")}
    plans = (_forgetting(num_rows), keep, settle)
    return [Launch(plan, inputs, {"filtered": call.outputs}, scratch) for plan in plans]


@operation
def min_p_renorm(call: Call) -> list[Launch]:
    """Keep the tokens that reach a share of the most probable one."""
    return filter_rows(call, call.outputs, "probabilities", 1, "min_p")


@operation
def target_probabilities(call: Call) -> list[Launch]:
    """Soften and filter every row; weights of rows of several chunks are in float32, others in float64."""
    return filter_rows(call, call.outputs, "logits", call.axes["num_draft_tokens"], *FILTERS)


def filter_rows(
    call: Call, filtered: torch.Tensor, values: str, num_nodes: int, *names: str, keeps_open: bool = False
) -> list[Launch]:
    """Filter the rows of an argument in three launches, or in one where a program has whole rows.

    Programs of chunks read them, and write rows without filters, which with ``keeps_open`` are left as they are;
    programs of rows settle what the others keep.
    """
    tensor = call.arguments[values]
    num_rows, vocab = filtered.shape
    if num_rows == 0:
        return []
    chunk, block = choose_block(vocab, CHUNK), choose_block(vocab, ROW_BLOCK)
    num_chunks, units = ceil_div(vocab, chunk), choose_block(chunk, UNITS)
    is_listed, is_logits = num_chunks > 1, "temperature" in names
    chunks, slots = power_of_two(num_chunks), choose_block(chunk, SLOTS)
    few = min(FEW, choose_block(vocab, FEW))
    rows = 1 if is_listed else choose_block(num_rows, 1, max(1, LARGEST_TILE // max(block, few * few)))
    sizes: dict[str, Size] = {"num_rows": num_rows, "num_nodes": num_nodes}
    sizes["row_sizes"] = (num_chunks, vocab, *tensor.stride())
    absent: dict[str, None] = {f"{name}_ptr": None for name in FILTERS if name not in names}
    constants = {**absent, "CHUNKS": chunks, "SHIFT": 16 if tensor.dtype is torch.bfloat16 else 0}
    lists = {"threshold_ptr": None} if is_listed else {"chunk_ptrs": None, "list_ptrs": None, "threshold_ptr": None}
    tile = (units, chunk, slots, max(1, block // chunks), few)
    settle = _settling(num_rows, sizes, {**constants, **lists, "IS_LISTED": is_listed}, tile, rows, block)
    inputs: Buffers = {"values": tensor, **call.contiguous(*names)}
    outputs: Buffers = {"filtered": filtered}
    scratch: dict[str, Buffer] = {"gathered": call.scratch(num_rows, few, dtype=torch.float32)}
    if not is_listed:
        return [Launch(settle, inputs, outputs, scratch)]
    lag = 0 if keeps_open else min(LAG, num_rows)
    read = Plan(
        filtering._read_chunks_kernel,
        grid=((num_rows + lag) * num_chunks,),
        sizes={**sizes, "lag": lag},
        constants={**constants, "KEEPS_OPEN": keeps_open},
        tunables={"TILE": tile},
        num_warps=max(1, min(8, chunk // 256)),
        options={"maxnreg": REGISTERS},
    )
    parts = (num_rows, num_chunks)
    scratch |= {
        "count": call.scratch(num_rows, dtype=torch.int32),
        # NOTE: of each chunk its largest entry, its weight, the bound from which on its list is complete, and the list.
        "chunk": (
            call.scratch(*parts, dtype=torch.float32),
            call.scratch(*parts, dtype=torch.float32 if is_logits else torch.float64),
            call.scratch(*parts, dtype=torch.float32),
            call.scratch(*parts, dtype=torch.int32),
        ),
        "list": (
            call.scratch(*parts, slots, dtype=torch.float32),
            call.scratch(*parts, slots, dtype=torch.int16),
        ),
    }
    plans = (read, settle) if keeps_open else (_forgetting(num_rows), read, settle)
    return [Launch(plan, inputs, outputs, scratch) for plan in plans]


def _forgetting(num_rows: int) -> Plan:
    """Set the counts of programs that have arrived at each row to 0."""
    rows = min(1024, power_of_two(num_rows))
    return Plan(
        filtering._forget_rows_kernel,
        grid=(ceil_div(num_rows, rows),),
        sizes={"num_rows": num_rows},
        tunables={"BLOCK": rows},
    )


def _settling(
    num_rows: int, sizes: dict[str, Size], constants: dict[str, Any], tile: tuple[int, ...], rows: int, block: int
) -> Plan:
    """Settle rows by their lists, whole rows, or those whose threshold has not been found."""
    return Plan(
        filtering._settle_rows_kernel,
        grid=(ceil_div(num_rows, rows),),
        sizes=sizes,
        constants=constants,
        tunables={"TILE": tile, "ROWS": rows, "BLOCK": block},
        num_warps=max(1, min(8, rows * block // 256)),
        options={"maxnreg": SETTLING_REGISTERS},
    )
