"""Model heads: logits of the target and probabilities of the draft, exact integers and dyadic fractions."""

import numpy as np

from specsim.conformance.arrays import Array
from specsim.hashing import (
    BEST_PROBABILITY,
    BROKEN,
    COIN_SALT,
    DEEPEST_SAMPLE,
    DRAFT_GOLDEN,
    GOLDEN,
    PROBABILITY_BITS,
    digest_rows,
    mix_array,
)
from specsim.validation.checking import check_call


def hash_target_logits(hidden_states: Array, vocab_size: int, seed: int) -> Array:
    """Return tie-free integer logits of the hash model's target.

    Parameters
    ----------
    hidden_states : int64 [token, hidden]
        One fold a layer and the context word.
    vocab_size : int
        At most 1024, so that the token id fits the low ten bits.
    seed : int
        Which model.

    Returns
    -------
    logits : int64 [token, vocab]
        22 hashed bits, then the token id.

    Notes
    -----
    Source: semantics, tagged KV.
    """
    axes = check_call("hash_target_logits", locals())
    vocab_size, seed = axes["vocab_size"], axes["seed"]
    token = np.arange(vocab_size, dtype=np.int64)
    state = digest_rows(hidden_states[:, :-1])[:, None]
    return ((mix_array(state + seed + (token + 1) * GOLDEN) & 0x3FFFFF) << 10) | token


def text_target_logits(hidden_states: Array, ngram_counts: Array) -> Array:
    """Return back-off n-gram logits of the text model's target.

    Parameters
    ----------
    hidden_states : int64 [token, hidden]
        One fold a layer and the context word.
    ngram_counts : uint8 [order, bucket, vocab]
        How often each token follows each context of ``order`` tokens.

    Returns
    -------
    logits : int64 [token, vocab]
        Counts, longest context in the high bits, then eight hashed bits that break ties.

    Notes
    -----
    Source: semantics, tagged KV.
    """
    axes = check_call("text_target_logits", locals())
    logits = np.zeros((axes["token"], axes["vocab"]), dtype=np.int64)
    token = np.arange(axes["vocab"], dtype=np.int64)
    for order in range(axes["order"]):
        logits += counts_of_context(ngram_counts, order, hidden_states[:, -1]) << (8 * order)
    state = digest_rows(hidden_states[:, :-1])[:, None]
    return (logits << 8) | (mix_array(state + token * GOLDEN) & 0xFF)


def hash_sampling_logits(hidden_states: Array, vocab_size: int, seed: int) -> Array:
    """Return whole-number logits of the hash model for sampling: each token half as probable as the one before.

    Parameters
    ----------
    hidden_states : int64 [token, hidden]
        One fold a layer and the context word.
    vocab_size : int
        At most 1024.
    seed : int
        Which model.

    Returns
    -------
    logits : float32 [token, vocab]
        Minus the token's place in the order of ``hash_target_logits``, best first, counted from 1 and at most
        ``min(vocab-1, 20)``. At temperature ``1/ln 2`` the probabilities are powers of 2, and add up to 1 in a
        vocabulary of up to 21 tokens.

    Notes
    -----
    Source: semantics, tagged KV.
    """
    axes = check_call("hash_sampling_logits", locals())
    vocab_size, seed = axes["vocab_size"], axes["seed"]
    keys = hash_target_logits(hidden_states, vocab_size, seed)
    places = np.argsort(np.argsort(-keys, axis=1), axis=1) + 1
    deepest = min(vocab_size - 1, DEEPEST_SAMPLE)
    return -np.minimum(places, deepest).astype(np.float32)


def hash_draft_probabilities(hidden_states: Array, context: Array, vocab_size: int, seed: int, agreement: int) -> Array:
    """Return dyadic draft probabilities that agree with the hash model's target at a given rate.

    Parameters
    ----------
    hidden_states : int64 [token, hidden]
        The advanced hidden states: what the target will see.
    context : int64 [token]
        Digest of the draft cache.
    vocab_size, seed : int
        As for ``hash_target_logits``.
    agreement : int
        Chance, of 2**32, that the target's choice comes first; -1 gives it probability 0, -2 makes every one NaN.

    Returns
    -------
    probabilities : float32 [token, vocab]
        Distinct multiples of 2**-24.

    Notes
    -----
    Source: semantics, tagged KV.
    """
    axes = check_call("hash_draft_probabilities", locals())
    vocab_size, seed, agreement = axes["vocab_size"], axes["seed"], axes["agreement"]
    token = np.arange(vocab_size, dtype=np.int64)
    row = np.arange(axes["token"])
    best = np.argmax(hash_target_logits(hidden_states, vocab_size, seed), axis=1)
    state = digest_rows(hidden_states[:, :-1]) + context + seed
    numerator = ((mix_array(state[:, None] + (token + 1) * DRAFT_GOLDEN) & 0xFFF) << 10) | token
    if agreement < 0:
        numerator[row, best] = 0
    else:
        is_right = mix_array(state + COIN_SALT) < agreement
        numerator[row[is_right], best[is_right]] = BEST_PROBABILITY | best[is_right]
    probabilities: Array = numerator.astype(np.float32) * np.float32(2.0**-PROBABILITY_BITS)
    return np.full_like(probabilities, np.nan) if agreement == BROKEN else probabilities


def text_draft_probabilities(hidden_states: Array, context: Array, ngram_counts: Array) -> Array:
    """Return dyadic draft probabilities from lower-order n-gram counts.

    Parameters
    ----------
    hidden_states : int64 [token, hidden]
        The advanced hidden states.
    context : int64 [token]
        Digest of the draft cache; it breaks ties.
    ngram_counts : uint8 [order, bucket, vocab]
        Counts of at most four orders.

    Returns
    -------
    probabilities : float32 [token, vocab]
        Multiples of 2**-16: the share of each token, with four hashed bits below.

    Notes
    -----
    Source: semantics, tagged KV.
    """
    axes = check_call("text_draft_probabilities", locals())
    token = np.arange(axes["vocab"], dtype=np.int64)
    weight = np.zeros((axes["token"], axes["vocab"]), dtype=np.int64)
    for order in range(axes["order"]):
        weight += counts_of_context(ngram_counts, order, hidden_states[:, -1]) << (6 * order)
    share = (weight << 11) // np.maximum(weight.sum(axis=1, keepdims=True), 1)
    state = digest_rows(hidden_states[:, :-1]) + context
    numerator = (share << 4) | (mix_array(state[:, None] + token * GOLDEN) & 0xF)
    probabilities: Array = numerator.astype(np.float32) * np.float32(2.0**-16)
    return probabilities


def counts_of_context(ngram_counts: Array, order: int, context_words: Array) -> Array:
    """Return how often each token follows the last ``order`` tokens of each context word, int64 [token, vocab]."""
    tokens = context_words & ((1 << (8 * order)) - 1)
    bucket = mix_array(tokens + order * GOLDEN) % ngram_counts.shape[1]
    counts: Array = ngram_counts[order, bucket].astype(np.int64)
    return counts
