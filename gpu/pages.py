"""Pages on the GPU: what V1 gives back after a verify where a page holds several slots."""

import torch

from specsim.gpu.kernels import pages as kernels
from specsim.gpu.launching.blocks import LARGEST_TILE, ceil_div, power_of_two
from specsim.gpu.launching.buffers import Call
from specsim.gpu.launching.calls import run
from specsim.gpu.launching.launcher import launch
from specsim.gpu.launching.mode import choose_block
from specsim.gpu.launching.plan import Plan, planned
from specsim.operations.outputs import GetSrcTgtCacheLocOutputs, GetTargetCacheLocOutputs

TILE = 1024
"""Nodes of a program: eight a thread of four warps."""

ENTRIES = 256
"""Nodes, and requests, of a program: two of each a thread of four warps."""

LOCATIONS, REQUESTS = 32, 128
"""Entries of a program, and requests or places of a step of its search: 32 comparisons a thread of four warps."""

INTERPRETED_REQUESTS = 512
"""Requests or places of a step under the interpreter, so that a tile has room for as many entries."""


def align_evict_mask_to_page_size(
    seq_lens: torch.Tensor, evict_mask: torch.Tensor, num_draft_tokens: int, page_size: int
) -> None:
    """Keep the page of each chain's last accepted node; a program owns a block of whole chains."""
    run("align_evict_mask_to_page_size", launch_align_evict_mask_to_page_size, locals())


def launch_align_evict_mask_to_page_size(call: Call) -> None:
    """Launch into the buffers of a checked call."""
    axes, evict_mask = call.axes, call.arguments["evict_mask"]
    if axes["request"]:
        launch(
            _plan_align(axes["request"], axes["node"], axes["page_size"], *evict_mask.stride()),
            inputs=call.contiguous("seq_lens"),
            outputs={"evict_mask": evict_mask},
        )


