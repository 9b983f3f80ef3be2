"""Penalties: logits of tokens that a text holds already."""

from specsim.gpu.kernels import penalties as kernels
from specsim.gpu.launching.blocks import WARP_SIZE, ceil_div, power_of_two
from specsim.gpu.launching.buffers import Call
from specsim.gpu.launching.calls import operation
from specsim.gpu.launching.launcher import Launch
from specsim.gpu.launching.mode import choose_block, chunks_to_fill
from specsim.gpu.launching.plan import Plan, strides_of

TOKENS, REGISTERS = 256, 56
"""Tokens of a program, four a thread of two warps, and registers of a thread: a multiprocessor holds eighteen."""

MOST_WARPS = 8
"""Warps of a program at most, where its tokens are more."""

UNIT = 4
"""Neighbouring logits of a thread: 16 bytes of float32, which are written at once."""

INPUTS = (
    "token_counts",
    "draft_token",
    "tree_mask",
    "frequency_penalty",
    "presence_penalty",
    "repetition_penalty",
)


@operation
def apply_penalties(call: Call) -> Launch | None:
    """Penalise logits in one launch; a program has some tokens of all nodes of a request, or of fewer nodes."""
    logits, num_nodes = call.arguments["logits"], call.axes["num_draft_tokens"]
    num_rows, vocab = call.outputs.shape
    if num_rows == 0:
        return None
    num_requests, nodes = num_rows // num_nodes, power_of_two(num_nodes)
    tokens = choose_block(vocab, TOKENS)
    num_blocks = ceil_div(vocab, tokens)
    group = power_of_two(ceil_div(nodes, chunks_to_fill(num_requests * num_blocks, nodes)))
    return Launch(
        Plan(
            kernels._apply_penalties_kernel,
            grid=(num_requests * ceil_div(num_nodes, group) * num_blocks,),
            sizes={"num_nodes": num_nodes, "vocab": vocab, **strides_of(logits, "row", "column")},
            constants={"EXACT": bool(call.axes["exact"]), "NODES": nodes},
            tunables={"GROUP": group, "BLOCK": tokens, "UNIT": min(tokens, UNIT)},
            num_warps=max(1, min(MOST_WARPS, tokens // (WARP_SIZE * UNIT))),
            options={"enable_fp_fusion": False, "maxnreg": REGISTERS},
        ),
        inputs={"logits": logits, **call.contiguous(*INPUTS)},
        outputs=call.returned(),
    )
