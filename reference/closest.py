"""How close a decision comes to its boundary: by coins, thresholds, prefix sums and filters."""

from dataclasses import dataclass, field

import numpy as np

from specsim.conformance.arrays import Array
from specsim.contracts.rounding import UNDERFLOW, softmax_bound
from specsim.reference.probabilities import filtered, has_share, softmax
from specsim.reference.walks import PLAIN, Decisions

INFINITE = float("inf")
LARGEST_EXPONENT = 104.0
"""The exponent of a weight beyond it is below the least float32."""


@dataclass
class Closest:
    """The closest decision so far: of those by a coin, of those by ``threshold_single``, and of filters."""

    by_coin: float = INFINITE
    by_threshold: float = INFINITE
    by_filter: float = INFINITE
    decisions: Decisions = field(init=False)

    def __post_init__(self) -> None:
        self.decisions = Decisions(self._is_below, self._is_enough, self._draw)

    def is_share(self, mass: float, share: float, total: float) -> bool:
        """Decide about a share of the mass; a share of nothing, which is above 0, comes before all others."""
        self.by_filter = min(self.by_filter, share, abs(mass / total - share))
        return has_share(mass, share, total)

    def reaches(self, weights: Array, threshold: float) -> Array:
        """Decide about weights; the largest is kept however it is rounded."""
        others = weights[weights < weights.max()]
        self.by_filter = min(self.by_filter, float(np.abs(others / threshold - 1).min(initial=np.inf)))
        return weights >= threshold

    def _is_below(self, one: float, other: float) -> bool:
        self.by_coin = min(self.by_coin, distance(one, other))
        return PLAIN.is_below(one, other)

    def _is_enough(self, probability: float, threshold: float) -> bool:
        self.by_threshold = min(self.by_threshold, distance(probability, threshold))
        return PLAIN.is_enough(probability, threshold)

    def _draw(self, weights: Array, coin: float) -> int:
        token = PLAIN.draw(weights, coin)
        self.by_coin = min(self.by_coin, margin_of_draw(weights, coin, token))
        return token


def distance(one: float, other: float) -> float:
    """Return how far two numbers lie apart, as a share of the larger."""
    return abs(one - other) / max(one, other, UNDERFLOW)


def margin_of_draw(weights: Array, coin: float, token: int) -> float:
    """Return how far the aim of a coin lies from the ends of the token that it drew, as a share of the total."""
    prefix, possible = np.cumsum(weights), np.flatnonzero(weights > 0)
    if not len(possible):
        return INFINITE
    total = prefix[-1]
    upper = (prefix[token] - coin * total) / total if token != possible[-1] else INFINITE
    lower = (coin * total - (prefix[token] - weights[token])) / total if token != possible[0] else INFINITE
    return float(min(abs(upper), abs(lower)))


def margin_of_last(logits: Array, softened: Array, kept: Array) -> float:
    """Return by which share the nearest token of another logit differs from the least probable token that is kept.

    Tokens of equal logits stay together, however they are rounded.
    """
    last = np.flatnonzero(kept)[np.argmin(softened[kept > 0])]
    others = softened[logits != logits[last]].astype(np.float64)
    return float(np.abs(others / softened[last] - 1).min(initial=np.inf))


def margin_of_filters(logits: Array, temperature: float, top_k: int, top_p: float, min_p: float) -> float:
    """Return the margin of one row: that of the closest of its filters."""
    if temperature == 0:
        return INFINITE
    closest, values = Closest(), logits.astype(np.float64)
    softened = softmax(values / temperature)
    rows = filtered(softened, top_k, top_p, min_p, closest.is_share, closest.reaches)
    is_active = (top_k < len(logits), top_p < 1, min_p > 0)
    lasts = [margin_of_last(values, softened, row) for row, active in zip(rows, is_active, strict=True) if active]
    return min([closest.by_filter, *lasts])


def row_bound(logits: Array, temperature: float) -> float:
    """Return how far two correct softmaxes of a row may lie apart."""
    values = logits[np.isfinite(logits)].astype(np.float64)
    widest = float(values.max() - values.min()) / temperature if temperature > 0 else 0.0
    return softmax_bound(len(logits), min(widest, LARGEST_EXPONENT))
