"""Exact laws of samplers whose randomness is an input: enumerate the cells of their coins and add up exact weights.

A coin is uniform on [0, 1). What a sampler returns is piecewise constant in each of its coins, and the breakpoints
follow from the rows of probabilities, so the outcome is constant on every cell of a product of intervals
``[low, high)``. One request in the middle of each cell, weighted by the exact size of the cell, gives the exact
distribution of the outcomes.

Convention at the edges. Each cell is also tried at its lowest and at its highest coin on the grid of multiples of
2**-24: the lower edge belongs to the cell, the upper edge does not. An implementation with other breakpoints therefore
leaves the outcome of its own cell and is found. Where an edge lies on the grid and the arithmetic is exact, as in the
reference, this decides about every coin on the grid.

An implementation that rounds its sums may decide otherwise within its rounding bound: ``slack`` moves the tried coins
away from edges strictly between 0 and 1 by that much. It never moves the edges 0 and 1, because no rounding lies
between a coin of 0 and a mass of 0; ``slack_at_one`` moves the upper one for implementations whose masses may miss 1.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise, product
from math import ceil, floor, prod

import numpy as np
from numpy.typing import NDArray

from specsim.host.sampling import COIN_BITS

GRID = 2**COIN_BITS
"""Coins are multiples of 1/GRID, which float32 represents exactly."""

PROBES = 3
"""Coins tried in a cell: the lowest, one near the middle, the highest."""

NOTHING = Fraction(0)
EVERYTHING = Fraction(1)

Coins = NDArray[np.float32]
Outcome = tuple[int, ...]
Distribution = dict[Outcome, Fraction]
Row = tuple[Fraction, ...]


@dataclass(frozen=True)
class Cell:
    """An interval ``[low, high)`` of one coin."""

    low: Fraction
    high: Fraction

    @property
    def weight(self) -> Fraction:
        """The chance that the coin falls into it."""
        return self.high - self.low

    def probes(self, slack: Fraction = NOTHING, slack_at_one: Fraction = NOTHING) -> tuple[float, float, float]:
        """Return the lowest, a middle and the highest coin; the middle one three times if slack leaves no others."""
        from_low = slack if self.low > 0 else NOTHING
        from_high = slack if self.high < 1 else slack_at_one
        lowest = ceil((self.low + from_low) * GRID)
        highest = ceil((self.high - from_high) * GRID) - 1
        middle = max(floor((self.low + self.high) / 2 * GRID), ceil(self.low * GRID))
        places = (lowest, middle, highest) if lowest <= middle <= highest else (middle,) * PROBES
        return places[0] / GRID, places[1] / GRID, places[2] / GRID


@dataclass(frozen=True)
class Enumeration:
    """Every cell of a product of coins, and the coins that stand for it.

    ``coins`` float32 [3*cell, coin]: three rows a cell, its lowest, middle and highest corner; ``weights`` one
    exact size a cell.
    """

    coins: Coins
    weights: tuple[Fraction, ...]

    @property
    def middles(self) -> Coins:
        """The coins in the middle of each cell."""
        return self.coins[PROBES // 2 :: PROBES]

    def law_of(self, outcomes: Sequence[Outcome]) -> Distribution:
        """Return the exact distribution of the outcomes, one outcome a row of coins.

        Raises
        ------
        AssertionError
            An outcome is not constant in its cell.
        """
        law: Distribution = {}
        for cell, weight in enumerate(self.weights):
            around = outcomes[cell * PROBES : (cell + 1) * PROBES]
            middle = around[PROBES // 2]
            for place, outcome in enumerate(around):
                if outcome != middle:
                    coins = self.coins[cell * PROBES + place].tolist()
                    raise AssertionError(f"outcome at coins {coins} = {outcome}, but should be {middle} as in its cell")
            law[middle] = law.get(middle, NOTHING) + weight
        return law


def cut(breakpoints: Iterable[Fraction]) -> tuple[Cell, ...]:
    """Return the cells of [0, 1) between breakpoints; those outside it are clipped."""
    edges = sorted({NOTHING, EVERYTHING, *(min(max(point, NOTHING), EVERYTHING) for point in breakpoints)})
    return tuple(Cell(low, high) for low, high in pairwise(edges))


def shares(weights: Sequence[Fraction]) -> list[Fraction]:
    """Return the breakpoints of a draw by prefix sums: each sum as a share of the total; none without weight."""
    total = sum(weights, NOTHING)
    sums = [sum(weights[: place + 1], NOTHING) for place in range(len(weights))]
    return [one / total for one in sums] if total else []


def enumerate_cells(
    axes: Sequence[Sequence[Cell]], slack: Fraction = NOTHING, slack_at_one: Fraction = NOTHING
) -> Enumeration:
    """Return every cell of the product of some coins' cells."""
    probes = [[cell.probes(slack, slack_at_one) for cell in cells] for cells in axes]
    corners = [corner for chosen in product(*probes) for corner in zip(*chosen, strict=True)]
    weights = tuple(prod((cell.weight for cell in cells), start=EVERYTHING) for cells in product(*axes))
    coins = np.array(corners, dtype=np.float32).reshape(PROBES * len(weights), len(axes))
    return Enumeration(coins, weights)


