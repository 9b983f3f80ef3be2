"""Penalties: logits of tokens that a text holds already."""

import torch

from specsim.gpu.kernels import penalties as kernels
from specsim.gpu.launching.blocks import LARGEST_TILE, ceil_div, power_of_two
from specsim.gpu.launching.buffers import Call
from specsim.gpu.launching.calls import run
from specsim.gpu.launching.launcher import launch
from specsim.gpu.launching.mode import choose_block
from specsim.gpu.launching.plan import Plan, planned

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


def apply_penalties(
    logits: torch.Tensor,
    token_counts: torch.Tensor,
    draft_token: torch.Tensor,
    tree_mask: torch.Tensor,
    frequency_penalty: torch.Tensor,
    presence_penalty: torch.Tensor,
    repetition_penalty: torch.Tensor,
    num_draft_tokens: int,
    exact: bool = True,
) -> torch.Tensor:
    """Penalise logits in one launch; a program compares some tokens with all nodes that its node sees."""
    return run("apply_penalties", launch_apply_penalties, locals())


def launch_apply_penalties(call: Call) -> torch.Tensor:
    """Launch into the buffers of a checked call."""
    penalised_logits = call.outputs
    num_rows, vocab = penalised_logits.shape
    if num_rows:
        logits = call.arguments["logits"]
        launch(
            _plan(num_rows, vocab, call.axes["num_draft_tokens"], bool(call.axes["exact"]), *logits.stride()),
            inputs={"logits": logits, **call.contiguous(*INPUTS)},
            outputs={"penalised_logits": penalised_logits},
        )
    return penalised_logits


@planned
def _plan(num_rows: int, vocab: int, num_nodes: int, exact: bool, row_stride: int, column_stride: int) -> Plan:
    nodes = power_of_two(num_nodes)
    compared = choose_block(nodes, COMPARED)
    tokens = choose_block(vocab, TOKENS, max(1, LARGEST_TILE // compared))
    return Plan(
        kernels._apply_penalties_kernel,
        grid=(num_rows, ceil_div(vocab, tokens)),
        sizes={"num_nodes": num_nodes, "vocab": vocab, "row_stride": row_stride, "column_stride": column_stride},
        constants={"EXACT": exact, "NODES": nodes},
        tunables={"BLOCK": tokens, "COMPARED": compared},
        options={"enable_fp_fusion": False},
    )
