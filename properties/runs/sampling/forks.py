"""What one verify by chance can output, and which seeds of a request lead there."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil

import numpy as np
from numpy.typing import NDArray

from specsim.hashing import digest_rows
from specsim.host.sampling import COIN_BITS, FINAL_COLUMN
from specsim.properties.distribution import GRID, NOTHING, PROBES, Cell, Coins, Outcome, enumerate_cells

NEITHER = -1
"""The place of coins so near an edge that an implementation which rounds may decide either way."""

NUM_SEEDS = 1 << 16
"""Seeds among which one is looked for; the rarest run of three tokens takes a few hundred."""


@dataclass(frozen=True)
class Forks:
    """The outcomes of a verify in order, with the exact chance of each and coins that lead to it.

    Parameters
    ----------
    axes : sequence of sequences of Cell
        The cells of each coin.
    place_of_cell : int64 [cell]
        The outcome in each cell of their product.
    coins : float32 [outcome, coin]
        One choice for each.
    slack : Fraction
        How near an edge coins decide nothing.
    """

    axes: tuple[tuple[Cell, ...], ...]
    outcomes: tuple[Outcome, ...]
    weights: tuple[Fraction, ...]
    place_of_cell: NDArray[np.int64]
    coins: Coins
    slack: Fraction

    def places(self, coins: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return which outcome coins lead to, int64 [row], or NEITHER.

        Parameters
        ----------
        coins : int64 [row, coin]
            In units of the grid.
        """
        cell = np.zeros(len(coins), dtype=np.int64)
        is_clear = np.ones(len(coins), dtype=np.bool_)
        for column, cells in zip(coins.T, self.axes, strict=True):
            lows = np.array([ceil((one.low + (self.slack if one.low else NOTHING)) * GRID) for one in cells])
            highs = np.array([ceil((one.high - self.slack) * GRID) for one in cells])
            exact = np.array([ceil(one.low * GRID) for one in cells])
            place = np.searchsorted(exact, column, side="right") - 1
            is_clear &= (column >= lows[place]) & (column < highs[place])
            cell = cell * len(cells) + place
        return np.where(is_clear, self.place_of_cell[cell], NEITHER)


@dataclass(frozen=True)
class Turn:
    """A verify of a run: at which length, what it could output, and what it did output."""

    seq_len: int
    forks: Forks
    place: int


@dataclass(frozen=True)
class Run:
    """One way in which a sampled request can go, with its exact chance."""

    outcome: Outcome
    weight: Fraction
    turns: tuple[Turn, ...]

    @property
    def num_accepted_drafts(self) -> int:
        """Drafts that its verifies accepted."""
        return sum(len(turn.forks.outcomes[turn.place]) - 1 for turn in self.turns)


def forks_of(
    axes: Sequence[Sequence[Cell]], outcomes: Sequence[Outcome], slack: Fraction, left: int | None = None
) -> Forks:
    """Return what came of every cell of some coins, each tried at the corners of ``enumerate_cells``.

    Of outcomes that begin with the same ``left`` tokens one stands for all, that which goes on for longest.

    Raises
    ------
    AssertionError
        An outcome is not constant in its cell.
    """
    cells = enumerate_cells(axes, slack, slack)
    chances = cells.law_of(outcomes)
    law: dict[Outcome, Fraction] = {}
    longest: dict[Outcome, Outcome] = {}
    for outcome, chance in sorted(chances.items()):
        law[outcome[:left]] = law.get(outcome[:left], NOTHING) + chance
        longest[outcome[:left]] = max(longest.get(outcome[:left], outcome), outcome, key=len)
    places = {outcome: place for place, outcome in enumerate(law)}
    middles = outcomes[PROBES // 2 :: PROBES]
    return Forks(
        axes=tuple(map(tuple, axes)),
        outcomes=tuple(law),
        weights=tuple(law.values()),
        place_of_cell=np.array([places[outcome[:left]] for outcome in middles], dtype=np.int64),
        coins=cells.coins[[outcomes.index(outcome) for outcome in longest.values()]],
        slack=slack,
    )


def coins_of(seeds: NDArray[np.int64], seq_len: int, num_nodes: int) -> NDArray[np.int64]:
    """Return the coins of a verify for each seed in units of the grid, int64 [seed, node+final] (semantics B.9)."""
    columns = np.array([*range(num_nodes), FINAL_COLUMN], dtype=np.int64)
    words = np.broadcast_arrays(seeds[:, None], np.int64(seq_len), columns)
    return digest_rows(np.stack(words, axis=-1)) >> (32 - COIN_BITS)


def seeds_of(runs: Sequence[Run]) -> list[int]:
    """Return for each run the first seed whose coins lead there.

    Raises
    ------
    AssertionError
        There is none among ``NUM_SEEDS``.
    """
    left: dict[tuple[int, ...], NDArray[np.int64]] = {(): np.arange(NUM_SEEDS, dtype=np.int64)}
    found = []
    for run in runs:
        before: tuple[int, ...] = ()
        for turn in run.turns:
            script = (*before, turn.place)
            if script not in left:
                seeds = left[before]
                places = turn.forks.places(coins_of(seeds, turn.seq_len, len(turn.forks.axes) - 1))
                left |= {(*before, place): seeds[places == place] for place in range(len(turn.forks.outcomes))}
            before = script
        if not left[before].size:
            raise AssertionError(f"seeds that lead to {list(run.outcome)} = none, but should be 1 of {NUM_SEEDS:,}")
        found.append(int(left[before][0]))
    return found


def total(runs: Sequence[Run]) -> dict[Outcome, Fraction]:
    """Return the law that runs have together."""
    law: dict[Outcome, Fraction] = {}
    for run in runs:
        law[run.outcome] = law.get(run.outcome, NOTHING) + run.weight
    return law
