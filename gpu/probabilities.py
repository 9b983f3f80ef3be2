"""Probabilities: from raw logits to the target's distribution of every row."""

from typing import Any

import torch

from specsim.gpu.kernels import probabilities as kernels
from specsim.gpu.kernels import renormalise
from specsim.gpu.launching.blocks import LARGEST_TILE, ceil_div, power_of_two
from specsim.gpu.launching.buffers import Call
from specsim.gpu.launching.calls import operation
from specsim.gpu.launching.launcher import Launch
from specsim.gpu.launching.mode import choose_block
from specsim.gpu.launching.plan import Plan, Size, strides_of
from specsim.host.grammar import BITS_PER_WORD

TILE = 1024
"""Logits that a program prepares: eight a thread of four warps."""

ROW_BLOCK = 2048
"""Tokens of its row that a program looks at together: eight a thread of eight warps, in float64."""

CHUNK = 8192
"""Logits of a row without filters that a program reads and writes: 64 a thread of four warps, all loaded at once."""

LAG = 8
"""Rows that are read before the first of them is written: the next programs have no one to wait for, and 8 rows of
128,256 logits in float32 are 4 MB, which the cache of 50 MB still holds."""

MAXIMA = 128
"""Largest entries that a program takes of a chunk of 8,192: of 128,256 tokens 2,048, among them nearly all of the first
hundred."""

SLOTS = 4096
"""Entries of a row whose place in the order may have to be found: of flat rows under top-p 1,600, of others a few."""

LISTED = {renormalise.TOP_K.value: 512, renormalise.TOP_P.value: 2048, renormalise.MIN_P.value: 512}
"""Listed entries that a program looks at together: of flat rows top-p lists a thousand, top-k few more than k."""

LARGEST_PRECISE = 4096
"""Vocabulary up to which weights are in float64. In float32 the rounding of an exponent of 69, beyond which weights
count as 0, is half as large again as the bound of the exponent; the bound of a sum has room for that from here on."""

OPTIONAL = ("scaling_penalty", "additive_penalty", "logit_bias", "vocab_mask")


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
    """Keep the k most probable tokens of a row: at least k reach the k-th of the chunks' largest entries."""
    return _renormalise(call, "top_k", renormalise.TOP_K.value)


@operation
def top_p_renorm(call: Call) -> list[Launch]:
    """Keep the most probable tokens whose mass reaches p: the masses above a few thresholds say where to look."""
    return _renormalise(call, "top_p", renormalise.TOP_P.value)


@operation
def min_p_renorm(call: Call) -> list[Launch]:
    """Keep the tokens that reach a share of the most probable one."""
    return _renormalise(call, "min_p", renormalise.MIN_P.value)


