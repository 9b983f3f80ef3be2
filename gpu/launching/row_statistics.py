"""How rows of logits are cut into chunks, of which statistics are taken, and how they are searched."""

from typing import Any

import torch

from specsim.gpu.kernels.from_logits import statistics
from specsim.gpu.launching.blocks import LARGEST_TILE, UNIT, ceil_div, power_of_two
from specsim.gpu.launching.buffers import Call
from specsim.gpu.launching.mode import choose_block
from specsim.gpu.launching.plan import Plan, strides_of

CHUNK = 16384
"""Logits of its row that a program of the statistics reads: 64 a thread of eight warps, all in registers at once."""

LEAST_CHUNK = 256
"""A chunk holds as many logits as a program has threads, and as many units as the statistics have parts."""

MOST_CHUNKS = 32
"""Chunks of a row: their lists together are the tile of 32 x 128 logits that one program of the walk filters."""

SLOTS = 128
"""Largest logits of a chunk that are listed: more than twice the usual top-k of 50, and half a program's threads."""

WAYS, ROW_WAYS, INTERPRETED_WAYS = 8, 8, 256
"""Bounds that a round of the search tries on the lists, and on a whole row: three bits of a float32 a round; eight
under the interpreter, where a round takes as long whatever it tries."""

BLOCK = 4096
"""Logits of its row that a program of the walk reads at a time where the lists do not suffice: 16 a thread."""

NARROWING, NARROWING_WIDE = (6, 3), (8, 4)
"""Rounds of narrowing, and bits of the bounds that each of them tries, for bfloat16 and for wider logits."""

NOT_NARROWED = (0, 0)
"""Rounds and bits where rows are short enough for one program to read them again."""

NUM_WARPS = 8
"""Warps of a program: 256 threads, which the parts of the statistics and all figures above count on."""

LARGEST_PRECISE = 4096
"""Vocabulary up to which weights are in float64: where it is small, their rounding decides more draws than time."""

INTERPRETED_ROWS = 8
"""Rows that are all read in one launch, at most, under the interpreter."""

SHARE, MOST_SHARES = 8192, 256
"""Logits that a program of a walk reads where requests alone fill a GPU; shares of a row, which one program merges."""

PROGRAMS_TO_FILL = 1024
"""Programs that fill a GPU with loads: about eight for each of an H200's 132 multiprocessors."""


def statistics_plan(
    logits: torch.Tensor,
    num_rows: int,
    num_nodes: int,
    level: int,
    is_precise: bool,
    narrow: tuple[int, int] = NOT_NARROWED,
) -> Plan:
    """Return the launch that reads the row which each request has reached, or all rows, over chunks of it."""
    vocab = logits.shape[1]
    chunk = chunk_of(vocab)
    unit = min(UNIT, chunk // LEAST_CHUNK)
    return Plan(
        statistics._row_statistics_kernel,
        grid=(num_rows, ceil_div(vocab, chunk)),
        sizes={"level": level, "num_nodes": num_nodes, "vocab": vocab, **strides_of(logits, "row", "column")},
        constants={**kind_of_rows(logits, is_precise), "ROUNDS": narrow[0]},
        tunables={"UNITS": chunk // unit, "UNIT": unit, "SLOTS": SLOTS, "BLOCK": block_of(vocab)},
        num_warps=NUM_WARPS,
    )


def kind_of_rows(logits: torch.Tensor, is_precise: bool) -> dict[str, Any]:
    """Return which bits of logits a search leaves out, and whether weights are in float64."""
    # NOTE: the last 16 bits of a bfloat16 in float32 are 0.
    return {"SHIFT": 16 if logits.dtype is torch.bfloat16 else 0, "PRECISE": is_precise}


def search_of(vocab: int, narrow: tuple[int, int] = NOT_NARROWED) -> tuple[int, ...]:
    """Return how a row is searched.

    That is: slots of a list, bounds of a round on lists and on the row, its blocks, how many of them a chunk has, and
    how it is narrowed down.
    """
    chunk, block = chunk_of(vocab), block_of(vocab)
    listed = SLOTS * power_of_two(ceil_div(vocab, chunk))
    return SLOTS, ways_of(listed, WAYS), ways_of(block, ROW_WAYS), block, chunk // block, *narrow


def chunk_statistics(call: Call, num_rows: int, vocab: int) -> tuple[torch.Tensor, ...]:
    """Return memory for each chunk: its largest logit, weights of its blocks, its bound, and its list from there on."""
    chunk = chunk_of(vocab)
    parts = (num_rows, ceil_div(vocab, chunk))
    return (
        call.scratch(*parts, dtype=torch.float32),
        call.scratch(*parts, chunk // block_of(vocab), dtype=torch.float64),
        call.scratch(*parts, dtype=torch.float32),
        call.scratch(*parts, SLOTS, dtype=torch.float32),
        call.scratch(*parts, SLOTS, dtype=torch.int32),
    )


def chunk_of(vocab: int) -> int:
    """Return how many logits one program of the statistics reads."""
    most = max(CHUNK, power_of_two(ceil_div(vocab, MOST_CHUNKS)))
    return max(LEAST_CHUNK, choose_block(vocab, most))


def block_of(vocab: int) -> int:
    """Return how many logits of a row are weighed together, and read at a time where lists do not suffice."""
    return min(chunk_of(vocab), max(LEAST_CHUNK, choose_block(vocab, BLOCK)))


def ways_of(num_logits: int, most: int) -> int:
    """Return how many bounds a round of the search tries on so many logits; a search ends with two or more of them."""
    return max(2, choose_block(LARGEST_TILE // num_logits, most, INTERPRETED_WAYS))


def share_of_row(vocab: int, num_rows: int, num_programs: int = PROGRAMS_TO_FILL) -> int:
    """Return how many logits of a row one program of a walk reads: fewer where rows alone do not fill a GPU."""
    share = power_of_two(ceil_div(num_rows * vocab, num_programs))
    return choose_block(vocab, max(min(share, SHARE), power_of_two(ceil_div(vocab, MOST_SHARES))))


def reads_all(num_rows: int, most: int) -> bool:
    """Return whether all rows are read at once."""
    return num_rows <= choose_block(num_rows, most, INTERPRETED_ROWS)
