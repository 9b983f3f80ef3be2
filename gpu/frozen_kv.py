"""Frozen-KV on the GPU: what a draft that reads the target's KV is given, and the row of a verify it starts from."""

import torch

from specsim.gpu.kernels import frozen_kv as kernels
from specsim.gpu.launching.blocks import ceil_div
from specsim.gpu.launching.buffers import Call
from specsim.gpu.launching.calls import run
from specsim.gpu.launching.launcher import launch
from specsim.gpu.launching.mode import choose_block
from specsim.gpu.launching.plan import Plan, planned
from specsim.operations.outputs import PrepareForFrozenKvDraftOutputs

BEAMS = 256
"""Beams of a program: two a thread of four warps."""

REQUESTS, INTERPRETED_REQUESTS = 1024, 4096
"""Counts that the one program adds up at a time: eight a thread of four warps."""


def prepare_for_frozen_kv_draft(
    req_pool_indices: torch.Tensor, seq_lens: torch.Tensor, topk: int
) -> PrepareForFrozenKvDraftOutputs[torch.Tensor]:
    """Lay out rows, lengths and positions, one copy a beam; a program owns a block of beams."""
    return run("prepare_for_frozen_kv_draft", launch_prepare_for_frozen_kv_draft, locals())


def launch_prepare_for_frozen_kv_draft(call: Call) -> PrepareForFrozenKvDraftOutputs[torch.Tensor]:
    """Launch into the buffers of a checked call."""
    num_requests, topk = call.axes["request"], call.axes["topk"]
    if num_requests:
        launch(
            _plan_beams(num_requests * topk, topk),
            inputs=call.contiguous("req_pool_indices", "seq_lens"),
            outputs=call.returned(),
        )
    return call.outputs


@planned
def _plan_beams(num_beams: int, topk: int) -> Plan:
    beams = choose_block(num_beams, BEAMS)
    return Plan(
        kernels._prepare_for_frozen_kv_draft_kernel,
        grid=(ceil_div(num_beams, beams),),
        sizes={"num_beams": num_beams, "topk": topk},
        tunables={"BEAMS": beams},
    )


def select_last_verified(num_accepted_tokens: torch.Tensor) -> torch.Tensor:
    """Return the row of each request's last token; one program adds up the counts of all requests."""
    return run("select_last_verified", launch_select_last_verified, locals())


def launch_select_last_verified(call: Call) -> torch.Tensor:
    """Launch into the buffers of a checked call."""
    num_requests = call.axes["request"]
    if num_requests:
        launch(
            _plan_last_rows(num_requests),
            inputs=call.contiguous("num_accepted_tokens"),
            outputs={"select_index": call.outputs},
        )
    return call.outputs


@planned
def _plan_last_rows(num_requests: int) -> Plan:
    return Plan(
        kernels._select_last_verified_kernel,
        grid=(1,),
        sizes={"num_requests": num_requests},
        tunables={"REQUESTS": choose_block(num_requests, REQUESTS, INTERPRETED_REQUESTS)},
    )
