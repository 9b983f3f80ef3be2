"""Probabilities: from raw logits to the target's distribution of every row; float64 inside, float32 outside."""

import operator
from collections.abc import Callable

import numpy as np

from specsim.conformance.arrays import Array
from specsim.host.grammar import BITS_PER_WORD
from specsim.validation.checking import check_call


def prepare_logits(
    logits: Array,
    scaling_penalty: Array | None,
    additive_penalty: Array | None,
    logit_bias: Array | None,
    vocab_mask: Array | None,
    num_draft_tokens: int,
) -> Array:
    """Apply the additive and the scaling penalty, bias and grammar mask, in this order, to every request.

    Parameters
    ----------
    logits : float32 or bfloat16 [request*node, vocab]
        Row ``b*N+i`` belongs to node i of request b.
    scaling_penalty : float32 [request, vocab] or None
        Logits that the additive penalty leaves positive are divided by it, the others multiplied.
    additive_penalty : float32 [request, vocab] or None
        Added first; a penalty is negative.
    logit_bias : float32 [request, vocab] or None
        Added.
    vocab_mask : int32 [request*node, ceil(vocab/32)] or None
        Bit ``v mod 32`` of word ``v // 32`` allows token v.
    num_draft_tokens : int
        Nodes of a request.

    Returns
    -------
    prepared_logits : float32 [request*node, vocab]
        Every step rounds once to float32; a token that the mask forbids is -inf.

    Raises
    ------
    SpecRejection
        INFINITE_LOGIT: a logit, penalty or bias is +inf, or a scale is not a positive number; NAN_SCORE.

    Notes
    -----
    Source: semantics B.4. Penalties and bias are the request's, whatever stands earlier on the path of a node.
    """
    axes = check_call("prepare_logits", locals())
    num_draft_tokens = axes["num_draft_tokens"]
    prepared_logits = np.zeros(logits.shape, dtype=np.float32)
    for row in range(axes["request"] * num_draft_tokens):
        request = row // num_draft_tokens
        values = logits[row].astype(np.float32)
        if additive_penalty is not None:
            values = values + additive_penalty[request]
        if scaling_penalty is not None:
            scale = scaling_penalty[request]
            values = np.where(values > 0, values / scale, values * scale)
        if logit_bias is not None:
            values = values + logit_bias[request]
        if vocab_mask is not None:
            token = np.arange(axes["vocab"])
            is_allowed = (vocab_mask[row, token // BITS_PER_WORD] >> (token % BITS_PER_WORD)) & 1
            values = np.where(is_allowed == 1, values, np.float32("-inf"))
        prepared_logits[row] = values
    return prepared_logits


def top_k_renorm(probabilities: Array, top_k: Array) -> Array:
    """Keep the k most probable tokens of a row, ties at the threshold included, and renormalise.

    Parameters
    ----------
    probabilities : float32 [token, vocab]
        Need not add up to 1.
    top_k : int32 [token]
        At least 1; a number beyond the vocabulary keeps everything.

    Returns
    -------
    renormalised : float32 [token, vocab]
        The kept tokens add up to 1.

    Raises
    ------
    SpecRejection
        EMPTY_DISTRIBUTION: a row has no mass; PROBABILITY_OUT_OF_RANGE, COUNT_OUT_OF_RANGE.

    Notes
    -----
    Source: semantics B.7.
    """
    axes = check_call("top_k_renorm", locals())
    renormalised = np.zeros(probabilities.shape, dtype=np.float32)
    for row in range(axes["token"]):
        renormalised[row] = keep_top_k(probabilities[row], int(top_k[row]))
    return renormalised


def top_p_renorm(probabilities: Array, top_p: Array) -> Array:
    """Keep the most probable tokens whose mass reaches p, ties at the threshold included, and renormalise.

    Parameters
    ----------
    probabilities : float32 [token, vocab]
        Need not add up to 1.
    top_p : float32 [token]
        Share of the row's mass, above 0, at most 1; 1 keeps everything.

    Returns
    -------
    renormalised : float32 [token, vocab]
        The kept tokens add up to 1.

    Raises
    ------
    SpecRejection
        EMPTY_DISTRIBUTION: a row has no mass; PROBABILITY_OUT_OF_RANGE.

    Notes
    -----
    Source: semantics B.7.
    """
    axes = check_call("top_p_renorm", locals())
    renormalised = np.zeros(probabilities.shape, dtype=np.float32)
    for row in range(axes["token"]):
        renormalised[row] = keep_top_p(probabilities[row], float(top_p[row]))
    return renormalised


def min_p_renorm(probabilities: Array, min_p: Array) -> Array:
    """Keep the tokens that are at least a share as probable as the most probable one, and renormalise.

    Parameters
    ----------
    probabilities : float32 [token, vocab]
        Need not add up to 1.
    min_p : float32 [token]
        Share of the largest probability; 0 keeps everything. A token exactly at the threshold is kept.

    Returns
    -------
    renormalised : float32 [token, vocab]
        The kept tokens add up to 1.

    Raises
    ------
    SpecRejection
        EMPTY_DISTRIBUTION: a row has no mass; PROBABILITY_OUT_OF_RANGE.

    Notes
    -----
    Source: semantics B.7.
    """
    axes = check_call("min_p_renorm", locals())
    renormalised = np.zeros(probabilities.shape, dtype=np.float32)
    for row in range(axes["token"]):
        renormalised[row] = keep_min_p(probabilities[row], float(min_p[row]))
    return renormalised


def target_probabilities(
    logits: Array, temperature: Array, top_k: Array, top_p: Array, min_p: Array, num_draft_tokens: int
) -> Array:
    """Apply temperature, softmax, top-k, top-p and min-p to the rows of every request; temperature 0 is one-hot.

    Parameters
    ----------
    logits : float32 or bfloat16 [request*node, vocab]
        Prepared logits; -inf forbids a token.
    temperature : float32 [request]
        0, which puts everything on the first largest logit, or 2**-20 to 2**20.
    top_k : int32 [request]
        At least 1.
    top_p, min_p : float32 [request]
        1 and 0 keep everything.
    num_draft_tokens : int
        Nodes of a request.

    Returns
    -------
    target_probs : float32 [request*node, vocab]
        Every stage rounds to float32.

    Raises
    ------
    SpecRejection
        EMPTY_DISTRIBUTION: a row is -inf everywhere; INFINITE_LOGIT, TEMPERATURE_OUT_OF_RANGE, NAN_SCORE.

    Notes
    -----
    Source: semantics B.4, B.7, B.8.
    """
    axes = check_call("target_probabilities", locals())
    num_draft_tokens = axes["num_draft_tokens"]
    target_probs = np.zeros(logits.shape, dtype=np.float32)
    for row in range(axes["request"] * num_draft_tokens):
        request = row // num_draft_tokens
        filters = (float(temperature[request]), int(top_k[request]), float(top_p[request]), float(min_p[request]))
        target_probs[row] = distribution(logits[row], *filters)
    return target_probs


def has_share(mass: float, share: float, total: float) -> bool:
    """Return whether a mass is at least a share of the total."""
    return mass >= share * total


def distribution(logits: Array, temperature: float, top_k: int, top_p: float, min_p: float) -> Array:
    """Return the distribution of one row in float32."""
    if temperature == 0:
        return np.asarray(np.arange(len(logits)) == np.argmax(logits.astype(np.float32))).astype(np.float32)
    return filtered(softmax(logits.astype(np.float64) / temperature), top_k, top_p, min_p)[-1]


def filtered(
    softened: Array,
    top_k: int,
    top_p: float,
    min_p: float,
    is_enough: Callable[[float, float, float], bool] = has_share,
    reaches: Callable[[Array, float], Array] = operator.ge,
) -> tuple[Array, Array, Array]:
    """Return one row after top-k, after top-p as well, and after min-p as well; decisions as in the single filters."""
    by_k = keep_top_k(softened, top_k)
    by_p = keep_top_p(by_k, top_p, is_enough)
    return by_k, by_p, keep_min_p(by_p, min_p, reaches)


def softmax(values: Array) -> Array:
    """Return the softmax of one row, computed in float64, in float32."""
    weights = np.exp(values - values.max())
    return rounded(weights, weights.sum())


def rounded(weights: Array, total: float) -> Array:
    """Return shares of a total in float32."""
    return (weights / total).astype(np.float32)


def keep_top_k(probabilities: Array, top_k: int) -> Array:
    """Apply top-k to one row."""
    weights = probabilities.astype(np.float64)
    if top_k < len(weights):
        threshold = np.sort(weights)[::-1][top_k - 1]
        weights = np.where(weights >= threshold, weights, 0.0)
    return rounded(weights, weights.sum())


def keep_top_p(
    probabilities: Array, top_p: float, is_enough: Callable[[float, float, float], bool] = has_share
) -> Array:
    """Apply top-p to one row; ``is_enough`` decides whether a mass is that share of the total."""
    weights = probabilities.astype(np.float64)
    if top_p < 1:
        total, mass = weights.sum(), 0.0
        for threshold in np.unique(weights)[::-1]:
            mass += threshold * np.count_nonzero(weights == threshold)
            if is_enough(mass, top_p, total):
                break
        weights = np.where(weights >= threshold, weights, 0.0)
    return rounded(weights, weights.sum())


def keep_min_p(probabilities: Array, min_p: float, reaches: Callable[[Array, float], Array] = operator.ge) -> Array:
    """Apply min-p to one row; ``reaches`` decides which probabilities are at least the threshold."""
    weights = probabilities.astype(np.float64)
    threshold = min_p * weights.max()
    if threshold > 0:
        weights = np.where(reaches(weights, threshold), weights, 0.0)
    return rounded(weights, weights.sum())
