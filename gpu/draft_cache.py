"""Draft cache: the slots that the draft model writes and reads while it drafts."""

import torch

from specsim.counts import ceil_to, page_size_of_beams
from specsim.gpu.kernels import draft_cache as kernels
from specsim.gpu.launching.blocks import LARGEST_TILE, ceil_div, power_of_two
from specsim.gpu.launching.buffers import Call
from specsim.gpu.launching.calls import run
from specsim.gpu.launching.launcher import launch
from specsim.gpu.launching.mode import choose_block, chunks_to_fill
from specsim.gpu.launching.plan import Plan, planned
from specsim.operations.outputs import (
    AssignDraftCacheLocsOutputs,
    DraftDecodeCascadeMetadataOutputs,
    GenerateDraftDecodeKvIndicesOutputs,
)

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


def assign_draft_cache_locs(
    req_pool_indices: torch.Tensor,
    req_to_token: torch.Tensor,
    seq_lens: torch.Tensor,
    topk: int,
    num_steps: int,
    page_size: int = 1,
    num_copies: int = 0,
) -> AssignDraftCacheLocsOutputs[torch.Tensor]:
    """Read the slots of the draft entries, and list the copies that paged beams need; one launch.

    A program owns a block of flat slots, or one of pairs, of which it finds the request.
    """
    return run("assign_draft_cache_locs", launch_assign_draft_cache_locs, locals())


def launch_assign_draft_cache_locs(call: Call) -> AssignDraftCacheLocsOutputs[torch.Tensor]:
    """Launch into the buffers of a checked call."""
    axes, rows = call.axes, call.arguments["req_to_token"]
    if axes["request"] or axes["num_copies"]:
        launch(
            _plan_assign(
                axes["request"],
                axes["topk"],
                axes["num_steps"],
                axes["page_size"],
                axes["num_copies"],
                axes["row"],
                axes["position"],
                *rows.stride(),
            ),
            inputs={"req_to_token": rows, **call.contiguous("req_pool_indices", "seq_lens")},
            outputs=call.returned(),
        )
    return call.outputs


