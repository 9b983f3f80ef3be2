"""Slots on the GPU: a program owns a block of flat locations and finds the request of each."""

from typing import Any

from specsim.gpu.kernels import slots as kernels
from specsim.gpu.launching.blocks import LARGEST_TILE, ceil_div, power_of_two
from specsim.gpu.launching.buffers import Call
from specsim.gpu.launching.calls import operation
from specsim.gpu.launching.launcher import Launch
from specsim.gpu.launching.mode import choose_block
from specsim.gpu.launching.plan import Plan, strides_of

LOCATIONS, REQUESTS = 32, 128
"""Locations of a program, and requests of a step of its search: 32 comparisons a thread of four warps."""

INTERPRETED_REQUESTS = 512
"""Requests of a step under the interpreter, so that a tile has room for as many locations."""

MATCHES = 2048
"""Comparisons of a node with an entry of a path in one program: sixteen a thread of four warps."""


@operation
def assign_req_to_token_pool(call: Call) -> Launch | None:
    """Write flat slots into a range of each request's row; locations past the last range are not written."""
    rows = call.arguments["req_to_token"]
    if not call.axes["location"] or not call.axes["request"]:
        return None
    return Launch(
        _by_locations(call, kernels._assign_req_to_token_pool_kernel),
        inputs=call.contiguous("req_pool_indices", "start_offsets", "end_offsets", "out_cache_loc"),
        outputs={"req_to_token": rows},
    )


@operation
def assign_extend_cache_locs(call: Call) -> Launch | None:
    """Read a range of each request's row into flat slots; locations past the last range are 0."""
    rows = call.arguments["req_to_token"]
    if not call.axes["location"]:
        return None
    return Launch(
        _by_locations(call, kernels._assign_extend_cache_locs_kernel),
        inputs={"req_to_token": rows, **call.contiguous("req_pool_indices", "start_offsets", "end_offsets")},
        outputs=call.returned(),
    )


def _by_locations(call: Call, kernel: Any) -> Plan:
    """Give a program a block of locations, of which it finds the requests."""
    rows, num_locations, num_requests = call.arguments["req_to_token"], call.axes["location"], call.axes["request"]
    requests = choose_block(num_requests, REQUESTS, INTERPRETED_REQUESTS)
    locations = choose_block(num_locations, LOCATIONS, LARGEST_TILE // requests)
    return Plan(
        kernel,
        grid=(ceil_div(num_locations, locations),),
        sizes={
            "num_locations": num_locations,
            "num_requests": num_requests,
            "num_rows": rows.shape[0],
            "row_width": rows.shape[1],
            **strides_of(rows, "row", "position"),
        },
        tunables={"LOCATIONS": locations, "REQUESTS": requests},
    )


@operation
def remap_accepted_slots(call: Call) -> Launch | None:
    """Point the next positions at the accepted slots and mark the others; a program owns a tile of requests and nodes.

    Each node looks for itself on the path of its request, so every entry of the mask is written once.
    """
    axes, rows = call.axes, call.arguments["req_to_token"]
    num_requests, num_nodes, width = axes["request"], axes["node"], call.arguments["accept_index"].shape[1]
    if not num_requests or not num_nodes:
        return None
    paths = power_of_two(width)
    nodes = choose_block(num_nodes, max(1, MATCHES // paths), max(1, LARGEST_TILE // paths))
    requests = choose_block(num_requests, 1, max(1, LARGEST_TILE // (paths * nodes)))
    return Launch(
        Plan(
            kernels._remap_accepted_slots_kernel,
            grid=(ceil_div(num_requests, requests), ceil_div(num_nodes, nodes)),
            sizes={
                "num_requests": num_requests,
                "num_nodes": num_nodes,
                "width": width,
                "num_rows": axes["row"],
                "row_width": axes["position"],
                **strides_of(rows, "row", "position"),
            },
            constants={"PATH": paths},
            tunables={"REQUESTS": requests, "NODES": nodes},
        ),
        inputs=call.contiguous("req_pool_indices", "seq_lens", "out_cache_loc", "accept_index"),
        outputs={"req_to_token": rows, **call.returned()},
    )
