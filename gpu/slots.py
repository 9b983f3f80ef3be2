"""Slots on the GPU: a program owns a block of flat locations and finds the request of each."""

import torch

from specsim.gpu.buffers import prepare
from specsim.gpu.kernels.slots import _assign_extend_cache_locs_kernel, _assign_req_to_token_pool_kernel
from specsim.gpu.launch import LARGEST_TILE, ceil_div, choose_block


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


def _blocks(num_locations: int, num_requests: int) -> tuple[int, int]:
    """Return locations a program and requests a step of its search."""
    requests = choose_block(num_requests, 128, 512)
    return choose_block(num_locations, 32, LARGEST_TILE // requests), requests
