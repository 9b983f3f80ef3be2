"""Probabilities: from raw logits to the target's distribution of every row."""

import torch

from specsim.gpu.kernels import filtering
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

FEW = 256
"""Entries among which a search ends, which are gathered for it: one a thread of eight warps."""

REGISTERS = 64
"""Registers of a thread where chunks are read, so that a multiprocessor has room for four programs."""

LAG = 8
"""Rows that are read before the first of them is written: the next programs have no one to wait for, and 8 rows of
128,256 logits in float32 are 4 MB, which the cache of 50 MB still holds."""

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
    """Keep the most probable tokens whose mass reaches p."""
    return filter_rows(call, call.outputs, "probabilities", 1, "top_p")


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
    rows = 1 if is_listed else choose_block(num_rows, 1, max(1, LARGEST_TILE // block))
    sizes: dict[str, Size] = {"num_rows": num_rows, "num_nodes": num_nodes}
    sizes["row_sizes"] = (num_chunks, vocab, *tensor.stride())
    absent: dict[str, None] = {f"{name}_ptr": None for name in FILTERS if name not in names}
    constants = {**absent, "CHUNKS": chunks, "SHIFT": 16 if tensor.dtype is torch.bfloat16 else 0}
    lists = {} if is_listed else {"chunk_ptrs": None, "list_ptrs": None}
    few = choose_block(vocab, FEW)
    tile = (units, chunk, slots, max(1, block // chunks), few)
    settle = Plan(
        filtering._settle_rows_kernel,
        grid=(ceil_div(num_rows, rows),),
        sizes=sizes,
        constants={**constants, **lists, "IS_LISTED": is_listed},
        tunables={"TILE": tile, "ROWS": rows, "BLOCK": block},
        num_warps=max(1, min(8, rows * block // 256)),
    )
    inputs: Buffers = {"values": tensor, **call.contiguous(*names)}
    outputs: Buffers = {"filtered": filtered}
    scratch: dict[str, Buffer] = {"gathered": call.scratch(num_rows, few, dtype=torch.float32)}
    if not is_listed:
        return [Launch(settle, inputs, outputs, scratch)]
    lag, known = 0 if keeps_open else min(LAG, num_rows), min(1024, power_of_two(num_rows))
    forget = Plan(
        filtering._forget_rows_kernel,
        grid=(ceil_div(num_rows, known),),
        sizes={"num_rows": num_rows},
        tunables={"BLOCK": known},
    )
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
        "num_read": call.scratch(num_rows, dtype=torch.int32),
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
    plans = (read, settle) if keeps_open else (forget, read, settle)
    return [Launch(plan, inputs, outputs, scratch) for plan in plans]
