"""Sampling parameters of requests: temperature, top-k, top-p and min-p, some of which follow from a row of logits."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from specsim.host.sampling import ALL_TOKENS, GREATEST_TEMPERATURE, LEAST_TEMPERATURE, SamplingParameters
from specsim.properties.strategies.arrays import Arguments, Array, Bulk, mostly
from specsim.properties.strategies.made_once import made_once

TEMPERATURES = (1.0, 0.7, 0.5, 2.0, 20.0, 0.05, LEAST_TEMPERATURE, GREATEST_TEMPERATURE)
TOP_K = (2, 3, 4, 5, 7, 33, 50, 2**30, 2**31 - 1)
TOP_P = (0.95, 0.9, 0.7, 0.5, 0.1, 2.0**-20)
MIN_P = (0.05, 0.3, 0.75, 1.0)
CUTTING_TEMPERATURES = (1.0, 0.7, 2.0)
MOST_LEVELS = 6
LEAST_GAP = 0.01


@dataclass(frozen=True)
class Filters:
    """Sampling parameters of one request."""

    temperature: float
    top_k: int
    top_p: float
    min_p: float


@made_once
def filters(greedy_one_in: int = 4) -> SearchStrategy[Filters]:
    """Return a strategy of sampling parameters: greedy, plain, with one or several filters, and with all that cut."""
    usual = st.builds(
        Filters,
        mostly(st.sampled_from(TEMPERATURES), st.just(0.0), greedy_one_in),
        mostly(st.just(2**30), st.one_of(st.just(1), st.sampled_from(TOP_K)), one_in=2),
        mostly(st.just(1.0), st.sampled_from(TOP_P), one_in=2),
        mostly(st.just(0.0), st.sampled_from(MIN_P), one_in=4),
    )
    return mostly(usual, cutting_filters(), one_in=3)


@made_once
def cutting_filters() -> SearchStrategy[Filters]:
    """Return a strategy of sampling parameters whose filters all cut, so that their order shows."""
    temperatures, top_k = st.sampled_from(CUTTING_TEMPERATURES), st.sampled_from((2, 3, 5, 2**30))
    top_p, min_p = st.sampled_from((0.9, 0.7, 0.5)), st.sampled_from((0.0, 0.05, 0.3, 0.5, 0.75))
    return st.builds(Filters, temperatures, top_k, top_p, min_p)


def filters_of(requests: Sequence[Filters | SamplingParameters]) -> Arguments:
    """Return the sampling parameters of a batch."""
    return {
        "temperature": np.array([one.temperature for one in requests], dtype=np.float32),
        "top_k": np.array([one.top_k for one in requests], dtype=np.int32),
        "top_p": np.array([one.top_p for one in requests], dtype=np.float32),
        "min_p": np.array([one.min_p for one in requests], dtype=np.float32),
    }


def given_filters(arguments: Arguments) -> Arguments:
    """Return temperature and filters of a batch; in the place of one that is left out stands one that keeps all."""
    neutral = filters_of([Filters(1.0, ALL_TOKENS, 1.0, 0.0)] * len(arguments["temperature"]))
    return {name: keeping if arguments[name] is None else arguments[name] for name, keeping in neutral.items()}


def ordered_filters(logits: Array, source: Bulk) -> Filters | None:
    """Return filters whose order decides about a row, or None if it has too few different logits near its largest.

    Top-k or min-p keeps some levels of equal logits, and top-p lies between the share of fewer levels in all mass and
    their share in the mass of those.
    """
    row = _levels(logits, source)
    most = min(len(row.mass) - 1, MOST_LEVELS)
    choices = [(fewer, kept) for kept in range(2, most + 1) for fewer in range(1, kept)]
    gaps = {(fewer, kept): row.mass[fewer - 1] * (1 / row.mass[kept - 1] - 1) for fewer, kept in choices}
    pairs = [pair for pair, gap in gaps.items() if gap > LEAST_GAP]
    if not pairs:
        return None
    fewer, kept = pairs[source.integer(0, len(pairs) - 1)]
    top_p = float(row.mass[fewer - 1] + gaps[fewer, kept] / 2)
    if source.integer(0, 1):
        return Filters(row.temperature, row.top_k(kept, source), top_p, 0.0)
    return Filters(row.temperature, 2**30, top_p, row.min_p(kept))


def single_filter(logits: Array, source: Bulk) -> Filters | None:
    """Return one filter alone that cuts a row, or None if all possible logits are equal."""
    row = _levels(logits, source)
    if len(row.mass) < 2:
        return None
    kept = source.integer(1, min(len(row.mass) - 1, MOST_LEVELS))
    top_p = float(row.mass[kept - 1] + (row.mass[kept - 2] if kept > 1 else 0.0)) / 2
    return (
        Filters(row.temperature, row.top_k(kept, source), 1.0, 0.0),
        Filters(row.temperature, 2**30, top_p, 0.0),
        Filters(row.temperature, 2**30, 1.0, row.min_p(kept)),
    )[source.integer(0, 2)]


@dataclass(frozen=True)
class _Levels:
    """The tokens of a row by equal logits, largest first: how many, their weight, and the share of all mass so far."""

    temperature: float
    counts: Array
    weights: Array
    mass: Array

    def top_k(self, kept: int, source: Bulk) -> int:
        """Return a count that keeps so many levels."""
        return int(self.counts[:kept].sum()) - source.integer(0, int(self.counts[kept - 1]) - 1)

    def min_p(self, kept: int) -> float:
        """Return a share of the largest entry that keeps so many levels."""
        return float(np.sqrt(self.weights[kept - 1] * self.weights[kept]))


def _levels(logits: Array, source: Bulk) -> _Levels:
    temperature = CUTTING_TEMPERATURES[source.integer(0, len(CUTTING_TEMPERATURES) - 1)]
    values, counts = np.unique(logits[np.isfinite(logits)].astype(np.float64), return_counts=True)
    weights = np.exp((values[::-1] - values[-1]) / temperature)
    mass = np.cumsum(weights * counts[::-1])
    return _Levels(temperature, counts[::-1], weights, mass / mass[-1])
