"""Model heads on the GPU: a program owns a tile of rows and tokens, or whole rows where it needs their best or sum."""

import torch

from specsim.gpu.kernels.models import heads as kernels
from specsim.gpu.launching.blocks import LARGEST_TILE, ceil_div, power_of_two
from specsim.gpu.launching.buffers import Call
from specsim.gpu.launching.calls import run
from specsim.gpu.launching.launcher import launch
from specsim.gpu.launching.mode import choose_block
from specsim.gpu.launching.plan import Plan, planned
from specsim.hashing import DEEPEST_SAMPLE

TILE = 1024
"""Logits of a program: eight a thread of four warps."""

TOKENS, INTERPRETED_TOKENS = 256, 1 << 12
"""Tokens of a row that a program looks at together."""


def hash_target_logits(hidden_states: torch.Tensor, vocab_size: int, seed: int) -> torch.Tensor:
    """Return tie-free integer logits of the hash model's target."""
    return run("hash_target_logits", launch_hash_target_logits, locals())


def launch_hash_target_logits(call: Call) -> torch.Tensor:
    """Launch into the buffers of a checked call."""
    axes = call.axes
    if axes["token"]:
        launch(
            _plan_hash_target(axes["token"], axes["hidden"], axes["vocab"], axes["seed"]),
            inputs=call.contiguous("hidden_states"),
            outputs={"logits": call.outputs},
        )
    return call.outputs


@planned
def _plan_hash_target(num_tokens: int, num_words: int, vocab_size: int, seed: int) -> Plan:
    rows, tokens = _blocks(num_tokens, vocab_size)
    return Plan(
        kernels._hash_target_logits_kernel,
        grid=(ceil_div(num_tokens, rows), ceil_div(vocab_size, tokens)),
        sizes={"seed": seed, "num_tokens": num_tokens, "num_words": num_words, "vocab_size": vocab_size},
        tunables={"ROWS": rows, "TOKENS": tokens},
    )


def text_target_logits(hidden_states: torch.Tensor, ngram_counts: torch.Tensor) -> torch.Tensor:
    """Return back-off n-gram logits of the text model's target."""
    return run("text_target_logits", launch_text_target_logits, locals())


def launch_text_target_logits(call: Call) -> torch.Tensor:
    """Launch into the buffers of a checked call."""
    axes = call.axes
    if axes["token"] and axes["vocab"]:
        launch(
            _plan_text_target(axes["token"], axes["hidden"], axes["vocab"], axes["order"], axes["bucket"]),
            inputs=call.contiguous("hidden_states", "ngram_counts"),
            outputs={"logits": call.outputs},
        )
    return call.outputs


@planned
def _plan_text_target(num_tokens: int, num_words: int, vocab_size: int, num_orders: int, num_buckets: int) -> Plan:
    rows, tokens = _blocks(num_tokens, vocab_size)
    return Plan(
        kernels._text_target_logits_kernel,
        grid=(ceil_div(num_tokens, rows), ceil_div(vocab_size, tokens)),
        sizes={"num_tokens": num_tokens, "num_words": num_words, "num_buckets": num_buckets, "vocab_size": vocab_size},
        constants={"NUM_ORDERS": num_orders},
        tunables={"ROWS": rows, "TOKENS": tokens},
    )


def hash_sampling_logits(hidden_states: torch.Tensor, vocab_size: int, seed: int) -> torch.Tensor:
    """Return whole-number logits of the hash model for sampling; a program ranks whole rows."""
    return run("hash_sampling_logits", launch_hash_sampling_logits, locals())


def launch_hash_sampling_logits(call: Call) -> torch.Tensor:
    """Launch into the buffers of a checked call."""
    axes = call.axes
    if axes["token"]:
        launch(
            _plan_hash_sampling(axes["token"], axes["hidden"], axes["vocab"], axes["seed"]),
            inputs=call.contiguous("hidden_states"),
            outputs={"logits": call.outputs},
        )
    return call.outputs


