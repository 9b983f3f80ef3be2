"""Slots on the GPU: a program owns a block of flat locations and finds the request of each."""

import torch

from specsim.gpu.kernels import slots as kernels
from specsim.gpu.launching.blocks import LARGEST_TILE, ceil_div, power_of_two
from specsim.gpu.launching.buffers import Call
from specsim.gpu.launching.calls import run
from specsim.gpu.launching.launcher import launch
from specsim.gpu.launching.mode import choose_block
from specsim.gpu.launching.plan import Plan, planned

LOCATIONS, REQUESTS = 32, 128
"""Locations of a program, and requests of a step of its search: 32 comparisons a thread of four warps."""

INTERPRETED_REQUESTS = 512
"""Requests of a step under the interpreter, so that a tile has room for as many locations."""

MATCHES = 2048
"""Comparisons of a node with an entry of a path in one program: sixteen a thread of four warps."""


def assign_req_to_token_pool(
    req_pool_indices: torch.Tensor,
    req_to_token: torch.Tensor,
    start_offsets: torch.Tensor,
    end_offsets: torch.Tensor,
    out_cache_loc: torch.Tensor,
) -> None:
    """Write flat slots into a range of each request's row; locations past the last range are not written."""
    run("assign_req_to_token_pool", launch_assign_req_to_token_pool, locals())


def launch_assign_req_to_token_pool(call: Call) -> None:
    """Launch into the buffers of a checked call."""
    num_locations, num_requests = call.axes["location"], call.axes["request"]
    if num_locations and num_requests:
        rows = call.arguments["req_to_token"]
        launch(
            _plan_locations(True, num_locations, num_requests, *rows.shape, *rows.stride()),
            inputs=call.contiguous("req_pool_indices", "start_offsets", "end_offsets", "out_cache_loc"),
            outputs={"req_to_token": rows},
        )


def assign_extend_cache_locs(
    req_pool_indices: torch.Tensor,
    req_to_token: torch.Tensor,
    start_offsets: torch.Tensor,
    end_offsets: torch.Tensor,
    num_locations: int,
) -> torch.Tensor:
    """Read a range of each request's row into flat slots; locations past the last range are 0."""
    return run("assign_extend_cache_locs", launch_assign_extend_cache_locs, locals())


def launch_assign_extend_cache_locs(call: Call) -> torch.Tensor:
    """Launch into the buffers of a checked call."""
    num_locations, num_requests = call.axes["location"], call.axes["request"]
    if num_locations:
        rows = call.arguments["req_to_token"]
        launch(
            _plan_locations(False, num_locations, num_requests, *rows.shape, *rows.stride()),
            inputs={
                "req_to_token": rows,
                **call.contiguous("req_pool_indices", "start_offsets", "end_offsets"),
            },
            outputs={"out_cache_loc": call.outputs},
        )
    return call.outputs


@planned
def _plan_locations(
    is_written: bool,
    num_locations: int,
    num_requests: int,
    num_rows: int,
    row_width: int,
    row_stride: int,
    position_stride: int,
) -> Plan:
    requests = choose_block(num_requests, REQUESTS, INTERPRETED_REQUESTS)
    locations = choose_block(num_locations, LOCATIONS, LARGEST_TILE // requests)
    return Plan(
        kernels._assign_req_to_token_pool_kernel if is_written else kernels._assign_extend_cache_locs_kernel,
        grid=(ceil_div(num_locations, locations),),
        sizes={
            "num_locations": num_locations,
            "num_requests": num_requests,
            "num_rows": num_rows,
            "row_width": row_width,
            "row_stride": row_stride,
            "position_stride": position_stride,
        },
        tunables={"LOCATIONS": locations, "REQUESTS": requests},
    )


def remap_accepted_slots(
    req_pool_indices: torch.Tensor,
    req_to_token: torch.Tensor,
    seq_lens: torch.Tensor,
    out_cache_loc: torch.Tensor,
    accept_index: torch.Tensor,
) -> torch.Tensor:
    """Point the next positions at the accepted slots and mark the others; a program owns a tile of requests and nodes.

    Each node looks for itself on the path of its request, so every entry of the mask is written once.
    """
    return run("remap_accepted_slots", launch_remap_accepted_slots, locals())


def launch_remap_accepted_slots(call: Call) -> torch.Tensor:
    """Launch into the buffers of a checked call."""
    axes = call.axes
    if axes["request"] * axes["node"]:
        rows, accept_index = call.arguments["req_to_token"], call.arguments["accept_index"]
        launch(
            _plan_remap(
                axes["request"], axes["node"], accept_index.shape[1], axes["row"], axes["position"], *rows.stride()
            ),
            inputs=call.contiguous("req_pool_indices", "seq_lens", "out_cache_loc", "accept_index"),
            outputs={"req_to_token": rows, "evict_mask": call.outputs},
        )
    return call.outputs


@planned
def _plan_remap(
    num_requests: int,
    num_nodes: int,
    width: int,
    num_rows: int,
    row_width: int,
    row_stride: int,
    position_stride: int,
) -> Plan:
    paths = power_of_two(width)
    nodes = choose_block(num_nodes, max(1, MATCHES // paths), max(1, LARGEST_TILE // paths))
    requests = choose_block(num_requests, 1, max(1, LARGEST_TILE // (paths * nodes)))
    return Plan(
        kernels._remap_accepted_slots_kernel,
        grid=(ceil_div(num_requests, requests), ceil_div(num_nodes, nodes)),
        sizes={
            "num_requests": num_requests,
            "num_nodes": num_nodes,
            "width": width,
            "num_rows": num_rows,
            "row_width": row_width,
            "row_stride": row_stride,
            "position_stride": position_stride,
        },
        constants={"PATH": paths},
        tunables={"REQUESTS": requests, "NODES": nodes},
    )
