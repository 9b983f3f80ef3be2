"""What the rules of requests do to logits, node by node."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from specsim.conformance.arrays import Array
from specsim.host.choice import TokenChoice
from specsim.host.grammar import BITS_PER_WORD
from specsim.host.logit_rules import LONGEST_BAD_WORD, MOST_BAD_WORDS, NO_TOKEN, LogitRules
from specsim.operations.protocol import Operations
from specsim.reference.worker.constraints import allowed_tokens
from specsim.reference.worker.outputs import rules_of
from specsim.reference.worker.sampling import distribution_logits
from specsim.simulation.models.batches import TargetOutput


def follow_output(
    output: TargetOutput[Array],
    draft_token: Array,
    tree_mask: Array,
    known: Mapping[str, Array],
    choices: Sequence[TokenChoice],
    operations: Operations[Array],
) -> TargetOutput[Array]:
    """Return the logits of a batch of trees as the rules of its requests want them.

    Parameters
    ----------
    draft_token : int64 [request*node]
        Token of each node.
    tree_mask : bool [request*node*node]
        Which nodes see which.
    known : mapping
        What the row of each request knows of its output, root included, as in ``OutputRows``.

    Notes
    -----
    Source: semantics B.4, B.4b. What a grammar has forbidden before stays so: nothing brings a token back from -inf.
    """
    rules = rules_of(choices)
    num_nodes, vocab_size = len(draft_token) // len(choices), output.logits.shape[1]
    vocab_mask = operations.forbid_tokens(
        draft_token,
        tree_mask,
        known["num_output_tokens"],
        np.array([one.min_tokens for one in rules], dtype=np.int32),
        np.array([packed(choice.stops, vocab_size) for choice in choices]),
        known["recent_tokens"],
        np.array([aligned(one.bad_words) for one in rules], dtype=np.int64),
        num_nodes,
        vocab_size,
    )
    is_allowed = allowed_tokens(vocab_mask, vocab_size)
    logits = masked(output.logits, is_allowed)
    if not any(one.has_strengths for one in rules):
        sampling_logits = None if output.sampling_logits is None else masked(output.sampling_logits, is_allowed)
        return replace(output, logits=logits, sampling_logits=sampling_logits)
    seen = tree_mask.reshape(len(rules), -1) & np.array([one.is_exact for one in rules])[:, None]
    penalised = operations.apply_penalties(
        distribution_logits(output),
        known["token_counts"],
        draft_token,
        seen.reshape(-1),
        np.array([one.frequency_penalty for one in rules], dtype=np.float32),
        np.array([one.presence_penalty for one in rules], dtype=np.float32),
        np.array([one.repetition_penalty for one in rules], dtype=np.float32),
        num_nodes,
    )
    bias = np.array([biases(one, vocab_size) for one in rules], dtype=np.float32)
    ruled = operations.prepare_logits(penalised, None, None, bias, vocab_mask, num_nodes)
    is_ruled = np.repeat([one.has_strengths for one in rules], num_nodes)[:, None]
    chosen_from = in_order(ruled) if output.logits.dtype == np.int64 else ruled
    return replace(
        output,
        logits=np.where(is_ruled, chosen_from, logits),
        sampling_logits=None if output.sampling_logits is None else ruled,
    )


def masked(logits: Array, is_allowed: Array) -> Array:
    """Return logits, the lowest that there are for tokens that are not allowed."""
    lowest = np.iinfo(logits.dtype).min if logits.dtype.kind == "i" else -np.inf
    changed: Array = np.where(is_allowed, logits, np.array(lowest, dtype=logits.dtype))
    return changed


def in_order(values: Array) -> Array:
    """Return int64 numbers in the order of float32 values, equal where these are."""
    bits = (values + np.float32(0)).view(np.int32).astype(np.int64)
    numbers: Array = np.where(bits < 0, -(2**31) - bits, bits)
    return numbers


def packed(tokens: frozenset[int], vocab_size: int) -> Array:
    """Return tokens as int32 [word] bits; those past the vocabulary are no one's."""
    bits = np.zeros(-(-vocab_size // BITS_PER_WORD) * BITS_PER_WORD, dtype=np.uint8)
    bits[[token for token in tokens if 0 <= token < vocab_size]] = 1
    words: Array = np.packbits(bits, bitorder="little").view(np.int32)
    return words


def aligned(words: Sequence[Sequence[int]]) -> Array:
    """Return bad words int64 [word, token] with their last tokens in the last column."""
    table = np.full((MOST_BAD_WORDS, LONGEST_BAD_WORD), NO_TOKEN, dtype=np.int64)
    for place, word in enumerate(words):
        table[place, LONGEST_BAD_WORD - len(word) :] = word
    return table


def biases(rules: LogitRules, vocab_size: int) -> Array:
    """Return what is added to the logit of each token, float32 [vocab]."""
    bias = np.zeros(vocab_size, dtype=np.float32)
    for token, value in rules.logit_bias:
        bias[token] = value
    return bias
