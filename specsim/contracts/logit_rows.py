"""What one row of logits says about the next token: its law in log space, after temperature and filters."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

Row = NDArray[Any]

EVERY_TOKEN = 2**31 - 1
"""A top-k that keeps all tokens of any vocabulary."""


def filters_of(arguments: Mapping[str, Any], request: int) -> tuple[float, int, float, float]:
    """Return temperature, top-k, top-p and min-p of a request; filters that a call leaves out keep everything."""
    top_k, top_p, min_p = (arguments[name] for name in ("top_k", "top_p", "min_p"))
    return (
        float(arguments["temperature"][request]),
        EVERY_TOKEN if top_k is None else int(top_k[request]),
        1.0 if top_p is None else float(top_p[request]),
        0.0 if min_p is None else float(min_p[request]),
    )


def log_probabilities(
    logits: Row, temperature: float, top_k: int = EVERY_TOKEN, top_p: float = 1.0, min_p: float = 0.0
) -> NDArray[np.float64]:
    """Return the log-probability of every token in float64, -inf for one that is impossible or not kept.

    Parameters
    ----------
    logits : floating [vocab]
        -inf forbids a token. A row that has no law, such as one with NaN, gives NaN.
    temperature : float
        Above 0.
    top_k, top_p, min_p : int, float and float
        Applied in this order, each to what the one before left; tokens of equal logits stay or go together.

    Notes
    -----
    Source: semantics B.7, B.9c. No stage rounds, and in log space the least likely token is still possible.
    """
    with np.errstate(all="ignore"):
        exponents = logits.astype(np.float64) / temperature
        exponents = exponents - exponents.max()
        if top_k < len(exponents):
            exponents = _from(exponents, np.sort(exponents)[::-1][max(top_k, 1) - 1])
        if top_p < 1:
            exponents = _from(exponents, _threshold_of_mass(exponents, top_p))
        if min_p > 0:
            exponents = _from(exponents, np.log(min_p))
        return np.asarray(exponents - np.log(np.exp(exponents).sum()))


def _from(exponents: Row, threshold: float) -> Row:
    return np.where(exponents >= threshold, exponents, -np.inf)


def _threshold_of_mass(exponents: Row, top_p: float) -> float:
    """Return the largest exponent from which on the weights add up to a share of all weights."""
    values, counts = np.unique(exponents, return_counts=True)
    mass = np.cumsum((np.exp(values) * counts)[::-1])
    place = min(int(np.searchsorted(mass, top_p * mass[-1])), len(values) - 1)
    return float(values[::-1][place])
