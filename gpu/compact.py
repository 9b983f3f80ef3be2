"""Compact on the GPU: ids, slots and node-indexed rows. Moving KV stands in ``move.py``."""

from specsim.counts import path_width
from specsim.gpu.kernels import compact as kernels
from specsim.gpu.launching.blocks import LARGEST_TILE, ceil_div
from specsim.gpu.launching.buffers import Call
from specsim.gpu.launching.calls import operation
from specsim.gpu.launching.launcher import Launch
from specsim.gpu.launching.mode import choose_block
from specsim.gpu.launching.plan import Plan
from specsim.gpu.launching.pointers import words_of
from specsim.gpu.move import move_kv_cache

__all__ = [
    "compact_accepted_to_front",
    "fill_accept_out_cache_loc",
    "fill_accept_target_cache_loc",
    "fill_bonus_tokens",
    "gather_accept_tokens",
    "move_kv_cache",
]

TOKENS = 256
"""Entries of a path that a program gathers: two a thread of four warps."""

BONUS_TOKENS = 128
"""Requests of a program that picks bonus tokens: one a thread of four warps."""

SLOTS = 1024
"""Entries that a program packs: a program counts all before its own, so that few programs and long blocks win."""

WORDS, INTERPRETED_WORDS = 512, 1 << 12
"""Words of a row that a program copies at a time: four a thread of four warps."""

TILE = 1024
"""Words of a program that owns several rows."""


@operation
def gather_accept_tokens(call: Call) -> Launch | None:
    """Read the output tokens along each accepted path; a program owns a block of flat entries."""
    num_entries = call.arguments["accept_index"].numel()
    if num_entries == 0:
        return None
    block = choose_block(num_entries, TOKENS)
    return Launch(
        Plan(
            kernels._gather_accept_tokens_kernel,
            grid=(ceil_div(num_entries, block),),
            sizes={"num_entries": num_entries, "num_rows": call.arguments["predict"].numel()},
            tunables={"BLOCK": block},
        ),
        inputs=call.contiguous("predict", "accept_index"),
        outputs=call.returned(),
    )


@operation
def fill_bonus_tokens(call: Call) -> Launch | None:
    """Pick the last output token of each request; a program owns a block of requests."""
    num_requests = call.axes["request"]
    if num_requests == 0:
        return None
    block = choose_block(num_requests, BONUS_TOKENS)
    return Launch(
        Plan(
            kernels._fill_bonus_tokens_kernel,
            grid=(ceil_div(num_requests, block),),
            sizes={"num_requests": num_requests, "width": call.arguments["accept_tokens"].shape[1]},
            tunables={"BLOCK": block},
        ),
        inputs=call.contiguous("accept_tokens", "num_accepted_tokens"),
        outputs=call.returned(),
    )


@operation
def fill_accept_out_cache_loc(call: Call) -> Launch | None:
    """List the slots of the accepted nodes; a program packs a block of entries and counts those before it."""
    num_entries = call.arguments["accept_index"].numel()
    if num_entries == 0:
        return None
    block = choose_block(num_entries, SLOTS)
    return Launch(
        Plan(
            kernels._fill_accept_out_cache_loc_kernel,
            grid=(ceil_div(num_entries, block),),
            sizes={"num_entries": num_entries, "num_slots": call.arguments["out_cache_loc"].numel()},
            tunables={"BLOCK": block},
        ),
        inputs=call.contiguous("accept_index", "out_cache_loc"),
        outputs=call.returned(),
    )


@operation
def fill_accept_target_cache_loc(call: Call) -> Launch | None:
    """List the slots that the accepted nodes move to; a program packs a block of entries and counts those before it."""
    num_entries = call.outputs.shape[0]
    if num_entries == 0:
        return None
    block = choose_block(num_entries, SLOTS)
    return Launch(
        Plan(
            kernels._fill_accept_target_cache_loc_kernel,
            grid=(ceil_div(num_entries, block),),
            sizes={
                "num_entries": num_entries,
                "width": path_width(call.axes["num_steps"]),
                "num_nodes": call.axes["node"],
            },
            tunables={"BLOCK": block},
        ),
        inputs=call.contiguous("num_accepted_tokens", "out_cache_loc"),
        outputs=call.returned(),
    )


@operation
def compact_accepted_to_front(call: Call) -> Launch | None:
    """Bring the entries of the accepted path to the front of each request's block, out of place, as plain bytes.

    A program owns a tile of rows and words. Past the path a row is a copy of global node 0 up to the row width, of
    itself after it, as in the reference. No row is left as the memory was: the draft model runs over all of them (D.6),
    and looks ids up that have to be tokens.
    """
    values, compacted = call.arguments["values"], call.outputs
    if values.numel() == 0:
        return None
    source, target = words_of(values.contiguous()), words_of(compacted)
    word = source.dtype if source.element_size() <= target.element_size() else target.dtype
    source, target = source.view(word), target.view(word)
    num_rows, num_words = source.shape
    words = choose_block(num_words, WORDS, INTERPRETED_WORDS)
    rows = choose_block(num_rows, max(1, TILE // words), LARGEST_TILE // words)
    return Launch(
        Plan(
            kernels._compact_accepted_to_front_kernel,
            grid=(ceil_div(num_rows, rows), ceil_div(num_words, words)),
            sizes={
                "num_rows": num_rows,
                "num_nodes": call.axes["node"],
                "width": call.arguments["accept_index"].shape[1],
                "num_words": num_words,
            },
            tunables={"ROWS": rows, "WORDS": words},
        ),
        inputs={"values": source, **call.contiguous("accept_index")},
        outputs={"compacted": target},
    )
