"""Draft cache: the slots that the draft model writes and reads while it drafts."""

from specsim.counts import ceil_to, page_size_of_beams
from specsim.gpu.kernels import draft_cache as kernels
from specsim.gpu.launching.blocks import LARGEST_TILE, ceil_div, power_of_two
from specsim.gpu.launching.buffers import Call
from specsim.gpu.launching.calls import operation
from specsim.gpu.launching.launcher import Launch
from specsim.gpu.launching.mode import choose_block, chunks_to_fill
from specsim.gpu.launching.plan import Plan, strides_of

SLOTS = 256
"""Slots that a program gathers: two a thread of four warps."""

COPIES, REQUESTS = 32, 128
"""Pairs of a program that lists copies, and requests of a step of its search: 32 comparisons a thread of four warps."""

INTERPRETED_REQUESTS = 512
"""Requests of a step under the interpreter, so that a tile has room for as many pairs."""

PAGES = 256
"""Pages of a prefix that a program writes: two a thread of four warps."""

PAIRS = 4
"""Pairs of step and beam that a program serves: the prefix is read once for all of them and written for each."""

KEYS, INTERPRETED_KEYS = 512, 4096
"""Slots of the prefix that a program reads at a time: four a thread of four warps, written once for each pair."""


@operation
def assign_draft_cache_locs(call: Call) -> Launch | None:
    """Read the slots of the draft entries, and list the copies that paged beams need; one launch.

    A program owns a block of flat slots, or one of pairs, of which it finds the request.
    """
    axes, rows = call.axes, call.arguments["req_to_token"]
    num_requests, num_copies, topk, num_steps = (axes[name] for name in ("request", "num_copies", "topk", "num_steps"))
    if not num_requests and not num_copies:
        return None
    num_entries = num_requests * topk * num_steps
    block = choose_block(num_entries, SLOTS)
    requests = choose_block(num_requests, REQUESTS, INTERPRETED_REQUESTS)
    copies = choose_block(num_copies, COPIES, max(1, LARGEST_TILE // requests))
    entry_blocks, copy_blocks = ceil_div(num_entries, block), ceil_div(num_copies, copies)
    return Launch(
        Plan(
            kernels._assign_draft_cache_locs_kernel,
            grid=(entry_blocks + copy_blocks,),
            sizes={
                "num_entries": num_entries,
                "entry_blocks": entry_blocks,
                "num_requests": num_requests,
                "num_copies": num_copies,
                "rows": (axes["row"], axes["position"], *rows.stride()),
            },
            constants={
                "TOPK": topk,
                "NUM_STEPS": num_steps,
                "PAGE_SIZE": page_size_of_beams(topk, axes["page_size"]),
                "HAS_COPIES": num_copies > 0,
            },
            tunables={"BLOCK": block, "COPIES": copies, "REQUESTS": requests},
        ),
        inputs={"req_to_token": rows, **call.contiguous("req_pool_indices", "seq_lens")},
        outputs=call.returned(),
    )


@operation
def per_step_draft_out_cache_loc(call: Call) -> Launch | None:
    """Turn request-major draft slots into one row a step; one launch."""
    out_cache_loc, num_steps = call.arguments["out_cache_loc"], call.axes["num_steps"]
    num_rows = call.outputs.shape[1]
    if num_rows == 0:
        return None
    num_entries = num_rows * num_steps
    block = choose_block(num_entries, SLOTS)
    return Launch(
        Plan(
            kernels._per_step_draft_out_cache_loc_kernel,
            grid=(ceil_div(num_entries, block),),
            sizes={"num_entries": num_entries, "num_rows": num_rows, "stride": out_cache_loc.stride(0)},
            constants={"NUM_STEPS": num_steps},
            tunables={"BLOCK": block},
        ),
        inputs={"out_cache_loc": out_cache_loc},
        outputs=call.returned(),
    )


@operation
def generate_draft_decode_kv_indices(call: Call) -> Launch | None:
    """List, for every step and beam, the slots that the beam attends to; one launch.

    Grid: request, groups of (step, beam), chunks of the prefix. Written once: 4 bytes a slot listed; read once a group.
    """
    axes, rows = call.axes, call.arguments["req_to_token"]
    num_requests, topk, num_steps = axes["request"], axes["topk"], axes["num_steps"]
    if num_requests == 0:
        call.outputs.kv_indptr.zero_()
        return None
    pairs = choose_block(topk * num_steps, PAIRS)
    num_groups = ceil_div(topk * num_steps, pairs)
    block = choose_block(axes["position"], KEYS, INTERPRETED_KEYS)
    num_chunks = chunks_to_fill(num_requests * num_groups, ceil_div(axes["position"], block))
    return Launch(
        Plan(
            kernels._generate_draft_decode_kv_indices_kernel,
            grid=(num_requests, num_groups, num_chunks),
            sizes={
                "num_requests": num_requests,
                "num_rows": axes["row"],
                "row_width": axes["position"],
                **strides_of(rows, "row", "column"),
            },
            constants={
                "TOPK": topk,
                "NUM_STEPS": num_steps,
                "PAGE_SIZE": page_size_of_beams(topk, axes["page_size"]),
                "OWN": power_of_two(num_steps),
                "REQUESTS": power_of_two(num_requests),
            },
            tunables={"ROWS": pairs, "BLOCK": block},
        ),
        inputs={"req_to_token": rows, **call.contiguous("req_pool_indices", "seq_lens")},
        outputs=call.returned(),
    )


@operation
def draft_decode_cascade_metadata(call: Call) -> Launch | None:
    """Lay out two passes in whole pages; one launch over requests and blocks of pages, the first of which has more."""
    axes, outputs, rows = call.axes, call.returned(), call.arguments["req_to_token"]
    if axes["request"] == 0:
        outputs["cu_seqlens_q"].zero_()
        return None
    topk, num_steps, page_size, num_pages = (
        axes["topk"],
        axes["num_steps"],
        axes["page_size"],
        outputs["page_table"].shape[1],
    )
    block = choose_block(num_pages, PAGES)
    num_own = ceil_to(page_size - 1 + num_steps, page_size) // page_size
    return Launch(
        Plan(
            kernels._draft_decode_cascade_metadata_kernel,
            grid=(axes["request"], max(1, ceil_div(num_pages, block))),
            sizes={
                "num_requests": axes["request"],
                "num_pages": num_pages,
                "num_rows": axes["row"],
                "row_width": axes["position"],
                "strides": rows.stride(),
            },
            constants={
                "TOPK": topk,
                "NUM_STEPS": num_steps,
                "PAGE_SIZE": page_size,
                "NUM_OWN": num_own,
                "BEAMS": power_of_two(topk),
                "STEPS": power_of_two(num_steps),
                "OWN": power_of_two(num_own),
            },
            tunables={"BLOCK": block},
        ),
        inputs={"req_to_token": rows, **call.contiguous("req_pool_indices", "seq_lens")},
        outputs={**outputs, "expand": (outputs["expand_cache_seqlens"], outputs["expand_page_table"])},
    )