@planned
def _plan_assign(
    num_requests: int,
    topk: int,
    num_steps: int,
    page_size: int,
    num_copies: int,
    num_rows: int,
    row_width: int,
    row_stride: int,
    column_stride: int,
) -> Plan:
    num_entries = num_requests * topk * num_steps
    block = choose_block(num_entries, SLOTS)
    requests = choose_block(num_requests, REQUESTS, INTERPRETED_REQUESTS)
    copies = choose_block(num_copies, COPIES, max(1, LARGEST_TILE // requests))
    entry_blocks, copy_blocks = ceil_div(num_entries, block), ceil_div(num_copies, copies)
    return Plan(
        kernels._assign_draft_cache_locs_kernel,
        grid=(entry_blocks + copy_blocks,),
        sizes={
            "num_entries": num_entries,
            "entry_blocks": entry_blocks,
            "num_requests": num_requests,
            "num_copies": num_copies,
            "num_rows": num_rows,
            "row_width": row_width,
            "row_stride": row_stride,
            "column_stride": column_stride,
        },
        constants={
            "TOPK": topk,
            "NUM_STEPS": num_steps,
            "PAGE_SIZE": page_size_of_beams(topk, page_size),
            "HAS_COPIES": num_copies > 0,
        },
        tunables={"BLOCK": block, "COPIES": copies, "REQUESTS": requests},
    )


def per_step_draft_out_cache_loc(out_cache_loc: torch.Tensor, topk: int, num_steps: int) -> torch.Tensor:
    """Turn request-major draft slots into one row a step; one launch."""
    return run("per_step_draft_out_cache_loc", launch_per_step_draft_out_cache_loc, locals())


def launch_per_step_draft_out_cache_loc(call: Call) -> torch.Tensor:
    """Launch into the buffers of a checked call."""
    out_cache_loc, num_steps = call.arguments["out_cache_loc"], call.axes["num_steps"]
    num_rows = call.outputs.shape[1]
    if num_rows:
        launch(
            _plan_per_step(num_rows, num_steps, out_cache_loc.stride(0)),
            inputs={"out_cache_loc": out_cache_loc},
            outputs={"step_cache_loc": call.outputs},
        )
    return call.outputs


@planned
def _plan_per_step(num_rows: int, num_steps: int, stride: int) -> Plan:
    num_entries = num_rows * num_steps
    block = choose_block(num_entries, SLOTS)
    return Plan(
        kernels._per_step_draft_out_cache_loc_kernel,
        grid=(ceil_div(num_entries, block),),
        sizes={"num_entries": num_entries, "num_rows": num_rows, "stride": stride},
        constants={"NUM_STEPS": num_steps},
        tunables={"BLOCK": block},
    )


def generate_draft_decode_kv_indices(
    req_pool_indices: torch.Tensor,
    req_to_token: torch.Tensor,
    seq_lens: torch.Tensor,
    positions: torch.Tensor,
    topk: int,
    num_steps: int,
    page_size: int = 1,
) -> GenerateDraftDecodeKvIndicesOutputs[torch.Tensor]:
    """List, for every step and beam, the slots that the beam attends to; one launch.

    Grid: request, groups of (step, beam), chunks of the prefix. Written once: 4 bytes a slot listed; read once a group.
    """
    return run("generate_draft_decode_kv_indices", launch_generate_draft_decode_kv_indices, locals())


def launch_generate_draft_decode_kv_indices(call: Call) -> GenerateDraftDecodeKvIndicesOutputs[torch.Tensor]:
    """Launch into the buffers of a checked call."""
    axes, rows = call.axes, call.arguments["req_to_token"]
    if axes["request"] == 0:
        call.outputs.kv_indptr.zero_()
        return call.outputs
    launch(
        _plan_kv_indices(
            axes["request"],
            axes["topk"],
            axes["num_steps"],
            axes["page_size"],
            axes["row"],
            axes["position"],
            *rows.stride(),
        ),
        inputs={"req_to_token": rows, **call.contiguous("req_pool_indices", "seq_lens")},
        outputs=call.returned(),
    )
    return call.outputs


@planned
def _plan_kv_indices(
    num_requests: int,
    topk: int,
    num_steps: int,
    page_size: int,
    num_rows: int,
    row_width: int,
    row_stride: int,
    column_stride: int,
) -> Plan:
    num_pairs = topk * num_steps
    pairs = choose_block(num_pairs, PAIRS)
    num_groups = ceil_div(num_pairs, pairs)
    block = choose_block(row_width, KEYS, INTERPRETED_KEYS)
    return Plan(
        kernels._generate_draft_decode_kv_indices_kernel,
        grid=(num_requests, num_groups, chunks_to_fill(num_requests * num_groups, ceil_div(row_width, block))),
        sizes={
            "num_requests": num_requests,
            "num_rows": num_rows,
            "row_width": row_width,
            "row_stride": row_stride,
            "column_stride": column_stride,
        },
        constants={
            "TOPK": topk,
            "NUM_STEPS": num_steps,
            "PAGE_SIZE": page_size_of_beams(topk, page_size),
            "OWN": power_of_two(num_steps),
            "REQUESTS": power_of_two(num_requests),
        },
        tunables={"ROWS": pairs, "BLOCK": block},
    )


def draft_decode_cascade_metadata(
    req_pool_indices: torch.Tensor,
    req_to_token: torch.Tensor,
    seq_lens: torch.Tensor,
    topk: int,
    num_steps: int,
    page_size: int,
    max_prefix_len: int,
) -> DraftDecodeCascadeMetadataOutputs[torch.Tensor]:
    """Lay out two passes in whole pages; one launch over requests and blocks of pages, the first of which has more."""
    return run("draft_decode_cascade_metadata", launch_draft_decode_cascade_metadata, locals())


def launch_draft_decode_cascade_metadata(call: Call) -> DraftDecodeCascadeMetadataOutputs[torch.Tensor]:
    """Launch into the buffers of a checked call."""
    axes, outputs, rows = call.axes, call.outputs, call.arguments["req_to_token"]
    if axes["request"] == 0:
        outputs.cu_seqlens_q.zero_()
        return outputs
    launch(
        _plan_cascade(
            axes["request"],
            axes["topk"],
            axes["num_steps"],
            axes["page_size"],
            outputs.page_table.shape[1],
            axes["row"],
            axes["position"],
            *rows.stride(),
        ),
        inputs={"req_to_token": rows, **call.contiguous("req_pool_indices", "seq_lens")},
        outputs=call.returned(),
    )
    return outputs


@planned
def _plan_cascade(
    num_requests: int,
    topk: int,
    num_steps: int,
    page_size: int,
    num_pages: int,
    num_rows: int,
    row_width: int,
    row_stride: int,
    column_stride: int,
) -> Plan:
    block = choose_block(num_pages, PAGES)
    num_own = ceil_to(page_size - 1 + num_steps, page_size) // page_size
    return Plan(
        kernels._draft_decode_cascade_metadata_kernel,
        grid=(num_requests, max(1, ceil_div(num_pages, block))),
        sizes={
            "num_requests": num_requests,
            "num_pages": num_pages,
            "num_rows": num_rows,
            "row_width": row_width,
            "row_stride": row_stride,
            "column_stride": column_stride,
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
    )
