"""Probabilities: from raw logits to the target's distribution of every row."""

import torch

from specsim.gpu.kernels import probabilities as kernels
from specsim.gpu.launching.blocks import LARGEST_TILE, ceil_div
from specsim.gpu.launching.buffers import Call
from specsim.gpu.launching.calls import run
from specsim.gpu.launching.launcher import launch
from specsim.gpu.launching.mode import choose_block
from specsim.gpu.launching.plan import Plan, planned
from specsim.host.grammar import BITS_PER_WORD

TILE = 1024
"""Logits that a program prepares: eight a thread of four warps."""

ROW_BLOCK = 2048
"""Tokens of its row that a program looks at together: eight a thread of eight warps, in float64."""

OPTIONAL = ("scaling_penalty", "additive_penalty", "logit_bias", "vocab_mask")


def prepare_logits(
    logits: torch.Tensor,
    scaling_penalty: torch.Tensor | None,
    additive_penalty: torch.Tensor | None,
    logit_bias: torch.Tensor | None,
    vocab_mask: torch.Tensor | None,
    num_draft_tokens: int,
) -> torch.Tensor:
    """Apply penalties, bias and grammar mask; one launch, every step rounded to float32 as in the reference."""
    return run("prepare_logits", launch_prepare_logits, locals())


def launch_prepare_logits(call: Call) -> torch.Tensor:
    """Launch into the buffers of a checked call."""
    arguments, prepared_logits = call.arguments, call.outputs
    num_rows, vocab = prepared_logits.shape
    if num_rows:
        logits = arguments["logits"]
        given = tuple(name for name in OPTIONAL if arguments[name] is not None)
        launch(
            _plan_prepare(num_rows, vocab, call.axes["num_draft_tokens"], given, *logits.stride()),
            inputs={"logits": logits, **call.contiguous(*given)},
            outputs={"prepared_logits": prepared_logits},
        )
    return prepared_logits


@planned
def _plan_prepare(
    num_rows: int, vocab: int, num_nodes: int, given: tuple[str, ...], row_stride: int, column_stride: int
) -> Plan:
    tokens = choose_block(vocab, TILE)
    rows = choose_block(num_rows, TILE // tokens, LARGEST_TILE // tokens)
    return Plan(
        kernels._prepare_logits_kernel,
        grid=(ceil_div(num_rows, rows), ceil_div(vocab, tokens)),
        sizes={
            "num_rows": num_rows,
            "num_nodes": num_nodes,
            "vocab": vocab,
            "num_words": ceil_div(vocab, BITS_PER_WORD),
            "row_stride": row_stride,
            "column_stride": column_stride,
        },
        constants={f"{name}_ptr": None for name in OPTIONAL if name not in given},
        tunables={"ROWS": rows, "BLOCK": tokens},
        options={"enable_fp_fusion": False},
    )


def top_k_renorm(probabilities: torch.Tensor, top_k: torch.Tensor) -> torch.Tensor:
    """Keep the k most probable tokens of a row; a program owns whole rows and sorts none of them."""
    return run("top_k_renorm", launch_top_k_renorm, locals())


def launch_top_k_renorm(call: Call) -> torch.Tensor:
    """Launch into the buffers of a checked call."""
    return _renormalise(call, "top_k", kernels.TOP_K.value)


def top_p_renorm(probabilities: torch.Tensor, top_p: torch.Tensor) -> torch.Tensor:
    """Keep the most probable tokens whose mass reaches p; a program owns whole rows and sorts none of them."""
    return run("top_p_renorm", launch_top_p_renorm, locals())


def launch_top_p_renorm(call: Call) -> torch.Tensor:
    """Launch into the buffers of a checked call."""
    return _renormalise(call, "top_p", kernels.TOP_P.value)


def min_p_renorm(probabilities: torch.Tensor, min_p: torch.Tensor) -> torch.Tensor:
    """Keep the tokens that reach a share of the most probable one; a program owns whole rows."""
    return run("min_p_renorm", launch_min_p_renorm, locals())


def launch_min_p_renorm(call: Call) -> torch.Tensor:
    """Launch into the buffers of a checked call."""
    return _renormalise(call, "min_p", kernels.MIN_P.value)


def _renormalise(call: Call, parameter: str, kind: int) -> torch.Tensor:
    num_rows, vocab = call.outputs.shape
    if num_rows:
        probabilities = call.arguments["probabilities"]
        launch(
            _plan_renormalise(num_rows, vocab, kind, *probabilities.stride()),
            inputs={"probabilities": probabilities, "filter": call.arguments[parameter].contiguous()},
            outputs={"renormalised": call.outputs},
        )
    return call.outputs


@planned
def _plan_renormalise(num_rows: int, vocab: int, kind: int, row_stride: int, column_stride: int) -> Plan:
    rows, block = _blocks(num_rows, vocab)
    return Plan(
        kernels._renormalise_kernel,
        grid=(ceil_div(num_rows, rows),),
        sizes={"num_rows": num_rows, "vocab": vocab, "row_stride": row_stride, "column_stride": column_stride},
        constants={"FILTER": kind},
        tunables={"ROWS": rows, "BLOCK": block},
        num_warps=_num_warps(rows, block),
    )


def target_probabilities(
    logits: torch.Tensor,
    temperature: torch.Tensor,
    top_k: torch.Tensor,
    top_p: torch.Tensor,
    min_p: torch.Tensor,
    num_draft_tokens: int,
) -> torch.Tensor:
    """Soften and filter every row in one launch; a program owns whole rows, and what may survive is looked at alone."""
    return run("target_probabilities", launch_target_probabilities, locals())


def launch_target_probabilities(call: Call) -> torch.Tensor:
    """Launch into the buffers of a checked call."""
    num_rows, vocab = call.outputs.shape
    if num_rows:
        logits = call.arguments["logits"]
        launch(
            _plan_probabilities(num_rows, vocab, call.axes["num_draft_tokens"], *logits.stride()),
            inputs={"logits": logits, **call.contiguous("temperature", "top_k", "top_p", "min_p")},
            outputs={"target_probs": call.outputs},
        )
    return call.outputs


@planned
def _plan_probabilities(num_rows: int, vocab: int, num_nodes: int, row_stride: int, column_stride: int) -> Plan:
    rows, block = _blocks(num_rows, vocab)
    return Plan(
        kernels._target_probabilities_kernel,
        grid=(ceil_div(num_rows, rows),),
        sizes={
            "num_rows": num_rows,
            "num_nodes": num_nodes,
            "vocab": vocab,
            "row_stride": row_stride,
            "column_stride": column_stride,
        },
        tunables={"ROWS": rows, "BLOCK": block},
        num_warps=_num_warps(rows, block),
    )


def _blocks(num_rows: int, vocab: int) -> tuple[int, int]:
    """Return rows a program, and tokens that it looks at together."""
    block = choose_block(vocab, ROW_BLOCK)
    return choose_block(num_rows, 1, max(1, LARGEST_TILE // block)), block


def _num_warps(rows: int, block: int) -> int:
    """Return a warp for every 256 entries of a tile, from 1 to 8."""
    return max(1, min(8, rows * block // 256))
