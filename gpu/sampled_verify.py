"""Sampled verify: the target's own draw of every row, which drafts are compared with."""

import torch

from specsim.gpu.kernels import sampled_verify as kernels
from specsim.gpu.kernels.verify import _merge_argmax_kernel
from specsim.gpu.launching.blocks import ceil_div, power_of_two
from specsim.gpu.launching.buffers import Call
from specsim.gpu.launching.calls import operation
from specsim.gpu.launching.launcher import Launch
from specsim.gpu.launching.mode import choose_block
from specsim.gpu.launching.plan import Plan
from specsim.gpu.probabilities import FILTERS, filter_rows
from specsim.host.noise import WORDS

QUADS = 512
"""Counters of a program, each of four words: sixteen tokens a thread of four warps."""


@operation
def sample_target_predict(call: Call) -> list[Launch]:
    """Draw a token from every row: its probabilities, then a race over chunks of rows, and one among their winners.

    Noise is made in the kernel, from a counter-based generator; arrivals are in float32.
    """
    num_requests, num_nodes, vocab = (call.axes[name] for name in ("request", "node", "vocab"))
    num_rows = num_requests * num_nodes
    if num_rows == 0:
        return []
    rows = call.scratch(num_rows, vocab, dtype=torch.float32)
    quads = choose_block(ceil_div(vocab, WORDS), QUADS)
    num_chunks = ceil_div(vocab, WORDS * quads)
    is_whole = num_chunks == 1
    race = Plan(
        kernels._race_kernel,
        grid=(num_rows, num_chunks),
        sizes={"num_nodes": num_nodes, "vocab": vocab},
        constants={
            "IS_LAST": is_whole,
            **({"block_values_ptr": None, "block_index_ptr": None} if is_whole else {}),
        },
        tunables={"QUADS": quads},
        num_warps=max(1, min(4, quads // 32)),
    )
    inputs = {"row": rows, **call.contiguous("seeds", "positions")}
    outputs = {"target_predict": call.outputs}
    launches = filter_rows(call, rows, "logits", num_nodes, *FILTERS)
    if is_whole:
        return [*launches, Launch(race, inputs, outputs)]
    winners = {
        "block_values": call.scratch(num_rows, num_chunks, dtype=torch.float32),
        "block_index": call.scratch(num_rows, num_chunks, dtype=torch.int32),
    }
    merge = Plan(
        _merge_argmax_kernel,
        grid=(num_rows,),
        sizes={"num_shares": num_chunks},
        constants={"SHARES": power_of_two(num_chunks)},
        num_warps=1,
    )
    return [*launches, Launch(race, inputs, outputs, winners), Launch(merge, {}, outputs, winners)]
