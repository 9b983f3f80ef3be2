"""Acceptance straight from raw logits: a walk reads the rows that it visits, each once, and no others."""

import torch

from specsim.counts import path_width
from specsim.gpu.acceptance import COINS, THRESHOLDS, TREE
from specsim.gpu.kernels.from_logits import greedy, sampled, statistics
from specsim.gpu.launching.blocks import LARGEST_TILE, ceil_div, power_of_two
from specsim.gpu.launching.buffers import Call
from specsim.gpu.launching.calls import operation
from specsim.gpu.launching.launcher import Buffers, Launch
from specsim.gpu.launching.mode import choose_block
from specsim.gpu.launching.plan import Plan, strides_of
from specsim.gpu.verify import choose_greedily, follow_choices

CHUNK = 16384
"""Logits of its row that a program of the statistics reads: 64 a thread of eight warps, all in registers at once."""

LEAST_CHUNK = 256
"""A chunk holds as many logits as a program has threads, and as many units as the statistics have parts."""

MOST_CHUNKS = 32
"""Chunks of a row: their lists together are the tile of 32 x 128 logits that one program of the walk filters."""

UNIT = 8
"""Neighbouring logits that a thread reduces to their largest: 16 bytes of bfloat16, one load."""

SLOTS = 128
"""Largest logits of a chunk that are listed: more than twice the usual top-k of 50, and half a program's threads."""

WAYS, ROW_WAYS, INTERPRETED_WAYS = 8, 8, 256
"""Bounds that a round of the search tries on the lists, and on a whole row: three bits of a float32 a round; eight
under the interpreter, where a round takes as long whatever it tries."""

BLOCK = 4096
"""Logits of its row that a program of the walk reads at a time where the lists do not suffice: 16 a thread."""

MOST_GREEDY_ROWS, MOST_SAMPLED_ROWS, INTERPRETED_ROWS = 256, 128, 8
"""Rows that are all read in one launch before one walk, rather than level by level: fewer launches for more bytes."""

GREEDY_CHUNK = 8192
"""Logits that a program of the greedy walk reads where requests alone fill a GPU: 32 a thread of eight warps."""

MOST_GREEDY_CHUNKS = 256
"""Chunks of a row in the greedy walk: what one program of 256 threads merges, one a thread."""

PROGRAMS_TO_FILL = 1024
"""Programs that fill a GPU with loads in the greedy walk: about eight for each of an H200's 132 multiprocessors."""

NUM_WARPS = 8
"""Warps of a program: 256 threads, which the parts of the statistics and all figures above count on."""

LARGEST_PRECISE = 4096
"""Vocabulary up to which weights are in float64: where it is small, their rounding decides more draws than time."""