def _renormalise(call: Call, parameter: str, kind: int) -> list[Launch]:
    """Filter the rows of a call by one of its arguments in five launches, over chunks of rows or over rows.

    Two of them bracket the threshold, one lists what lies in the bracket, one settles the threshold, one writes.
    """
    probabilities = call.arguments["probabilities"]
    num_rows, vocab = call.outputs.shape
    if num_rows == 0:
        return []
    chunk = choose_block(vocab, CHUNK)
    rows = choose_block(num_rows, 1, max(1, LARGEST_TILE // chunk))
    num_groups, num_chunks = ceil_div(num_rows, rows), ceil_div(vocab, chunk)
    is_top_p = kind == renormalise.TOP_P.value
    lanes = renormalise.WAYS.value if is_top_p else min(chunk, MAXIMA)
    slots = 1 if kind == renormalise.MIN_P.value else choose_block(vocab, SLOTS, SLOTS)
    filtered = {"FILTER": kind, "CHUNKS": power_of_two(num_chunks)}
    sizes: dict[str, Size] = {"num_rows": num_rows, "num_chunks": num_chunks, "vocab": vocab}
    by_row: dict[str, Size] = {**sizes, "strides": probabilities.stride()}
    tile = {"ROWS": rows, "CHUNK": chunk}

    over_chunks: dict[str, Any] = {"grid": (num_groups * num_chunks,), "sizes": by_row}
    over_chunks["num_warps"] = max(1, min(8, rows * chunk // 256))
    over_rows: dict[str, Any] = {"grid": (num_groups,), "num_warps": 8}
    sketches = [
        Plan(
            renormalise._sketch_chunks_kernel,
            constants={**filtered, "IS_FINE": is_fine},
            tunables={**tile, "LANES": lanes},
            **over_chunks,
        )
        for is_fine in ((False, True) if is_top_p else (False,))
    ]
    bound = Plan(
        renormalise._bracket_by_maxima_kernel,
        sizes=sizes,
        constants=filtered,
        tunables={"ROWS": rows, "LANES": lanes},
        **over_rows,
    )
    plans = [
        *sketches,
        *(() if is_top_p else (bound,)),
        Plan(
            renormalise._list_chunks_kernel,
            constants=filtered,
            tunables={**tile, "SLOTS": slots, "TILE": choose_block(chunk, ROW_BLOCK)},
            **over_chunks,
        ),
        Plan(
            renormalise._settle_rows_kernel,
            sizes=by_row,
            constants=filtered,
            tunables={
                **{"ROWS": rows, "SLOTS": slots, "LISTED": choose_block(slots, LISTED[kind])},
                "BLOCK": choose_block(vocab, ROW_BLOCK),
            },
            **over_rows,
        ),
        Plan(renormalise._write_shares_kernel, tunables=tile, **over_chunks),
    ]
    parts = (num_rows, num_chunks)
    scratch = {
        "sketch": call.scratch(*parts, lanes, dtype=torch.float32),
        "fine_sketch": call.scratch(*parts, renormalise.WAYS.value, dtype=torch.float32),
        "total": call.scratch(*parts, dtype=torch.float64),
        "above": call.scratch(*parts, dtype=torch.float64),
        "bracket": call.scratch(num_rows, 2, dtype=torch.float64),
        "count": call.scratch(num_rows, dtype=torch.int32),
        "listed": call.scratch(num_rows, slots, dtype=torch.float32),
        "settled": call.scratch(num_rows, 2, dtype=torch.float64),
    }
    inputs = {"probabilities": probabilities, "filter": call.arguments[parameter].contiguous()}
    outputs = {"renormalised": call.outputs}
    return [Launch(plan, inputs, outputs, scratch) for plan in plans]


@operation
def target_probabilities(call: Call) -> list[Launch]:
    """Soften and filter every row in two launches, one for rows with filters, the other for rows without.

    A program of the first owns whole rows, and looks at what may survive alone; a row of the second is split over
    programs and read from memory once.
    """
    logits = call.arguments["logits"]
    num_rows, vocab = call.outputs.shape
    if num_rows == 0:
        return []
    rows, block = _blocks(num_rows, vocab)
    chunk = choose_block(vocab, CHUNK)
    num_groups, num_chunks = ceil_div(num_rows, rows), ceil_div(vocab, chunk)
    row = {"vocab": vocab, **strides_of(logits, "row", "column")}
    lag = min(LAG, num_groups) if num_chunks > 1 else 0
    is_precise = vocab <= LARGEST_PRECISE
    # NOTE: the launch for rows with filters resets the counts of the other.
    filtered = Plan(
        kernels._target_probabilities_kernel,
        grid=(num_groups,),
        sizes={"num_rows": num_rows, "num_nodes": call.axes["num_draft_tokens"], **row},
        tunables={"ROWS": rows, "BLOCK": block},
        num_warps=_num_warps(rows, block),
    )
    softened = Plan(
        kernels._soften_kernel,
        grid=((num_groups + lag) * num_chunks,),
        sizes={"num_rows": num_rows, "num_groups": num_groups, "lag": lag, "num_chunks": num_chunks, **row},
        constants={"CHUNKS": power_of_two(num_chunks), "PRECISE": is_precise},
        tunables={"ROWS": rows, "CHUNK": chunk},
        num_warps=max(1, min(4, rows * chunk // 256)),
    )
    precision = torch.float64 if is_precise else torch.float32
    inputs = {"logits": logits, **call.contiguous("temperature", "top_k", "top_p", "min_p")}
    outputs = call.returned()
    scratch = {
        "num_read": call.scratch(num_groups, dtype=torch.int32),
        "scale": call.scratch(num_rows, dtype=precision),
        "chunk_max": call.scratch(num_rows, num_chunks, dtype=torch.float32),
        "chunk_mass": call.scratch(num_rows, num_chunks, dtype=precision),
    }
    return [Launch(plan, inputs, outputs, scratch) for plan in (filtered, softened)]


def _blocks(num_rows: int, vocab: int) -> tuple[int, int]:
    """Return rows a program, and tokens that it looks at together."""
    block = choose_block(vocab, ROW_BLOCK)
    return choose_block(num_rows, 1, max(1, LARGEST_TILE // block)), block


def _num_warps(rows: int, block: int) -> int:
    """Return a warp for every 256 entries of a tile, from 1 to 8."""
    return max(1, min(8, rows * block // 256))
