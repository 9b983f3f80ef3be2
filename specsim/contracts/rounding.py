"""How far two correct implementations may differ in floating point: bounds from the format and the vocabulary."""

import math

import numpy as np
from numpy.typing import NDArray

EPSILON = 2.0**-23
"""Spacing of float32 numbers at 1."""

STAGES = 16
"""Roundings of a probability besides those of its sums: exponent, quotient, and the filters between them."""

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


def is_rounded(expected: NDArray[np.floating], got: NDArray[np.floating]) -> NDArray[np.bool_]:
    """Return where probabilities differ by no more than two correct softmaxes and filters of their rows may.

    Parameters
    ----------
    expected, got : floating [..., vocab]
        A probability of p came out of an exponent of at least ``log p``.
    """
    wanted, found = expected.astype(np.float64), got.astype(np.float64)
    exponent = -np.log(np.clip(wanted, UNDERFLOW, 1.0))
    bound = rounding_bound(expected.shape[-1]) + EPSILON * exponent
    close: NDArray[np.bool_] = np.abs(found - wanted) <= bound * wanted + UNDERFLOW
    return close
