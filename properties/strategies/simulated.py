"""Simulated acceptance: means inside and outside the range of a path, and samples of both ways to draw."""

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

SHARES = 64
"""Means are multiples of one share, so that a grid of as many uniform samples meets them exactly."""


def means() -> SearchStrategy[float]:
    """Return means from below 0 to above the longest path."""
    return st.integers(-2 * SHARES, 9 * SHARES).map(lambda share: share / SHARES)


def expected_draws() -> SearchStrategy[tuple[float, int]]:
    """Return a mean and the levels of a draft."""
    return st.tuples(means(), st.integers(1, 6))


def normal_draws() -> SearchStrategy[tuple[float, int, float]]:
    """Return a mean, the levels of a draft, and a standard normal sample."""
    return st.tuples(means(), st.integers(1, 6), st.floats(-6, 6, allow_nan=False))
