"""How far two correct implementations may differ in floating point: bounds from the format and the vocabulary."""

import math

import numpy as np
from numpy.typing import NDArray

EPSILON = 2.0**-23
"""Spacing of float32 numbers at 1."""

STAGES = 16
"""Roundings of a probability besides those of its sums: exponent, quotient, and the filters between them."""

EXPONENT_STAGES = 4
"""Roundings of an exponent: a difference of logits, a quotient of two units, another base or the last difference."""

BFLOAT16_DIGITS = 7
"""Binary digits of a bfloat16 number after its first."""

UNDERFLOW = 1e-30
"""A number below it may be 0 elsewhere: subnormal numbers are flushed, and exponents end early."""


def rounding_bound(vocab_size: int) -> float:
    """Return the largest relative error of a sum of probabilities, or of one of them, in float32.

    A sum of V terms in two levels of blocks passes each term through at most ``2 * sqrt(V)`` additions, each of which
    rounds by half a spacing.
    """
    return EPSILON * (STAGES + math.sqrt(vocab_size))


def softmax_bound(vocab_size: int, largest_exponent: float) -> float:
    """Return the same for probabilities that were computed from logits.

    An exponent of size x carries a rounding of ``x * EPSILON / 2``, which becomes a relative error of the weight.
    """
    return rounding_bound(vocab_size) + EPSILON * largest_exponent


def logprob_bound(vocab_size: int, logprob: NDArray[np.floating]) -> NDArray[np.float64]:
    """Return the largest absolute error of log-probabilities in float32.

    It is the exponent of a weight less the logarithm of the sum of weights. That logarithm turns the relative error of
    the sum into an absolute one: that of adding up, and that of its weights, which follow their exponents; averaged
    over the distribution exponents are at most ``log V``. An exponent is no larger than the log-probability, and is
    rounded ``EXPONENT_STAGES`` times at most.
    """
    size = np.abs(np.asarray(logprob, dtype=np.float64))
    return rounding_bound(vocab_size) + EPSILON * EXPONENT_STAGES * (math.log(max(vocab_size, 1)) + size)


def log_ratio_bound(target_exponent: float, draft_exponent: float) -> float:
    """Return the largest error of the logarithm of a ratio of two probabilities, each from a row of logits in float32.

    The exponents are the largest of either row by size, 0 of a row that is not read. A logit over a temperature, and
    its difference to the row's logarithm of the sum, round by a few half spacings of that size; the 1 stands for the
    sums themselves. Twice the error that was measured is allowed for.
    """
    return 4 * EPSILON * (target_exponent + draft_exponent + 1)


def race_bound(vocab_size: int, largest_exponent: float) -> float:
    """Return the largest error of the logarithm of a ratio of two arrival times in float32.

    A time is an exponential number over a weight. The number rounds by a few spacings, those of a logarithm and of two
    quotients; the weight as any probability from logits, to which ``log_ratio_bound`` adds what exponents round.
    """
    weights = 2 * rounding_bound(vocab_size) + log_ratio_bound(largest_exponent, 0.0) if vocab_size else 0.0
    return EPSILON * STAGES + weights


def is_rounded_logprob(expected: NDArray[np.floating], got: NDArray[np.floating], vocab_size: int) -> NDArray[np.bool_]:
    """Return where log-probabilities differ by no more than those of two correct softmaxes may."""
    wanted, found = expected.astype(np.float64), got.astype(np.float64)
    is_finite = np.isfinite(wanted) & np.isfinite(found)
    with np.errstate(invalid="ignore"):
        close = np.abs(found - wanted) <= logprob_bound(vocab_size, np.where(is_finite, wanted, 0.0))
    return np.asarray((wanted == found) | (is_finite & close))


def is_rounded_state(expected: NDArray[np.floating], got: NDArray[np.floating], dtype: str) -> bool:
    """Return whether hidden states agree to half of the digits of their type, measured by the largest of their numbers.

    What a forward rounds, and in which order, is the model's own affair, so that no sharper bound follows.
    """
    digits = BFLOAT16_DIGITS if dtype == "bfloat16" else np.finfo(dtype).nmant
    return bool(
        np.max(np.abs(expected - got), initial=0.0) <= 2.0 ** (-digits / 2) * np.max(np.abs(expected), initial=0.0)
    )


def largest_exponents(logits: NDArray[np.floating], temperature: NDArray[np.floating]) -> NDArray[np.float64]:
    """Return the largest finite exponent of each row by size, 0 where a row has none: its logits by its temperature.

    Parameters
    ----------
    logits : floating [num_rows, vocab]
    temperature : floating [num_requests]
        Each request's rows stand together, equally many of each; 0 of a greedy request, whose rows are exact.
    """
    size = np.abs(logits.astype(np.float64))
    largest = np.max(size, axis=1, initial=0.0, where=np.isfinite(size))
    warmth = np.repeat(temperature.astype(np.float64), len(logits) // max(len(temperature), 1))
    exponents: NDArray[np.float64] = np.divide(largest, warmth, out=np.zeros_like(largest), where=warmth > 0)
    return exponents


def probability_bound(
    expected: NDArray[np.floating], exponents: NDArray[np.float64] | float = 0.0
) -> NDArray[np.float64]:
    """Return the largest absolute error of each probability that a softmax or a filter of its row gives.

    Parameters
    ----------
    expected : floating [..., vocab]
        A probability of p came out of an exponent of at least ``log p``.
    exponents : float64 [..., 1] or float
        The largest exponents of the rows where they come from logits: who divides by the temperature before the
        largest is subtracted rounds two numbers of that size, each by half a spacing.
    """
    wanted = expected.astype(np.float64)
    exponent = -np.log(np.clip(wanted, UNDERFLOW, 1.0))
    bound = rounding_bound(expected.shape[-1]) + EPSILON * (exponent + exponents)
    return np.asarray(bound * wanted + UNDERFLOW, dtype=np.float64)


def is_rounded(
    expected: NDArray[np.floating], got: NDArray[np.floating], exponents: NDArray[np.float64] | float = 0.0
) -> NDArray[np.bool_]:
    """Return where probabilities differ by no more than two correct softmaxes and filters of their rows may."""
    off = np.abs(got.astype(np.float64) - expected.astype(np.float64))
    close: NDArray[np.bool_] = off <= probability_bound(expected, exponents)
    return close
