"""Penalties: logits of tokens that a text holds already."""

from specsim.gpu.kernels import penalties as kernels
from specsim.gpu.launching.blocks import LARGEST_TILE, ceil_div, power_of_two
from specsim.gpu.launching.buffers import Call
from specsim.gpu.launching.calls import operation
from specsim.gpu.launching.launcher import Launch
from specsim.gpu.launching.mode import choose_block
from specsim.gpu.launching.plan import Plan, strides_of

TOKENS, COMPARED = 1024, 4
"""Tokens of a program, eight a thread of four warps, and the nodes that it compares them with at once."""

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
    """Penalise logits in one launch; a program compares some tokens with all nodes that its node sees."""
    logits, num_nodes = call.arguments["logits"], call.axes["num_draft_tokens"]
    num_rows, vocab = call.outputs.shape
    if num_rows == 0:
        return None
    nodes = power_of_two(num_nodes)
    compared = choose_block(nodes, COMPARED)
    tokens = choose_block(vocab, TOKENS, max(1, LARGEST_TILE // compared))
    return Launch(
        Plan(
            kernels._apply_penalties_kernel,
            grid=(num_rows, ceil_div(vocab, tokens)),
            sizes={"num_nodes": num_nodes, "vocab": vocab, **strides_of(logits, "row", "column")},
            constants={"EXACT": bool(call.axes["exact"]), "NODES": nodes},
            tunables={"BLOCK": tokens, "COMPARED": compared},
            options={"enable_fp_fusion": False},
        ),
        inputs={"logits": logits, **call.contiguous(*INPUTS)},
        outputs=call.returned(),
    )
