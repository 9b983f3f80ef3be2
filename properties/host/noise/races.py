"""Exact laws of draws that may share their noise: nothing is sampled, and every number is rational.

A race draws token i with weight ``w_i`` as the one that arrives first, at ``E_i / w_i`` for independent exponential
``E_i``: the same as the largest of ``log w_i`` plus Gumbel noise. A coin is a uniform number. Draws of one key see the
same ``E`` or the same coin, those of different keys are independent.
"""

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from types import MappingProxyType

from specsim.properties.distribution import EVERYTHING, NOTHING, Row

Weights = Row


class NoClosedForm(Exception):
    """What a key has decided before leaves a law that is not rational; ``key`` names the noise."""

    def __init__(self, key: Hashable) -> None:
        self.key = key
        super().__init__(f"noise {key} has decided otherwise before")


@dataclass(frozen=True)
class Raced:
    """What a race has shown of its noise: that a token won with these weights."""

    weights: Weights
    winner: int

    def law_again(self, weights: Weights) -> Row:
        """Return the law of another race on the same noise."""
        if weights == self.weights:
            return tuple(EVERYTHING if token == self.winner else NOTHING for token in range(len(weights)))
        return second_race(self.weights, weights, self.winner)


@dataclass(frozen=True)
class Between:
    """What comparisons have shown of a coin: that it lies in ``[low, high)``."""

    low: Fraction = NOTHING
    high: Fraction = EVERYTHING


@dataclass(frozen=True)
class Spent:
    """Two races with different weights were run on one noise; a third has no closed form here."""


@dataclass(frozen=True)
class Noise:
    """What is known of the noise of every key that was read."""

    known: Mapping[Hashable, Raced | Between | Spent] = field(default_factory=lambda: MappingProxyType({}))

    def race(self, key: Hashable, weights: Weights) -> Iterator[tuple[int, Fraction, "Noise"]]:
        """Yield every token that can win, its chance, and what is known then; weights need not add up to 1.

        Raises
        ------
        NoClosedForm
            The key has been a coin, or has run two races with other weights.
        """
        before, total = self.known.get(key), sum(weights, NOTHING)
        shares = tuple(weight / total for weight in weights)
        if before is None:
            law: Row = shares
        elif isinstance(before, Raced):
            law = before.law_again(shares)
        else:
            raise NoClosedForm(key)
        is_known = not isinstance(before, Raced) or before.weights == shares
        for token, chance in enumerate(law):
            if chance:
                yield token, chance, self._with(key, Raced(shares, token) if is_known else Spent())

    def is_below(self, key: Hashable, threshold: Fraction) -> Iterator[tuple[bool, Fraction, "Noise"]]:
        """Yield whether a coin lies below a threshold, with what chance, and what is known then.

        Raises
        ------
        NoClosedForm
            The key has run a race.
        """
        for outcome, chance, noise in self._cut(key, [(1, NOTHING, threshold), (0, threshold, EVERYTHING)]):
            yield bool(outcome), chance, noise

    def pick(self, key: Hashable, weights: Weights) -> Iterator[tuple[int, Fraction, "Noise"]]:
        """Yield every token that a coin can draw by prefix sums of weights, its chance, and what is known then.

        Raises
        ------
        NoClosedForm
            The key has run a race.
        """
        total, start, parts = sum(weights, NOTHING), NOTHING, []
        for token, weight in enumerate(weights):
            parts.append((token, start / total, (start + weight) / total))
            start += weight
        yield from self._cut(key, parts)

    def _cut(
        self, key: Hashable, parts: list[tuple[int, Fraction, Fraction]]
    ) -> Iterator[tuple[int, Fraction, "Noise"]]:
        before = self.known.get(key, Between())
        if not isinstance(before, Between):
            raise NoClosedForm(key)
        for outcome, start, end in parts:
            low, high = max(start, before.low), min(end, before.high)
            if low < high:
                yield outcome, (high - low) / (before.high - before.low), self._with(key, Between(low, high))

    def _with(self, key: Hashable, posterior: Raced | Between | Spent) -> "Noise":
        return Noise({**self.known, key: posterior})


def second_race(first: Weights, second: Weights, winner: int) -> Row:
    """Return the law of a race on noise with which a token won an earlier race with other weights.

    Parameters
    ----------
    first, second : tuple of Fraction
        Weights of the earlier race, which add up to 1, and of this one.
    winner : int
        Who won the earlier race.

    Notes
    -----
    Given that x won at time T, ``E_x = first_x T`` and ``E_i = first_i T + Exp(1)`` for all others. In units of T this
    race has x at ``a_x`` and i from ``a_i`` on, where ``a = first / second``; with F(s) the sum of
    ``second_j (s - a_j)`` over the others whose ``a_j`` lies below s, no other has arrived by s with chance
    ``1 / (1 + F(s))``.
    """
    others = [token for token, weight in enumerate(second) if weight and token != winner]
    starts = {token: first[token] / second[token] for token in others}
    end = first[winner] / second[winner] if second[winner] else None

    def left(time: Fraction | None) -> Fraction:
        if time is None:
            return NOTHING
        return 1 / (1 + sum((second[token] * max(time - starts[token], NOTHING) for token in others), NOTHING))

    law = [NOTHING] * len(second)
    if second[winner]:
        law[winner] = left(end)
    knots = sorted({start for start in starts.values() if end is None or start < end})
    for low, high in zip(knots, [*knots[1:], end], strict=False):
        racing = [token for token in others if starts[token] <= low]
        slope = sum((second[token] for token in racing), NOTHING)
        for token in racing:
            law[token] += second[token] / slope * (left(low) - left(high))
    return tuple(law)


def same_winner(one: Weights, other: Weights) -> Fraction:
    """Return the chance that two races on one noise have the same winner."""
    pairs = [(p, q) for p, q in zip(one, other, strict=True)]
    return sum((1 / sum((max(r / p, s / q) for r, s in pairs), NOTHING) for p, q in pairs if p and q), NOTHING)


def total_variation(got: Mapping[tuple[int, ...], Fraction], expected: Mapping[tuple[int, ...], Fraction]) -> Fraction:
    """Return half the sum of all differences of two laws."""
    return sum((abs(got.get(one, NOTHING) - expected.get(one, NOTHING)) for one in {*got, *expected}), NOTHING) / 2