@operation
def verify_tree_greedy_from_logits(call: Call) -> list[Launch]:
    """Accept greedily from raw logits; one launch a level of the tree and one more, over chunks of a row.

    Where rows are few, all of them are read at once before one walk.
    """
    axes, logits = call.axes, call.arguments["logits"]
    num_requests, num_nodes, vocab, num_steps = (axes[name] for name in ("request", "node", "vocab", "num_steps"))
    if num_requests == 0:
        return []
    if reads_all(num_requests * num_nodes, MOST_GREEDY_ROWS):
        choices: Buffers = {"target_predict": call.scratch(num_requests, num_nodes, dtype=torch.int64)}
        walk = follow_choices(call, choices)
        return [*choose_greedily(call, logits, choices), *([] if walk is None else [walk])]
    chunk = greedy_chunk_of(vocab, num_requests)
    num_chunks = ceil_div(vocab, chunk)
    num_levels = min(path_width(num_steps), num_nodes)
    partial = (num_levels, num_requests, num_chunks)
    inputs, outputs = {"logits": logits, "tree": call.group(*TREE)}, {"path": tuple(call.outputs)}
    scratch: Buffers = {
        "reached": call.scratch(num_levels + 1, num_requests, dtype=torch.int32),
        "choice": tuple(call.scratch(*partial, dtype=dtype) for dtype in (torch.float32, torch.int32)),
    }
    # NOTE: each level reads the rows of its nodes; one more launch follows the last choices.
    plans = [
        Plan(
            greedy._walk_greedy_kernel,
            grid=(num_requests, num_chunks if level < num_levels else 1),
            sizes={
                "num_nodes": num_nodes,
                "num_steps": num_steps,
                "level": level,
                "num_levels": num_levels,
                "num_chunks": num_chunks,
                "row_sizes": (vocab, *logits.stride()),
            },
            constants={
                "NODES": power_of_two(num_nodes),
                "STEPS": power_of_two(path_width(num_steps)),
                "CHUNKS": power_of_two(num_chunks),
            },
            tunables={"CHUNK": chunk},
            num_warps=max(1, min(NUM_WARPS, chunk // 256)),
        )
        for level in range(num_levels + 1)
    ]
    return [Launch(plan, inputs, outputs, scratch) for plan in plans]


@operation
def verify_tree_sampled_from_logits(call: Call) -> list[Launch]:
    """Accept by chance from raw logits; two launches a level of the tree, over chunks of a row and over requests.

    The first reads the row of the node that each request has reached; the second decides by the lists of its largest
    logits, or reads the row again where they do not suffice. Where rows are few, one launch reads all of them, and one
    walks.
    """
    axes, logits = call.axes, call.arguments["logits"]
    num_requests, num_nodes, vocab, num_steps = (axes[name] for name in ("request", "node", "vocab", "num_steps"))
    if num_requests == 0:
        return []
    chunk = chunk_of(vocab)
    num_chunks, unit = ceil_div(vocab, chunk), min(UNIT, chunk // LEAST_CHUNK)
    num_levels = min(path_width(num_steps), num_nodes)
    block = min(chunk, max(LEAST_CHUNK, choose_block(vocab, BLOCK)))
    is_whole = num_levels > 1 and reads_all(num_requests * num_nodes, MOST_SAMPLED_ROWS)
    num_rows = num_requests * num_nodes if is_whole else num_requests
    # NOTE: the last 16 bits of a bfloat16 in float32 are 0, so that the search leaves them out.
    kind = {"SHIFT": 16 if logits.dtype is torch.bfloat16 else 0, "PRECISE": vocab <= LARGEST_PRECISE}
    plans = []
    for level, end in [(0, num_levels)] if is_whole else [(level, level + 1) for level in range(num_levels)]:
        read = Plan(
            statistics._row_statistics_kernel,
            grid=(num_rows, num_chunks),
            sizes={
                "level": -1 if is_whole else level,
                "num_nodes": num_nodes,
                "vocab": vocab,
                **strides_of(logits, "row", "column"),
            },
            constants=kind,
            tunables={"UNITS": chunk // unit, "UNIT": unit, "SLOTS": SLOTS, "BLOCK": block},
            num_warps=NUM_WARPS,
        )
        walk = Plan(
            sampled._walk_sampled_kernel,
            grid=(num_requests,),
            sizes={
                "num_nodes": num_nodes,
                "num_steps": num_steps,
                "level": level,
                "end": end,
                "num_levels": num_levels,
                "row_sizes": (num_chunks, vocab, *logits.stride()),
                "strict": axes["strict"],
                "skip_duplicates": axes["skip_duplicates"],
            },
            constants={
                "TREE": (power_of_two(num_nodes), power_of_two(path_width(num_steps))),
                "CHUNKS": power_of_two(num_chunks),
                **kind,
            },
            tunables={
                "SEARCH": (
                    SLOTS,
                    ways_of(SLOTS * power_of_two(num_chunks), WAYS),
                    ways_of(block, ROW_WAYS),
                    block,
                    chunk // block,
                ),
            },
            num_warps=NUM_WARPS,
        )
        plans += [read, walk]
    filters = call.contiguous("temperature", "top_k", "top_p", "min_p")
    inputs = {
        "logits": logits,
        **filters,
        "filter": tuple(filters.values()),
        "tree": call.group(*TREE),
        "coin": call.group(*COINS),
        "threshold": call.group(*THRESHOLDS),
    }
    current = call.scratch(num_requests, dtype=torch.int32)
    # NOTE: of each chunk its largest logit, the weight of its blocks, the bound from which on its list is complete, and
    # the list.
    chunk_statistics = (
        call.scratch(num_rows, num_chunks, dtype=torch.float32),
        call.scratch(num_rows, num_chunks, chunk // block, dtype=torch.float64),
        call.scratch(num_rows, num_chunks, dtype=torch.float32),
        call.scratch(num_rows, num_chunks, SLOTS, dtype=torch.float32),
        call.scratch(num_rows, num_chunks, SLOTS, dtype=torch.int32),
    )
    scratch: Buffers = {"current": current, "statistic": chunk_statistics, "walk": (current, *chunk_statistics)}
    outputs = {"path": tuple(call.outputs)}
    return [Launch(plan, inputs, outputs, scratch) for plan in plans]


def chunk_of(vocab: int) -> int:
    """Return how many logits one program of the statistics reads."""
    most = max(CHUNK, power_of_two(ceil_div(vocab, MOST_CHUNKS)))
    return max(LEAST_CHUNK, choose_block(vocab, most))


def ways_of(num_logits: int, most: int) -> int:
    """Return how many bounds a round of the search tries on so many logits; a search ends with two or more of them."""
    return max(2, choose_block(LARGEST_TILE // num_logits, most, INTERPRETED_WAYS))


def greedy_chunk_of(vocab: int, num_requests: int) -> int:
    """Return how many logits one program of the greedy walk reads: fewer where requests alone do not fill a GPU."""
    share = power_of_two(ceil_div(num_requests * vocab, PROGRAMS_TO_FILL))
    return choose_block(vocab, max(min(share, GREEDY_CHUNK), power_of_two(ceil_div(vocab, MOST_GREEDY_CHUNKS))))


def reads_all(num_rows: int, most: int) -> bool:
    """Return whether all rows are read at once."""
    return num_rows <= choose_block(num_rows, most, INTERPRETED_ROWS)
