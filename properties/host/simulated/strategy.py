"""Simulated acceptance: means inside and outside the range of a path, and samples of both ways to draw."""

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from specsim.counts import path_width
from specsim.properties.composite import composite

SHARES = 64
"""Means are multiples of one share, so that a grid of as many uniform samples meets them exactly."""


def means() -> SearchStrategy[float]:
    """Return means from below 0 to above the longest path."""
    return st.integers(-2 * SHARES, 9 * SHARES).map(lambda share: share / SHARES)


def expected_draws() -> SearchStrategy[tuple[tuple[float, int], ...]]:
    """Return a strategy of a few means, each with the levels of a draft."""
    one = st.tuples(means(), st.integers(1, 6))
    return st.tuples(one, one, one)


def normal_draws() -> SearchStrategy[tuple[tuple[float, int, float], ...]]:
    """Return a strategy of means, levels of a draft and standard normal samples: any, and such that sum to a path."""
    anything = st.tuples(means(), st.integers(1, 6), st.floats(-6, 6, allow_nan=False))
    return st.tuples(anything, anything, _sums_on_a_path(), _sums_on_a_path(), _sums_on_a_path())


@composite
def _sums_on_a_path(draw: DrawFn) -> tuple[float, int, float]:
    """Draw a mean and a sample whose sum lies among the counts of a path, mostly between two of them."""
    num_steps = draw(st.integers(1, 6))
    aimed = draw(st.integers(SHARES, path_width(num_steps) * SHARES))
    mean = draw(st.integers(max(1, aimed - 3 * SHARES), aimed + 3 * SHARES))
    return mean / SHARES, num_steps, (aimed - mean) / SHARES