@planned
def _plan_hash_sampling(num_tokens: int, num_words: int, vocab_size: int, seed: int) -> Plan:
    rows, vocab = _whole_rows(num_tokens, vocab_size)
    return Plan(
        kernels._hash_sampling_logits_kernel,
        grid=(ceil_div(num_tokens, rows),),
        sizes={
            "seed": seed,
            "deepest": min(vocab_size - 1, DEEPEST_SAMPLE),
            "num_tokens": num_tokens,
            "num_words": num_words,
            "vocab_size": vocab_size,
        },
        constants={"VOCAB": vocab},
        tunables={"ROWS": rows},
    )


def hash_draft_probabilities(
    hidden_states: torch.Tensor, context: torch.Tensor, vocab_size: int, seed: int, agreement: int
) -> torch.Tensor:
    """Return dyadic draft probabilities that agree with the hash model's target at a given rate."""
    return run("hash_draft_probabilities", launch_hash_draft_probabilities, locals())


def launch_hash_draft_probabilities(call: Call) -> torch.Tensor:
    """Launch into the buffers of a checked call."""
    axes = call.axes
    if axes["token"]:
        launch(
            _plan_hash_draft(axes["token"], axes["hidden"], axes["vocab"], axes["seed"], axes["agreement"]),
            inputs=call.contiguous("hidden_states", "context"),
            outputs={"probabilities": call.outputs},
        )
    return call.outputs


@planned
def _plan_hash_draft(num_tokens: int, num_words: int, vocab_size: int, seed: int, agreement: int) -> Plan:
    rows, vocab = _whole_rows(num_tokens, vocab_size)
    return Plan(
        kernels._hash_draft_probabilities_kernel,
        grid=(ceil_div(num_tokens, rows),),
        sizes={
            "seed": seed,
            "agreement": agreement,
            "num_tokens": num_tokens,
            "num_words": num_words,
            "vocab_size": vocab_size,
        },
        constants={"VOCAB": vocab},
        tunables={"ROWS": rows},
    )


def text_draft_probabilities(
    hidden_states: torch.Tensor, context: torch.Tensor, ngram_counts: torch.Tensor
) -> torch.Tensor:
    """Return dyadic draft probabilities from lower-order n-gram counts."""
    return run("text_draft_probabilities", launch_text_draft_probabilities, locals())


def launch_text_draft_probabilities(call: Call) -> torch.Tensor:
    """Launch into the buffers of a checked call."""
    axes = call.axes
    if axes["token"] and axes["vocab"]:
        launch(
            _plan_text_draft(axes["token"], axes["hidden"], axes["vocab"], axes["order"], axes["bucket"]),
            inputs=call.contiguous("hidden_states", "context", "ngram_counts"),
            outputs={"probabilities": call.outputs},
        )
    return call.outputs


@planned
def _plan_text_draft(num_tokens: int, num_words: int, vocab_size: int, num_orders: int, num_buckets: int) -> Plan:
    rows, vocab = _whole_rows(num_tokens, vocab_size)
    return Plan(
        kernels._text_draft_probabilities_kernel,
        grid=(ceil_div(num_tokens, rows),),
        sizes={"num_tokens": num_tokens, "num_words": num_words, "num_buckets": num_buckets, "vocab_size": vocab_size},
        constants={"NUM_ORDERS": num_orders, "VOCAB": vocab},
        tunables={"ROWS": rows},
    )


def _blocks(num_tokens: int, vocab_size: int) -> tuple[int, int]:
    """Return rows and tokens a program."""
    tokens = choose_block(vocab_size, TOKENS, INTERPRETED_TOKENS)
    return choose_block(num_tokens, TILE // tokens, LARGEST_TILE // tokens), tokens


def _whole_rows(num_tokens: int, vocab_size: int) -> tuple[int, int]:
    """Return rows a program, and the tokens of a whole row."""
    vocab = power_of_two(vocab_size)
    return choose_block(num_tokens, max(1, TILE // vocab), max(1, LARGEST_TILE // vocab)), vocab
