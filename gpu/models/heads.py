"""Model heads on the GPU: a program owns a tile of rows and tokens, or whole rows where it needs their best or sum."""

from specsim.gpu.kernels.models import heads as kernels
from specsim.gpu.launching.blocks import LARGEST_TILE, ceil_div, power_of_two
from specsim.gpu.launching.buffers import Call
from specsim.gpu.launching.calls import operation
from specsim.gpu.launching.launcher import Launch
from specsim.gpu.launching.mode import choose_block
from specsim.gpu.launching.plan import Plan
from specsim.hashing import DEEPEST_SAMPLE

TILE = 1024
"""Logits of a program: eight a thread of four warps."""

TOKENS, INTERPRETED_TOKENS = 256, 1 << 12
"""Tokens of a row that a program looks at together."""


@operation
def hash_target_logits(call: Call) -> Launch | None:
    """Return tie-free integer logits of the hash model's target."""
    num_tokens, num_words, vocab_size = _sizes_of(call)
    if num_tokens == 0:
        return None
    rows, tokens = _blocks(num_tokens, vocab_size)
    return Launch(
        Plan(
            kernels._hash_target_logits_kernel,
            grid=(ceil_div(num_tokens, rows), ceil_div(vocab_size, tokens)),
            sizes={
                "seed": call.axes["seed"],
                "num_tokens": num_tokens,
                "num_words": num_words,
                "vocab_size": vocab_size,
            },
            tunables={"ROWS": rows, "TOKENS": tokens},
        ),
        inputs=call.contiguous("hidden_states"),
        outputs=call.returned(),
    )


@operation
def text_target_logits(call: Call) -> Launch | None:
    """Return back-off n-gram logits of the text model's target."""
    num_tokens, num_words, vocab_size = _sizes_of(call)
    if num_tokens == 0 or vocab_size == 0:
        return None
    rows, tokens = _blocks(num_tokens, vocab_size)
    return Launch(
        Plan(
            kernels._text_target_logits_kernel,
            grid=(ceil_div(num_tokens, rows), ceil_div(vocab_size, tokens)),
            sizes={
                "num_tokens": num_tokens,
                "num_words": num_words,
                "num_buckets": call.axes["bucket"],
                "vocab_size": vocab_size,
            },
            constants={"NUM_ORDERS": call.axes["order"]},
            tunables={"ROWS": rows, "TOKENS": tokens},
        ),
        inputs=call.contiguous("hidden_states", "ngram_counts"),
        outputs=call.returned(),
    )


@operation
def hash_sampling_logits(call: Call) -> Launch | None:
    """Return whole-number logits of the hash model for sampling; a program ranks whole rows."""
    num_tokens, num_words, vocab_size = _sizes_of(call)
    if num_tokens == 0:
        return None
    rows, vocab = _whole_rows(num_tokens, vocab_size)
    return Launch(
        Plan(
            kernels._hash_sampling_logits_kernel,
            grid=(ceil_div(num_tokens, rows),),
            sizes={
                "seed": call.axes["seed"],
                "deepest": min(vocab_size - 1, DEEPEST_SAMPLE),
                "num_tokens": num_tokens,
                "num_words": num_words,
                "vocab_size": vocab_size,
            },
            constants={"VOCAB": vocab},
            tunables={"ROWS": rows},
        ),
        inputs=call.contiguous("hidden_states"),
        outputs=call.returned(),
    )


@operation
def hash_draft_probabilities(call: Call) -> Launch | None:
    """Return dyadic draft probabilities that agree with the hash model's target at a given rate."""
    num_tokens, num_words, vocab_size = _sizes_of(call)
    if num_tokens == 0:
        return None
    rows, vocab = _whole_rows(num_tokens, vocab_size)
    return Launch(
        Plan(
            kernels._hash_draft_probabilities_kernel,
            grid=(ceil_div(num_tokens, rows),),
            sizes={
                "seed": call.axes["seed"],
                "agreement": call.axes["agreement"],
                "num_tokens": num_tokens,
                "num_words": num_words,
                "vocab_size": vocab_size,
            },
            constants={"VOCAB": vocab},
            tunables={"ROWS": rows},
        ),
        inputs=call.contiguous("hidden_states", "context"),
        outputs=call.returned(),
    )


@operation
def text_draft_probabilities(call: Call) -> Launch | None:
    """Return dyadic draft probabilities from lower-order n-gram counts."""
    num_tokens, num_words, vocab_size = _sizes_of(call)
    if num_tokens == 0 or vocab_size == 0:
        return None
    rows, vocab = _whole_rows(num_tokens, vocab_size)
    return Launch(
        Plan(
            kernels._text_draft_probabilities_kernel,
            grid=(ceil_div(num_tokens, rows),),
            sizes={
                "num_tokens": num_tokens,
                "num_words": num_words,
                "num_buckets": call.axes["bucket"],
                "vocab_size": vocab_size,
            },
            constants={"NUM_ORDERS": call.axes["order"], "VOCAB": vocab},
            tunables={"ROWS": rows},
        ),
        inputs=call.contiguous("hidden_states", "context", "ngram_counts"),
        outputs=call.returned(),
    )


def _sizes_of(call: Call) -> tuple[int, int, int]:
    """Return the tokens of a call, the words of a hidden state, and the vocabulary."""
    return call.axes["token"], call.axes["hidden"], call.axes["vocab"]


def _blocks(num_tokens: int, vocab_size: int) -> tuple[int, int]:
    """Return rows and tokens a program."""
    tokens = choose_block(vocab_size, TOKENS, INTERPRETED_TOKENS)
    return choose_block(num_tokens, TILE // tokens, LARGEST_TILE // tokens), tokens


def _whole_rows(num_tokens: int, vocab_size: int) -> tuple[int, int]:
    """Return rows a program, and the tokens of a whole row."""
    vocab = power_of_two(vocab_size)
    return choose_block(num_tokens, max(1, TILE // vocab), max(1, LARGEST_TILE // vocab)), vocab
