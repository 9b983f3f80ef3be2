"""Compact on the GPU: ids, slots and node-indexed rows. Moving KV stands in ``move.py``."""

import torch

from specsim.counts import path_width
from specsim.gpu.kernels import compact as kernels
from specsim.gpu.launching.blocks import LARGEST_TILE, ceil_div
from specsim.gpu.launching.buffers import Call
from specsim.gpu.launching.calls import run
from specsim.gpu.launching.launcher import launch
from specsim.gpu.launching.mode import choose_block
from specsim.gpu.launching.plan import Plan, planned
from specsim.gpu.launching.pointers import words_of
from specsim.gpu.move import launch_move_kv_cache, move_kv_cache

__all__ = [
    "compact_accepted_to_front",
    "fill_accept_out_cache_loc",
    "fill_accept_target_cache_loc",
    "fill_bonus_tokens",
    "gather_accept_tokens",
    "launch_compact_accepted_to_front",
    "launch_fill_accept_out_cache_loc",
    "launch_fill_accept_target_cache_loc",
    "launch_fill_bonus_tokens",
    "launch_gather_accept_tokens",
    "launch_move_kv_cache",
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


def gather_accept_tokens(predict: torch.Tensor, accept_index: torch.Tensor) -> torch.Tensor:
    """Read the output tokens along each accepted path; a program owns a block of flat entries."""
    return run("gather_accept_tokens", launch_gather_accept_tokens, locals())


def launch_gather_accept_tokens(call: Call) -> torch.Tensor:
    """Launch into the buffers of a checked call."""
    num_entries = call.arguments["accept_index"].numel()
    if num_entries:
        launch(
            _plan_gather(num_entries, call.arguments["predict"].numel()),
            inputs=call.contiguous("predict", "accept_index"),
            outputs={"accept_tokens": call.outputs},
        )
    return call.outputs


@planned
def _plan_gather(num_entries: int, num_rows: int) -> Plan:
    block = choose_block(num_entries, TOKENS)
    return Plan(
        kernels._gather_accept_tokens_kernel,
        grid=(ceil_div(num_entries, block),),
        sizes={"num_entries": num_entries, "num_rows": num_rows},
        tunables={"BLOCK": block},
    )


def fill_bonus_tokens(accept_tokens: torch.Tensor, num_accepted_tokens: torch.Tensor) -> torch.Tensor:
    """Pick the last output token of each request; a program owns a block of requests."""
    return run("fill_bonus_tokens", launch_fill_bonus_tokens, locals())


def launch_fill_bonus_tokens(call: Call) -> torch.Tensor:
    """Launch into the buffers of a checked call."""
    num_requests = call.axes["request"]
    if num_requests:
        launch(
            _plan_bonus(num_requests, call.arguments["accept_tokens"].shape[1]),
            inputs=call.contiguous("accept_tokens", "num_accepted_tokens"),
            outputs={"bonus_tokens": call.outputs},
        )
    return call.outputs


@planned
def _plan_bonus(num_requests: int, width: int) -> Plan:
    block = choose_block(num_requests, BONUS_TOKENS)
    return Plan(
        kernels._fill_bonus_tokens_kernel,
        grid=(ceil_div(num_requests, block),),
        sizes={"num_requests": num_requests, "width": width},
        tunables={"BLOCK": block},
    )


def fill_accept_out_cache_loc(accept_index: torch.Tensor, out_cache_loc: torch.Tensor) -> torch.Tensor:
    """List the slots of the accepted nodes; a program packs a block of entries and counts those before it."""
    return run("fill_accept_out_cache_loc", launch_fill_accept_out_cache_loc, locals())


def launch_fill_accept_out_cache_loc(call: Call) -> torch.Tensor:
    """Launch into the buffers of a checked call."""
    num_entries = call.arguments["accept_index"].numel()
    if num_entries:
        launch(
            _plan_sources(num_entries, call.arguments["out_cache_loc"].numel()),
            inputs=call.contiguous("accept_index", "out_cache_loc"),
            outputs={"source_slots": call.outputs},
        )
    return call.outputs


@planned
def _plan_sources(num_entries: int, num_slots: int) -> Plan:
    block = choose_block(num_entries, SLOTS)
    return Plan(
        kernels._fill_accept_out_cache_loc_kernel,
        grid=(ceil_div(num_entries, block),),
        sizes={"num_entries": num_entries, "num_slots": num_slots},
        tunables={"BLOCK": block},
    )


def fill_accept_target_cache_loc(
    num_accepted_tokens: torch.Tensor, out_cache_loc: torch.Tensor, num_steps: int
) -> torch.Tensor:
    """List the slots that the accepted nodes move to; a program packs a block of entries and counts those before it."""
    return run("fill_accept_target_cache_loc", launch_fill_accept_target_cache_loc, locals())


def launch_fill_accept_target_cache_loc(call: Call) -> torch.Tensor:
    """Launch into the buffers of a checked call."""
    num_entries = call.outputs.shape[0]
    if num_entries:
        launch(
            _plan_targets(num_entries, path_width(call.axes["num_steps"]), call.axes["node"]),
            inputs=call.contiguous("num_accepted_tokens", "out_cache_loc"),
            outputs={"target_slots": call.outputs},
        )
    return call.outputs


@planned
def _plan_targets(num_entries: int, width: int, num_nodes: int) -> Plan:
    block = choose_block(num_entries, SLOTS)
    return Plan(
        kernels._fill_accept_target_cache_loc_kernel,
        grid=(ceil_div(num_entries, block),),
        sizes={"num_entries": num_entries, "width": width, "num_nodes": num_nodes},
        tunables={"BLOCK": block},
    )


def compact_accepted_to_front(values: torch.Tensor, accept_index: torch.Tensor) -> torch.Tensor:
    """Bring the entries of the accepted path to the front of each request's block, out of place, as plain bytes.

    A program owns a tile of rows and words. Past the path a row is a copy of global node 0 up to the row width, of
    itself after it, as in the reference.
    """
    return run("compact_accepted_to_front", launch_compact_accepted_to_front, locals())


def launch_compact_accepted_to_front(call: Call) -> torch.Tensor:
    """Launch into the buffers of a checked call."""
    values, compacted = call.arguments["values"], call.outputs
    if values.numel() == 0:
        return compacted
    source, target = words_of(values.contiguous()), words_of(compacted)
    word = source.dtype if source.element_size() <= target.element_size() else target.dtype
    source, target = source.view(word), target.view(word)
    launch(
        _plan_compact(call.axes["node"], call.arguments["accept_index"].shape[1], *source.shape),
        inputs={"values": source, **call.contiguous("accept_index")},
        outputs={"compacted": target},
    )
    return compacted


@planned
def _plan_compact(num_nodes: int, width: int, num_rows: int, num_words: int) -> Plan:
    words = choose_block(num_words, WORDS, INTERPRETED_WORDS)
    rows = choose_block(num_rows, max(1, TILE // words), LARGEST_TILE // words)
    return Plan(
        kernels._compact_accepted_to_front_kernel,
        grid=(ceil_div(num_rows, rows), ceil_div(num_words, words)),
        sizes={"num_rows": num_rows, "num_nodes": num_nodes, "width": width, "num_words": num_words},
        tunables={"ROWS": rows, "WORDS": words},
    )
