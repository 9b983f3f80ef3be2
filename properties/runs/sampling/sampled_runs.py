"""Every way in which a sampled request can go: the engine is run again from its prefill for each choice of coins.

The operations of a worker are watched. Where it verifies by chance, the coins of the watched request are replaced: all
of their cells are tried in one call, cells of equal outcome are one choice, and a run follows one choice a verify.
``forks_of`` says what one verify can output, and ``seeds_of`` which seeds of a request lead there.
"""

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial
from math import ceil
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from specsim.conformance.backend import Backend
from specsim.conformance.calls import CallsByName
from specsim.conformance.completed import Completed
from specsim.hashing import digest_rows
from specsim.host.sampling import COIN_BITS, FINAL_COLUMN
from specsim.operations import RECORDS
from specsim.operations.derived.signature import name_arguments
from specsim.properties.distribution import (
    EVERYTHING,
    GRID,
    NOTHING,
    PROBES,
    Cell,
    Coins,
    Distribution,
    Outcome,
    enumerate_cells,
)
from specsim.properties.runs.sampling.steered import BLOCKS, TREES, Steered, SteeredBlock, SteeredTree

ScriptedT = TypeVar("ScriptedT", bound="Scripted")

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


COINS, ROWS = "generate_coins", "target_probabilities"

Known = dict[tuple[Hashable, int | None], Forks]
"""What verifies can output, by their drafts and how many tokens of it count."""


@dataclass
class Scripted(CallsByName):
    """Operations of a run that takes some choices.

    ``script`` says which one to take each time; past its end it is the first. ``taken`` and ``widths`` record the
    choices and how many there were; ``weight`` is the exact chance of this run.
    """

    operations: Any
    script: tuple[int, ...]
    taken: list[int] = field(default_factory=list, init=False)
    widths: list[int] = field(default_factory=list, init=False)
    weight: Fraction = field(default=EVERYTHING, init=False)

    def host(self, name: str) -> Callable[..., Any]:
        """Return a function of the host."""
        found: Callable[..., Any] = self.operations.host(name)
        return found

    def choose(self, weights: Sequence[Fraction]) -> int:
        """Return which of some choices is taken."""
        place = self.script[len(self.taken)] if len(self.taken) < len(self.script) else 0
        self.taken.append(place)
        self.widths.append(len(weights))
        self.weight *= weights[place]
        return place


@dataclass
class Watched(Scripted):
    """Operations that steer the coins of the one sampled request of a batch.

    A choice is taken at each verify by chance. ``turns`` has all that there is to say about them; ``known`` keeps the
    choices at verifies that earlier runs reached. With ``counted`` nothing is chosen at other lengths, in the middle of
    a prompt and after an end: what is drawn there is discarded, and choices that differ after the last of them alone
    are one.
    """

    slack: Fraction
    known: Known = field(default_factory=dict)
    counted: range | None = None
    turns: list[Turn] = field(default_factory=list)
    _asked: dict[str, dict[str, Any]] = field(default_factory=dict)

    def call(self, name: str, /, *positional: Any, **named: Any) -> Any:
        """Call an operation; a verify by chance gets chosen coins."""
        if name not in (COINS, ROWS, TREES, BLOCKS):
            return self.operations.call(name, *positional, **named)
        arguments = self._asked[name] = name_arguments(RECORDS[name], positional, named)
        if name == TREES:
            arguments = self._steered(SteeredTree(arguments, self._request(arguments)))
        elif name == BLOCKS:
            rows = self._asked[ROWS]
            arguments = self._steered(SteeredBlock(arguments, rows, self._request(rows)))
        return self.operations.call(name, **arguments)

    @staticmethod
    def _request(arguments: dict[str, Any]) -> int:
        """Return the one request that is sampled."""
        (request,) = np.flatnonzero(arguments["temperature"] > 0).tolist()
        return int(request)

    def _steered(self, verify: Steered) -> dict[str, Any]:
        """Return the arguments of a verify with chosen coins."""
        length = int(self._asked[COINS]["seq_lens"][verify.request]) if COINS in self._asked else 0
        if self.counted is None or length in self.counted:
            left = None if self.counted is None else self.counted.stop - length
            coins = self._choose(self._forks(verify, left), length)
        else:
            coins = np.zeros(verify.num_coins, dtype=np.float32)
        return verify.with_coins(coins)

    def _choose(self, forks: Forks, length: int) -> Coins:
        place = self.choose(forks.weights)
        self.turns.append(Turn(length, forks, place))
        coins: Coins = forks.coins[place]
        return coins

    def _forks(self, verify: Steered, left: int | None) -> Forks:
        """Return what a verify can output; ``left`` is how many tokens of it count, None for all."""
        key = verify.key, left
        if key not in self.known:
            axes = verify.axes()
            coins = enumerate_cells(axes, self.slack, self.slack).coins
            self.known[key] = forks_of(axes, verify.outcomes(self.operations, coins), self.slack, left)
        return self.known[key]


def law_of_runs(operations: Backend | Completed, run: Callable[[Watched], Outcome], slack: Fraction) -> Distribution:
    """Return the exact law of what ``run`` returns, which plays a whole engine on the operations that it gets."""
    return total(all_runs(operations, run, slack))


def all_runs(
    operations: Backend | Completed, run: Callable[[Watched], Outcome], slack: Fraction, counted: range | None = None
) -> list[Run]:
    """Return every way in which ``run`` can go, which plays a whole engine on the operations that it gets."""
    watch = partial(Watched, operations, slack=slack, known={}, counted=counted)
    return [Run(outcome, one.weight, tuple(one.turns)) for outcome, one in every_run(watch, run)]


def every_run(
    make: Callable[[tuple[int, ...]], ScriptedT], run: Callable[[ScriptedT], Outcome]
) -> Iterator[tuple[Outcome, ScriptedT]]:
    """Yield what ``run`` returns on the operations that ``make`` makes of every sequence of choices, and these."""
    pending: list[tuple[int, ...]] = [()]
    while pending:
        script = pending.pop()
        played = make(script)
        yield run(played), played
        for depth in range(len(script), len(played.taken)):
            pending += [(*played.taken[:depth], other) for other in range(1, played.widths[depth])]
