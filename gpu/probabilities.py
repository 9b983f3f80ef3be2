"""Probabilities: from raw logits to the target's distribution of every row."""

import torch

from specsim.gpu.kernels import probabilities as kernels
from specsim.gpu.launching.blocks import LARGEST_TILE, ceil_div, choose_block
from specsim.gpu.launching.buffers import prepare

_TILE = 1024
_ROW_BLOCK = 2048


def prepare_logits(
    logits: torch.Tensor,
    scaling_penalty: torch.Tensor | None,
    additive_penalty: torch.Tensor | None,
    logit_bias: torch.Tensor | None,
    vocab_mask: torch.Tensor | None,
    num_draft_tokens: int,
) -> torch.Tensor:
    """Apply penalties, bias and grammar mask; one launch, every step rounded to float32 as in the reference."""
    axes, (prepared_logits,) = prepare("prepare_logits", locals())
    num_rows, vocab = prepared_logits.shape
    if num_rows:
        tokens = choose_block(vocab, _TILE)
        rows = choose_block(num_rows, _TILE // tokens, LARGEST_TILE // tokens)
        kernels._prepare_logits_kernel[(ceil_div(num_rows, rows), ceil_div(vocab, tokens))](
            logits,
            _contiguous(scaling_penalty),
            _contiguous(additive_penalty),
            _contiguous(logit_bias),
            _contiguous(vocab_mask),
            prepared_logits,
            num_rows,
            num_draft_tokens,
            vocab,
            ceil_div(vocab, 32),
            logits.stride(0),
            logits.stride(1),
            ROWS=rows,
            BLOCK=tokens,
            enable_fp_fusion=False,
        )
    return prepared_logits


def top_k_renorm(probabilities: torch.Tensor, top_k: torch.Tensor) -> torch.Tensor:
    """Keep the k most probable tokens of a row; a program owns whole rows and sorts none of them."""
    _, (renormalised,) = prepare("top_k_renorm", locals())
    _renormalise(probabilities, top_k, renormalised, kernels.TOP_K.value)
    return renormalised


def top_p_renorm(probabilities: torch.Tensor, top_p: torch.Tensor) -> torch.Tensor:
    """Keep the most probable tokens whose mass reaches p; a program owns whole rows and sorts none of them."""
    _, (renormalised,) = prepare("top_p_renorm", locals())
    _renormalise(probabilities, top_p, renormalised, kernels.TOP_P.value)
    return renormalised


def min_p_renorm(probabilities: torch.Tensor, min_p: torch.Tensor) -> torch.Tensor:
    """Keep the tokens that reach a share of the most probable one; a program owns whole rows."""
    _, (renormalised,) = prepare("min_p_renorm", locals())
    _renormalise(probabilities, min_p, renormalised, kernels.MIN_P.value)
    return renormalised


def target_probabilities(
    logits: torch.Tensor,
    temperature: torch.Tensor,
    top_k: torch.Tensor,
    top_p: torch.Tensor,
    min_p: torch.Tensor,
    num_draft_tokens: int,
) -> torch.Tensor:
    """Soften and filter every row in one launch; a program owns whole rows, and what may survive is looked at alone."""
    axes, (target_probs,) = prepare("target_probabilities", locals())
    num_rows, vocab = target_probs.shape
    if num_rows:
        rows, block = _blocks(num_rows, vocab)
        kernels._target_probabilities_kernel[(ceil_div(num_rows, rows),)](
            logits,
            temperature.contiguous(),
            top_k.contiguous(),
            top_p.contiguous(),
            min_p.contiguous(),
            target_probs,
            num_rows,
            num_draft_tokens,
            vocab,
            logits.stride(0),
            logits.stride(1),
            ROWS=rows,
            BLOCK=block,
            num_warps=_num_warps(rows, block),
        )
    return target_probs


def _renormalise(probabilities: torch.Tensor, parameter: torch.Tensor, renormalised: torch.Tensor, kind: int) -> None:
    num_rows, vocab = renormalised.shape
    if num_rows:
        rows, block = _blocks(num_rows, vocab)
        kernels._renormalise_kernel[(ceil_div(num_rows, rows),)](
            probabilities,
            parameter.contiguous(),
            renormalised,
            num_rows,
            vocab,
            probabilities.stride(0),
            probabilities.stride(1),
            FILTER=kind,
            ROWS=rows,
            BLOCK=block,
            num_warps=_num_warps(rows, block),
        )


def _blocks(num_rows: int, vocab: int) -> tuple[int, int]:
    """Return rows a program, and tokens that it looks at together."""
    block = choose_block(vocab, _ROW_BLOCK)
    return choose_block(num_rows, 1, max(1, LARGEST_TILE // block)), block


def _num_warps(rows: int, block: int) -> int:
    return max(1, min(8, rows * block // 256))


def _contiguous(tensor: torch.Tensor | None) -> torch.Tensor | None:
    return None if tensor is None else tensor.contiguous()