@planned
def _plan_align(num_requests: int, num_nodes: int, page_size: int, mask_stride: int) -> Plan:
    nodes = power_of_two(num_nodes)
    requests = choose_block(num_requests, max(1, TILE // nodes), max(1, LARGEST_TILE // nodes))
    return Plan(
        kernels._align_evict_mask_to_page_size_kernel,
        grid=(ceil_div(num_requests, requests),),
        sizes={"num_requests": num_requests, "num_nodes": num_nodes, "mask_stride": mask_stride},
        constants={"PAGE_SIZE": page_size, "NODES": nodes},
        tunables={"REQUESTS": requests},
    )


def get_src_tgt_cache_loc(
    seq_lens: torch.Tensor,
    out_cache_loc: torch.Tensor,
    accept_indices: torch.Tensor,
    num_accepted_drafts: torch.Tensor,
    num_draft_tokens: int,
    page_size: int,
) -> GetSrcTgtCacheLocOutputs[torch.Tensor]:
    """List sources and count what is freed; a program owns a block of nodes and a block of requests."""
    return run("get_src_tgt_cache_loc", launch_get_src_tgt_cache_loc, locals())


def launch_get_src_tgt_cache_loc(call: Call) -> GetSrcTgtCacheLocOutputs[torch.Tensor]:
    """Launch into the buffers of a checked call."""
    axes = call.axes
    if axes["request"]:
        launch(
            _plan_sources(axes["token"], axes["request"], axes["node"], axes["page_size"]),
            inputs=call.contiguous("seq_lens", "out_cache_loc", "accept_indices", "num_accepted_drafts"),
            outputs=call.returned(),
        )
    return call.outputs


@planned
def _plan_sources(num_tokens: int, num_requests: int, num_nodes: int, page_size: int) -> Plan:
    num_entries = max(num_tokens, num_requests)
    block = choose_block(num_entries, ENTRIES)
    return Plan(
        kernels._get_src_tgt_cache_loc_kernel,
        grid=(ceil_div(num_entries, block),),
        sizes={
            "num_tokens": num_tokens,
            "num_requests": num_requests,
            "num_nodes": num_nodes,
            "num_slots": num_requests * num_nodes,
        },
        constants={"PAGE_SIZE": page_size},
        tunables={"BLOCK": block},
    )


def get_target_cache_loc(
    num_accepted_drafts: torch.Tensor,
    to_free_num_slots: torch.Tensor,
    out_cache_loc: torch.Tensor,
    num_draft_tokens: int,
    num_target_slots: int,
    num_to_free_slots: int,
) -> GetTargetCacheLocOutputs[torch.Tensor]:
    """List targets and what is freed in one launch; a program owns a block of either and finds the request of each."""
    return run("get_target_cache_loc", launch_get_target_cache_loc, locals())


def launch_get_target_cache_loc(call: Call) -> GetTargetCacheLocOutputs[torch.Tensor]:
    """Launch into the buffers of a checked call."""
    axes = call.axes
    if axes["token"] or axes["location"]:
        launch(
            _plan_targets(axes["token"], axes["location"], axes["request"], axes["node"]),
            inputs=call.contiguous("num_accepted_drafts", "to_free_num_slots", "out_cache_loc"),
            outputs=call.returned(),
        )
    return call.outputs


@planned
def _plan_targets(num_targets: int, num_freed: int, num_requests: int, num_nodes: int) -> Plan:
    requests = choose_block(num_requests, REQUESTS, INTERPRETED_REQUESTS)
    locations = choose_block(max(num_targets, num_freed), LOCATIONS, LARGEST_TILE // requests)
    return Plan(
        kernels._get_target_cache_loc_kernel,
        grid=(ceil_div(max(num_targets, num_freed), locations), 2),
        sizes={
            "num_targets": num_targets,
            "num_freed": num_freed,
            "num_requests": num_requests,
            "num_nodes": num_nodes,
        },
        tunables={"LOCATIONS": locations, "REQUESTS": requests},
    )


def create_num_accepted_drafts_filter(
    num_accepted_drafts: torch.Tensor, unfinished_index: torch.Tensor, seq_lens: torch.Tensor
) -> torch.Tensor:
    """Advance lengths and filter counts; a program owns a block of requests and looks for them among the unfinished."""
    return run("create_num_accepted_drafts_filter", launch_create_num_accepted_drafts_filter, locals())


def launch_create_num_accepted_drafts_filter(call: Call) -> torch.Tensor:
    """Launch into the buffers of a checked call."""
    axes, seq_lens = call.axes, call.arguments["seq_lens"]
    if axes["request"]:
        launch(
            _plan_filter(axes["request"], axes["unfinished"], *seq_lens.stride()),
            inputs=call.contiguous("num_accepted_drafts", "unfinished_index"),
            outputs={"seq_lens": seq_lens, "num_unfinished_tokens": call.outputs},
        )
    return call.outputs


@planned
def _plan_filter(num_requests: int, num_unfinished: int, length_stride: int) -> Plan:
    places = choose_block(num_unfinished, REQUESTS, INTERPRETED_REQUESTS)
    requests = choose_block(num_requests, LOCATIONS, LARGEST_TILE // places)
    return Plan(
        kernels._create_num_accepted_drafts_filter_kernel,
        grid=(ceil_div(num_requests, requests),),
        sizes={"num_requests": num_requests, "num_unfinished": num_unfinished, "length_stride": length_stride},
        tunables={"REQUESTS": requests, "PLACES": places},
    )


def filter_finished_cache_loc(
    target_slots: torch.Tensor,
    num_accepted_drafts: torch.Tensor,
    num_unfinished_tokens: torch.Tensor,
    num_locations: int,
) -> torch.Tensor:
    """Keep the slots of unfinished requests; a program owns a block of kept slots and finds the request of each."""
    return run("filter_finished_cache_loc", launch_filter_finished_cache_loc, locals())


def launch_filter_finished_cache_loc(call: Call) -> torch.Tensor:
    """Launch into the buffers of a checked call."""
    axes = call.axes
    if axes["location"]:
        launch(
            _plan_kept(axes["location"], axes["request"], axes["token"]),
            inputs=call.contiguous("target_slots", "num_accepted_drafts", "num_unfinished_tokens"),
            outputs={"out_cache_loc": call.outputs},
        )
    return call.outputs


@planned
def _plan_kept(num_locations: int, num_requests: int, num_slots: int) -> Plan:
    requests = choose_block(num_requests, REQUESTS, INTERPRETED_REQUESTS)
    locations = choose_block(num_locations, LOCATIONS, LARGEST_TILE // requests)
    return Plan(
        kernels._filter_finished_cache_loc_kernel,
        grid=(ceil_div(num_locations, locations),),
        sizes={"num_locations": num_locations, "num_requests": num_requests, "num_slots": num_slots},
        tunables={"LOCATIONS": locations, "REQUESTS": requests},
    )
