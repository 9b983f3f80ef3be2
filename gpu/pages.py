"""Pages on the GPU: what V1 gives back after a verify where a page holds several slots."""

from specsim.gpu.kernels import pages as kernels
from specsim.gpu.launching.blocks import LARGEST_TILE, ceil_div, power_of_two
from specsim.gpu.launching.buffers import Call
from specsim.gpu.launching.calls import operation
from specsim.gpu.launching.launcher import Launch
from specsim.gpu.launching.mode import choose_block
from specsim.gpu.launching.plan import Plan, strides_of

TILE = 1024
"""Nodes of a program: eight a thread of four warps."""

ENTRIES = 256
"""Nodes, and requests, of a program: two of each a thread of four warps."""

LOCATIONS, REQUESTS = 32, 128
"""Entries of a program, and requests or places of a step of its search: 32 comparisons a thread of four warps."""

INTERPRETED_REQUESTS = 512
"""Requests or places of a step under the interpreter, so that a tile has room for as many entries."""


@operation
def align_evict_mask_to_page_size(call: Call) -> Launch | None:
    """Keep the page of each chain's last accepted node; a program owns a block of whole chains."""
    evict_mask, num_requests, num_nodes = call.arguments["evict_mask"], call.axes["request"], call.axes["node"]
    if num_requests == 0:
        return None
    nodes = power_of_two(num_nodes)
    requests = choose_block(num_requests, max(1, TILE // nodes), max(1, LARGEST_TILE // nodes))
    return Launch(
        Plan(
            kernels._align_evict_mask_to_page_size_kernel,
            grid=(ceil_div(num_requests, requests),),
            sizes={"num_requests": num_requests, "num_nodes": num_nodes, **strides_of(evict_mask, "mask")},
            constants={"PAGE_SIZE": call.axes["page_size"], "NODES": nodes},
            tunables={"REQUESTS": requests},
        ),
        inputs=call.contiguous("seq_lens"),
        outputs={"evict_mask": evict_mask},
    )


@operation
def get_src_tgt_cache_loc(call: Call) -> Launch | None:
    """List sources and count what is freed; a program owns a block of nodes and a block of requests."""
    num_tokens, num_requests, num_nodes = (call.axes[name] for name in ("token", "request", "node"))
    if num_requests == 0:
        return None
    num_entries = max(num_tokens, num_requests)
    block = choose_block(num_entries, ENTRIES)
    return Launch(
        Plan(
            kernels._get_src_tgt_cache_loc_kernel,
            grid=(ceil_div(num_entries, block),),
            sizes={
                "num_tokens": num_tokens,
                "num_requests": num_requests,
                "num_nodes": num_nodes,
                "num_slots": num_requests * num_nodes,
            },
            constants={"PAGE_SIZE": call.axes["page_size"]},
            tunables={"BLOCK": block},
        ),
        inputs=call.contiguous("seq_lens", "out_cache_loc", "accept_indices", "num_accepted_drafts"),
        outputs=call.returned(),
    )


@operation
def get_target_cache_loc(call: Call) -> Launch | None:
    """List targets and what is freed in one launch; a program owns a block of either and finds the request of each."""
    num_targets, num_freed, num_requests = (call.axes[name] for name in ("token", "location", "request"))
    most = max(num_targets, num_freed)
    if most == 0:
        return None
    requests = choose_block(num_requests, REQUESTS, INTERPRETED_REQUESTS)
    locations = choose_block(most, LOCATIONS, LARGEST_TILE // requests)
    return Launch(
        Plan(
            kernels._get_target_cache_loc_kernel,
            grid=(ceil_div(most, locations), 2),
            sizes={
                "num_targets": num_targets,
                "num_freed": num_freed,
                "num_requests": num_requests,
                "num_nodes": call.axes["node"],
            },
            tunables={"LOCATIONS": locations, "REQUESTS": requests},
        ),
        inputs=call.contiguous("num_accepted_drafts", "to_free_num_slots", "out_cache_loc"),
        outputs=call.returned(),
    )


@operation
def create_num_accepted_drafts_filter(call: Call) -> Launch | None:
    """Advance lengths and filter counts; a program owns a block of requests and looks for them among the unfinished."""
    seq_lens, num_requests, num_unfinished = call.arguments["seq_lens"], call.axes["request"], call.axes["unfinished"]
    if num_requests == 0:
        return None
    places = choose_block(num_unfinished, REQUESTS, INTERPRETED_REQUESTS)
    requests = choose_block(num_requests, LOCATIONS, LARGEST_TILE // places)
    return Launch(
        Plan(
            kernels._create_num_accepted_drafts_filter_kernel,
            grid=(ceil_div(num_requests, requests),),
            sizes={"num_requests": num_requests, "num_unfinished": num_unfinished, **strides_of(seq_lens, "length")},
            tunables={"REQUESTS": requests, "PLACES": places},
        ),
        inputs=call.contiguous("num_accepted_drafts", "unfinished_index"),
        outputs={"seq_lens": seq_lens, **call.returned()},
    )


@operation
def filter_finished_cache_loc(call: Call) -> Launch | None:
    """Keep the slots of unfinished requests; a program owns a block of kept slots and finds the request of each."""
    num_locations, num_requests, num_slots = (call.axes[name] for name in ("location", "request", "token"))
    if num_locations == 0:
        return None
    requests = choose_block(num_requests, REQUESTS, INTERPRETED_REQUESTS)
    locations = choose_block(num_locations, LOCATIONS, LARGEST_TILE // requests)
    return Launch(
        Plan(
            kernels._filter_finished_cache_loc_kernel,
            grid=(ceil_div(num_locations, locations),),
            sizes={"num_locations": num_locations, "num_requests": num_requests, "num_slots": num_slots},
            tunables={"LOCATIONS": locations, "REQUESTS": requests},
        ),
        inputs=call.contiguous("target_slots", "num_accepted_drafts", "num_unfinished_tokens"),
        outputs=call.returned(),
    )