def every_pair(first: Coins, second: Coins) -> Coins:
    """Return each row of the first beside each row of the second, those of the second next to each other."""
    return np.concatenate([np.repeat(first, len(second), axis=0), np.tile(second, (len(first), 1))], axis=1)


def integrate(
    axes: Sequence[Sequence[Cell]], play: Callable[[Coins], Sequence[Outcome]], slack: Fraction = NOTHING
) -> Distribution:
    """Return the exact law of ``play``, which takes coins float32 [request, coin] in one batch.

    Parameters
    ----------
    axes : sequence of sequences of Cell
        The cells of each coin.
    play : callable
        Returns one outcome a row of coins.
    slack : Fraction
        How far from inner edges the coins stay.

    Raises
    ------
    AssertionError
        An outcome is not constant in its cell.
    """
    cells = enumerate_cells(axes, slack)
    return cells.law_of(play(cells.coins))


def extend(law: Mapping[Outcome, Fraction], row_after: Callable[[Outcome], Row], horizon: int) -> Distribution:
    """Let every outcome that is shorter than the horizon go on autoregressively; cut those that are longer."""
    extended: Distribution = {}
    for outcome, weight in law.items():
        for ending, share in autoregressive(row_after, horizon, outcome[:horizon]).items():
            extended[ending] = extended.get(ending, NOTHING) + weight * share
    return extended


def autoregressive(row_after: Callable[[Outcome], Row], horizon: int, start: Outcome = ()) -> Distribution:
    """Return the law of decoding token by token from ``start`` until there are ``horizon`` tokens."""
    law: Distribution = {start: EVERYTHING}
    for _ in range(len(start), horizon):
        longer: Distribution = {}
        for sequence, weight in law.items():
            for token, chance in enumerate(row_after(sequence)):
                if chance:
                    longer[(*sequence, token)] = weight * chance
        law = longer
    return law


def require_same_law(
    what: str, got: Mapping[Outcome, Fraction], expected: Mapping[Outcome, Fraction], suffix: str = ""
) -> None:
    """Raise AssertionError at the first outcome whose probability differs, however little."""
    for outcome in sorted({*got, *expected}):
        one, other = got.get(outcome, NOTHING), expected.get(outcome, NOTHING)
        if one != other:
            raise AssertionError(f"{what}: P{list(outcome)} = {one}, but should be {other}{suffix}")


def exact(values: Iterable[float]) -> Row:
    """Return floats as the fractions that they are."""
    return tuple(Fraction(float(value)) for value in values)
