"""Probabilities: from raw logits to the target's distribution of every row."""

import torch

from specsim.gpu.kernels import probabilities as kernels
from specsim.gpu.launching.blocks import LARGEST_TILE, ceil_div, power_of_two
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

CHUNK = 8192
"""Logits of a row without filters that a program reads and writes: 64 a thread of four warps, all loaded at once."""

LAG = 8
"""Rows that are read before the first of them is written: the next programs have no one to wait for, and 8 rows of
128,256 logits in float32 are 4 MB, which the cache of 50 MB still holds."""

LARGEST_PRECISE = 4096
"""Vocabulary up to which weights are in float64. In float32 the rounding of an exponent of 69, beyond which weights
count as 0, is half as large again as the bound of the exponent; the bound of a sum has room for that from here on."""

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
    """Soften and filter every row in two launches, one for rows with filters, the other for rows without.

    A program of the first owns whole rows, and looks at what may survive alone; a row of the second is split over
    programs and read from memory once.
    """
    return run("target_probabilities", launch_target_probabilities, locals())


def launch_target_probabilities(call: Call) -> torch.Tensor:
    """Launch into the buffers of a checked call."""
    num_rows, vocab = call.outputs.shape
    if num_rows:
        logits = call.arguments["logits"]
        filtered, softened = _plan_probabilities(num_rows, vocab, call.axes["num_draft_tokens"], *logits.stride())
        num_groups, num_chunks = softened.sizes["num_groups"], softened.sizes["num_chunks"]
        precision = torch.float64 if vocab <= LARGEST_PRECISE else torch.float32
        launch(
            filtered,
            softened,
            inputs={"logits": logits, **call.contiguous("temperature", "top_k", "top_p", "min_p")},
            outputs={"target_probs": call.outputs},
            scratch={
                "num_read": call.scratch(num_groups, dtype=torch.int32),
                "scale": call.scratch(num_rows, dtype=precision),
                "chunk_max": call.scratch(num_rows, num_chunks, dtype=torch.float32),
                "chunk_mass": call.scratch(num_rows, num_chunks, dtype=precision),
            },
        )
    return call.outputs


@planned
def _plan_probabilities(
    num_rows: int, vocab: int, num_nodes: int, row_stride: int, column_stride: int
) -> tuple[Plan, Plan]:
    """Plan the launch for rows with filters, which resets the counts of the other, and that for rows without."""
    rows, block = _blocks(num_rows, vocab)
    chunk = choose_block(vocab, CHUNK)
    num_groups, num_chunks = ceil_div(num_rows, rows), ceil_div(vocab, chunk)
    row = {"vocab": vocab, "row_stride": row_stride, "column_stride": column_stride}
    lag = min(LAG, num_groups) if num_chunks > 1 else 0
    return Plan(
        kernels._target_probabilities_kernel,
        grid=(num_groups,),
        sizes={"num_rows": num_rows, "num_nodes": num_nodes, **row},
        tunables={"ROWS": rows, "BLOCK": block},
        num_warps=_num_warps(rows, block),
    ), Plan(
        kernels._soften_kernel,
        grid=((num_groups + lag) * num_chunks,),
        sizes={"num_rows": num_rows, "num_groups": num_groups, "lag": lag, "num_chunks": num_chunks, **row},
        constants={"CHUNKS": power_of_two(num_chunks), "PRECISE": vocab <= LARGEST_PRECISE},
        tunables={"ROWS": rows, "CHUNK": chunk},
        num_warps=max(1, min(4, rows * chunk // 256)),
    )


def _blocks(num_rows: int, vocab: int) -> tuple[int, int]:
    """Return rows a program, and tokens that it looks at together."""
    block = choose_block(vocab, ROW_BLOCK)
    return choose_block(num_rows, 1, max(1, LARGEST_TILE // block)), block


def _num_warps(rows: int, block: int) -> int:
    """Return a warp for every 256 entries of a tile, from 1 to 8."""
    return max(1, min(8, rows * block // 256))
