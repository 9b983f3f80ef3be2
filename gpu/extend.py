"""Extend on the GPU: the inputs with which the draft model catches up."""

import torch

from specsim.gpu.kernels import extend as kernels
from specsim.gpu.launching.blocks import LARGEST_TILE, ceil_div
from specsim.gpu.launching.buffers import Call
from specsim.gpu.launching.calls import run
from specsim.gpu.launching.launcher import launch
from specsim.gpu.launching.mode import choose_block, chunks_to_fill
from specsim.gpu.launching.plan import Plan, planned
from specsim.operations.outputs import (
    CreateExtendAfterDecodeSpecInfoOutputs,
    GenerateAttnArgPrefillOutputs,
    PrepareForExtendToFillDraftKvcacheOutputs,
)

TOKENS, REQUESTS = 32, 128
"""Tokens of a program, and requests of a step of its search: 32 comparisons a thread of four warps."""

INTERPRETED_REQUESTS = 512
"""Requests of a step under the interpreter, so that a tile has room for as many tokens."""

ROWS = 256
"""Rows of a program that writes positions: two a thread of four warps."""

KEYS, INTERPRETED_KEYS = 1024, 4096
"""Slots that a program copies at a time: eight a thread of four warps."""

LENGTHS = 1024
"""Lengths that a program adds up at a time: eight a thread of four warps."""


def rotate_prefill_input_ids(
    input_ids: torch.Tensor, extend_lens: torch.Tensor, tail_tokens: torch.Tensor
) -> torch.Tensor:
    """Shift each prompt left by one and append its tail token; a program owns a block of tokens."""
    return run("rotate_prefill_input_ids", launch_rotate_prefill_input_ids, locals())


def launch_rotate_prefill_input_ids(call: Call) -> torch.Tensor:
    """Launch into the buffers of a checked call."""
    num_tokens, num_requests = call.axes["token"], call.axes["request"]
    if num_tokens:
        launch(
            _plan_tokens(num_tokens, num_requests, True),
            inputs=call.contiguous("input_ids", "extend_lens", "tail_tokens"),
            outputs={"rotated_input_ids": call.outputs},
        )
    return call.outputs


def create_extend_after_decode_spec_info(
    input_ids: torch.Tensor, seq_lens: torch.Tensor, num_accepted_tokens: torch.Tensor
) -> CreateExtendAfterDecodeSpecInfoOutputs[torch.Tensor]:
    """Lay out ragged positions and pick each request's last token; a program owns a block of tokens."""
    return run("create_extend_after_decode_spec_info", launch_create_extend_after_decode_spec_info, locals())


def launch_create_extend_after_decode_spec_info(call: Call) -> CreateExtendAfterDecodeSpecInfoOutputs[torch.Tensor]:
    """Launch into the buffers of a checked call."""
    num_tokens, num_requests = call.axes["token"], call.axes["request"]
    if num_tokens and num_requests:
        launch(
            _plan_tokens(num_tokens, num_requests, False),
            inputs=call.contiguous("input_ids", "seq_lens", "num_accepted_tokens"),
            outputs=call.returned(),
        )
    return call.outputs


@planned
def _plan_tokens(num_tokens: int, num_requests: int, rotates: bool) -> Plan:
    requests = choose_block(num_requests, REQUESTS, INTERPRETED_REQUESTS)
    tokens = choose_block(num_tokens, TOKENS, LARGEST_TILE // requests)
    return Plan(
        kernels._rotate_prefill_input_ids_kernel if rotates else kernels._create_extend_after_decode_spec_info_kernel,
        grid=(ceil_div(num_tokens, tokens),),
        sizes={"num_tokens": num_tokens, "num_requests": num_requests},
        tunables={"TOKENS": tokens, "REQUESTS": requests},
    )


def prepare_for_extend_to_fill_draft_kvcache(
    seq_lens: torch.Tensor, num_accepted_tokens: torch.Tensor, num_draft_tokens: int
) -> PrepareForExtendToFillDraftKvcacheOutputs[torch.Tensor]:
    """Lay out positions, forward lengths and the selected row; a program owns a block of rows."""
    return run("prepare_for_extend_to_fill_draft_kvcache", launch_prepare_for_extend_to_fill_draft_kvcache, locals())


def launch_prepare_for_extend_to_fill_draft_kvcache(
    call: Call,
) -> PrepareForExtendToFillDraftKvcacheOutputs[torch.Tensor]:
    """Launch into the buffers of a checked call."""
    num_requests, num_nodes = call.axes["request"], call.axes["num_draft_tokens"]
    if num_requests:
        launch(
            _plan_rows(num_requests * num_nodes, num_nodes),
            inputs=call.contiguous("seq_lens", "num_accepted_tokens"),
            outputs=call.returned(),
        )
    return call.outputs


@planned
def _plan_rows(num_rows: int, num_nodes: int) -> Plan:
    block = choose_block(num_rows, ROWS)
    return Plan(
        kernels._prepare_for_extend_to_fill_draft_kvcache_kernel,
        grid=(ceil_div(num_rows, block),),
        sizes={"num_rows": num_rows, "num_nodes": num_nodes},
        tunables={"BLOCK": block},
    )


def generate_attn_arg_prefill(
    req_pool_indices: torch.Tensor,
    req_to_token: torch.Tensor,
    kv_lens: torch.Tensor,
    num_accepted_tokens: torch.Tensor,
    kv_lens_sum: int,
) -> GenerateAttnArgPrefillOutputs[torch.Tensor]:
    """Lay out the metadata of a ragged extend; grid: request and one more, chunks of its keys.

    Every program adds up the lengths before its request: 4 or 8 bytes a request, from L2; a slot is read and written
    once.
    """
    return run("generate_attn_arg_prefill", launch_generate_attn_arg_prefill, locals())


def launch_generate_attn_arg_prefill(call: Call) -> GenerateAttnArgPrefillOutputs[torch.Tensor]:
    """Launch into the buffers of a checked call."""
    axes, rows = call.axes, call.arguments["req_to_token"]
    launch(
        _plan_keys(axes["request"], axes["row"], axes["position"], axes["kv_lens_sum"], *rows.stride()),
        inputs={"req_to_token": rows, **call.contiguous("req_pool_indices", "kv_lens", "num_accepted_tokens")},
        outputs=call.returned(),
    )
    return call.outputs


@planned
def _plan_keys(
    num_requests: int, num_rows: int, row_width: int, num_locations: int, row_stride: int, position_stride: int
) -> Plan:
    block = choose_block(max(row_width, 1), KEYS, INTERPRETED_KEYS)
    return Plan(
        kernels._generate_attn_arg_prefill_kernel,
        grid=(num_requests + 1, chunks_to_fill(num_requests + 1, ceil_div(row_width, block))),
        sizes={
            "num_requests": num_requests,
            "num_rows": num_rows,
            "row_width": row_width,
            "num_locations": num_locations,
            "row_stride": row_stride,
            "position_stride": position_stride,
        },
        tunables={"REQUESTS": choose_block(max(num_requests, 1), LENGTHS), "BLOCK": block},
    )
