"""Confidence intervals by resampling requests, with NumPy alone; a seed gives the same interval again.

Every figure here is one of sums over requests, which resampling weighs. Runs of as many requests are weighed alike, so
that figures of the same prompts can be compared replicate by replicate.
"""

import math
from dataclasses import dataclass
from functools import lru_cache
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

REPLICATES = 2000
LEVEL = 0.95
"""How often an interval holds the true figure, of many runs."""

FEWEST = 2
"""Requests of which an interval can be known."""

MOST_KEPT = 1 << 22
"""Weights that are kept for the next run of as many requests, and that are drawn at a time."""


@dataclass(frozen=True)
class Interval:
    """A figure, and the bounds that hold the true one; they are None where too few requests were run."""

    value: float
    low: float | None
    high: float | None

    def __str__(self) -> str:
        return f"{self.value:.3f}" if self.low is None else f"{self.value:.3f} [{self.low:.3f}, {self.high:.3f}]"


def resampled_sums(rows: Array, seed: int, replicates: int = REPLICATES) -> Array:
    """Return sums of rows drawn with replacement, as many as there are: float64 [replicate, column]."""
    count = len(rows)
    if count * replicates <= MOST_KEPT:
        sums: Array = _weights(count, seed, replicates) @ rows
        return sums
    generator, at_once = np.random.default_rng(seed), max(MOST_KEPT // count, 1)
    parts = [min(at_once, replicates - begin) for begin in range(0, replicates, at_once)]
    return np.concatenate([generator.multinomial(count, np.full(count, 1 / count), part) @ rows for part in parts])


@lru_cache(maxsize=4)
def _weights(count: int, seed: int, replicates: int) -> Array:
    weights = np.random.default_rng(seed).multinomial(count, np.full(count, 1 / count), replicates)
    return weights.astype(np.float64)


def interval_of(value: float, replicates: Array, count: int, level: float = LEVEL) -> Interval:
    """Return the interval of a figure by its replicates.

    Quantiles of few requests lie too near to the figure; these are those of Student's distribution (Hesterberg 2015).

    Parameters
    ----------
    value : float
        The figure of all requests.
    replicates : float64 [replicate]
        The figure of each resample; those that have nothing to divide by are NaN, and left out.
    count : int
        Number of requests.
    level : float
        Share of runs whose interval holds the true figure.
    """
    known = replicates[np.isfinite(replicates)]
    if count < FEWEST or not len(known):
        return Interval(value, None, None)
    tail = (1 - level) / 2
    wide = NormalDist().cdf(-math.sqrt(count / (count - 1)) * student_quantile(1 - tail, count - 1))
    low, high = np.quantile(known, (wide, 1 - wide))
    return Interval(value, float(low), float(high))


def student_quantile(share: float, freedom: int) -> float:
    """Return a quantile of Student's distribution of so many degrees of freedom, above its median.

    It is exact for one and two, and the series of Hill (1970) around that of the normal distribution for more.
    """
    if freedom == 1:
        return math.tan(math.pi * (share - 0.5))
    if freedom == 2:
        doubled = 2 * share - 1
        return doubled * math.sqrt(2 / (1 - doubled * doubled))
    z = NormalDist().inv_cdf(share)
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    return float(z + sum(term / freedom**power for power, term in enumerate(terms, 1)))
