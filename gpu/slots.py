"""Slots on the GPU: a program owns a block of flat locations and finds the request of each."""

import torch

from specsim.gpu.kernels.slots import (
    _assign_extend_cache_locs_kernel,
    _assign_req_to_token_pool_kernel,
    _remap_accepted_slots_kernel,
)
from specsim.gpu.launching.blocks import LARGEST_TILE, ceil_div, choose_block, power_of_two
from specsim.gpu.launching.buffers import prepare


def assign_req_to_token_pool(
    req_pool_indices: torch.Tensor,
    req_to_token: torch.Tensor,
    start_offsets: torch.Tensor,
    end_offsets: torch.Tensor,
    out_cache_loc: torch.Tensor,
) -> None:
    """Write flat slots into a range of each request's row; locations past the last range are not written."""
    axes, _ = prepare("assign_req_to_token_pool", locals())
    if not axes["location"] or not axes["request"]:
        return
    locations, requests = _blocks(axes["location"], axes["request"])
    _assign_req_to_token_pool_kernel[(ceil_div(axes["location"], locations),)](
        req_pool_indices.contiguous(),
        req_to_token,
        start_offsets.contiguous(),
        end_offsets.contiguous(),
        out_cache_loc.contiguous(),
        *req_to_token.stride(),
        axes["location"],
        axes["request"],
        LOCATIONS=locations,
        REQUESTS=requests,
    )


def assign_extend_cache_locs(
    req_pool_indices: torch.Tensor,
    req_to_token: torch.Tensor,
    start_offsets: torch.Tensor,
    end_offsets: torch.Tensor,
    num_locations: int,
) -> torch.Tensor:
    """Read a range of each request's row into flat slots; locations past the last range are 0."""
    axes, (out_cache_loc,) = prepare("assign_extend_cache_locs", locals())
    if not num_locations:
        return out_cache_loc
    locations, requests = _blocks(num_locations, axes["request"])
    _assign_extend_cache_locs_kernel[(ceil_div(num_locations, locations),)](
        req_pool_indices.contiguous(),
        req_to_token,
        start_offsets.contiguous(),
        end_offsets.contiguous(),
        out_cache_loc,
        *req_to_token.stride(),
        num_locations,
        axes["request"],
        LOCATIONS=locations,
        REQUESTS=requests,
    )
    return out_cache_loc


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
    axes, (evict_mask,) = prepare("remap_accepted_slots", locals())
    num_nodes, width = axes["node"], accept_index.shape[1]
    if not evict_mask.shape[0]:
        return evict_mask
    paths = power_of_two(width)
    nodes = choose_block(num_nodes, max(1, 2048 // paths), max(1, LARGEST_TILE // paths))
    requests = choose_block(axes["request"], 1, max(1, LARGEST_TILE // (paths * nodes)))
    _remap_accepted_slots_kernel[(ceil_div(axes["request"], requests), ceil_div(num_nodes, nodes))](
        req_pool_indices.contiguous(),
        req_to_token,
        seq_lens.contiguous(),
        out_cache_loc.contiguous(),
        accept_index.contiguous(),
        evict_mask,
        axes["request"],
        num_nodes,
        width,
        axes["row"],
        axes["position"],
        *req_to_token.stride(),
        REQUESTS=requests,
        NODES=nodes,
        PATH=paths,
    )
    return evict_mask


def _blocks(num_locations: int, num_requests: int) -> tuple[int, int]:
    """Return locations a program and requests a step of its search."""
    requests = choose_block(num_requests, 128, 512)
    return choose_block(num_locations, 32, LARGEST_TILE // requests), requests
