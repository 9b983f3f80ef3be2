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
    MASK,
    PROBABILITY_BITS,
    digest,
    digest_rows,
    mix,
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
    for row in range(axes["token"]):
        state = digest(hidden_states[row, :-1].tolist())
        counts = rows_of_context(ngram_counts, int(hidden_states[row, -1]))
        for order in range(axes["order"]):
            logits[row] += counts[order] << (8 * order)
        logits[row] = (logits[row] << 8) | (mix_array(state + token * GOLDEN) & 0xFF)
    return logits


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
    logits = np.zeros(keys.shape, dtype=np.float32)
    for row in range(len(keys)):
        for place, token in enumerate(np.argsort(-keys[row])):
            logits[row, token] = -min(place + 1, vocab_size - 1, DEEPEST_SAMPLE)
    return logits


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
    logits = hash_target_logits(hidden_states, vocab_size, seed)
    probabilities = np.zeros((axes["token"], vocab_size), dtype=np.float32)
    token = np.arange(vocab_size, dtype=np.int64)
    for row in range(axes["token"]):
        state = digest(hidden_states[row, :-1].tolist()) + int(context[row]) + seed
        best = int(np.argmax(logits[row]))
        numerator = ((mix_array(state + (token + 1) * DRAFT_GOLDEN) & 0xFFF) << 10) | token
        if agreement < 0:
            numerator[best] = 0
        elif mix(state + COIN_SALT) < agreement:
            numerator[best] = BEST_PROBABILITY | best
        probabilities[row] = numerator.astype(np.float32) * np.float32(2.0**-PROBABILITY_BITS)
        if agreement == BROKEN:
            probabilities[row] = np.nan
    return probabilities


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
    probabilities = np.zeros((axes["token"], axes["vocab"]), dtype=np.float32)
    token = np.arange(axes["vocab"], dtype=np.int64)
    for row in range(axes["token"]):
        state = digest(hidden_states[row, :-1].tolist()) + int(context[row])
        counts = rows_of_context(ngram_counts, int(hidden_states[row, -1]))
        weight = np.zeros(axes["vocab"], dtype=np.int64)
        for order in range(axes["order"]):
            weight += counts[order] << (6 * order)
        share = (weight << 11) // max(int(weight.sum()), 1)
        numerator = (share << 4) | (mix_array(state + token * GOLDEN) & 0xF)
        probabilities[row] = numerator.astype(np.float32) * np.float32(2.0**-16)
    return probabilities


def rows_of_context(ngram_counts: Array, context_word: int) -> Array:
    """Return the counts, int64 [order, vocab], that follow the last ``order`` tokens of a context word."""
    rows = []
    for order in range(ngram_counts.shape[0]):
        tokens = context_word & ((1 << (8 * order)) - 1)
        bucket = mix(tokens + order * GOLDEN) % ngram_counts.shape[1]
        rows.append(ngram_counts[order, bucket].astype(np.int64))
    return np.stack(rows) & MASK
