"""Model heads on the GPU: a program owns a tile of rows and tokens, or whole rows where it needs their best or sum."""

import torch

from specsim.gpu.kernels.models.heads import (
    _hash_draft_probabilities_kernel,
    _hash_sampling_logits_kernel,
    _hash_target_logits_kernel,
    _text_draft_probabilities_kernel,
    _text_target_logits_kernel,
)
from specsim.gpu.launching.blocks import LARGEST_TILE, ceil_div, choose_block, power_of_two
from specsim.gpu.launching.buffers import prepare

_TILE = 1024
_DEEPEST_SAMPLE = 20


def hash_target_logits(hidden_states: torch.Tensor, vocab_size: int, seed: int) -> torch.Tensor:
    """Return tie-free integer logits of the hash model's target."""
    axes, (logits,) = prepare("hash_target_logits", locals())
    num_tokens = axes["token"]
    if num_tokens:
        rows, tokens = _blocks(num_tokens, vocab_size)
        _hash_target_logits_kernel[(ceil_div(num_tokens, rows), ceil_div(vocab_size, tokens))](
            hidden_states.contiguous(),
            logits,
            seed,
            num_tokens,
            axes["hidden"],
            vocab_size,
            ROWS=rows,
            TOKENS=tokens,
        )
    return logits


def text_target_logits(hidden_states: torch.Tensor, ngram_counts: torch.Tensor) -> torch.Tensor:
    """Return back-off n-gram logits of the text model's target."""
    axes, (logits,) = prepare("text_target_logits", locals())
    num_tokens, vocab_size = axes["token"], axes["vocab"]
    if num_tokens and vocab_size:
        rows, tokens = _blocks(num_tokens, vocab_size)
        _text_target_logits_kernel[(ceil_div(num_tokens, rows), ceil_div(vocab_size, tokens))](
            hidden_states.contiguous(),
            ngram_counts.contiguous(),
            logits,
            num_tokens,
            axes["hidden"],
            axes["bucket"],
            vocab_size,
            NUM_ORDERS=axes["order"],
            ROWS=rows,
            TOKENS=tokens,
        )
    return logits


def hash_sampling_logits(hidden_states: torch.Tensor, vocab_size: int, seed: int) -> torch.Tensor:
    """Return whole-number logits of the hash model for sampling; a program ranks whole rows."""
    axes, (logits,) = prepare("hash_sampling_logits", locals())
    num_tokens = axes["token"]
    if num_tokens:
        vocab = power_of_two(vocab_size)
        rows = choose_block(num_tokens, max(1, _TILE // vocab), max(1, LARGEST_TILE // vocab))
        _hash_sampling_logits_kernel[(ceil_div(num_tokens, rows),)](
            hidden_states.contiguous(),
            logits,
            seed,
            min(vocab_size - 1, _DEEPEST_SAMPLE),
            num_tokens,
            axes["hidden"],
            vocab_size,
            ROWS=rows,
            VOCAB=vocab,
        )
    return logits


def hash_draft_probabilities(
    hidden_states: torch.Tensor, context: torch.Tensor, vocab_size: int, seed: int, agreement: int
) -> torch.Tensor:
    """Return dyadic draft probabilities that agree with the hash model's target at a given rate."""
    axes, (probabilities,) = prepare("hash_draft_probabilities", locals())
    num_tokens = axes["token"]
    if num_tokens:
        vocab = power_of_two(vocab_size)
        rows = choose_block(num_tokens, max(1, _TILE // vocab), max(1, LARGEST_TILE // vocab))
        _hash_draft_probabilities_kernel[(ceil_div(num_tokens, rows),)](
            hidden_states.contiguous(),
            context.contiguous(),
            probabilities,
            seed,
            agreement,
            num_tokens,
            axes["hidden"],
            vocab_size,
            ROWS=rows,
            VOCAB=vocab,
        )
    return probabilities


def text_draft_probabilities(
    hidden_states: torch.Tensor, context: torch.Tensor, ngram_counts: torch.Tensor
) -> torch.Tensor:
    """Return dyadic draft probabilities from lower-order n-gram counts."""
    axes, (probabilities,) = prepare("text_draft_probabilities", locals())
    num_tokens, vocab_size = axes["token"], axes["vocab"]
    if num_tokens and vocab_size:
        vocab = power_of_two(vocab_size)
        rows = choose_block(num_tokens, max(1, _TILE // vocab), max(1, LARGEST_TILE // vocab))
        _text_draft_probabilities_kernel[(ceil_div(num_tokens, rows),)](
            hidden_states.contiguous(),
            context.contiguous(),
            ngram_counts.contiguous(),
            probabilities,
            num_tokens,
            axes["hidden"],
            axes["bucket"],
            vocab_size,
            NUM_ORDERS=axes["order"],
            ROWS=rows,
            VOCAB=vocab,
        )
    return probabilities


def _blocks(num_tokens: int, vocab_size: int) -> tuple[int, int]:
    """Return rows and tokens a program."""
    tokens = choose_block(vocab_size, 256, 1 << 12)
    return choose_block(num_tokens, _TILE // tokens, LARGEST_TILE // tokens), tokens
