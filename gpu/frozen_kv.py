"""Frozen-KV on the GPU: what a draft that reads the target's KV is given, and the row of a verify it starts from."""

from specsim.gpu.kernels import frozen_kv as kernels
from specsim.gpu.launching.blocks import ceil_div
from specsim.gpu.launching.buffers import Call
from specsim.gpu.launching.calls import operation
from specsim.gpu.launching.launcher import Launch
from specsim.gpu.launching.mode import choose_block
from specsim.gpu.launching.plan import Plan

BEAMS = 256
"""Beams of a program: two a thread of four warps."""

REQUESTS, INTERPRETED_REQUESTS = 1024, 4096
"""Counts that the one program adds up at a time: eight a thread of four warps."""


@operation
def prepare_for_frozen_kv_draft(call: Call) -> Launch | None:
    """Lay out rows, lengths and positions, one copy a beam; a program owns a block of beams."""
    topk = call.axes["topk"]
    num_beams = call.axes["request"] * topk
    if num_beams == 0:
        return None
    beams = choose_block(num_beams, BEAMS)
    return Launch(
        Plan(
            kernels._prepare_for_frozen_kv_draft_kernel,
            grid=(ceil_div(num_beams, beams),),
            sizes={"num_beams": num_beams, "topk": topk},
            tunables={"BEAMS": beams},
        ),
        inputs=call.contiguous("req_pool_indices", "seq_lens"),
        outputs=call.returned(),
    )


@operation
def select_last_verified(call: Call) -> Launch | None:
    """Return the row of each request's last token; one program adds up the counts of all requests."""
    num_requests = call.axes["request"]
    if num_requests == 0:
        return None
    return Launch(
        Plan(
            kernels._select_last_verified_kernel,
            grid=(1,),
            sizes={"num_requests": num_requests},
            tunables={"REQUESTS": choose_block(num_requests, REQUESTS, INTERPRETED_REQUESTS)},
        ),
        inputs=call.contiguous("num_accepted_tokens"),
        outputs=call.returned(),
    )
