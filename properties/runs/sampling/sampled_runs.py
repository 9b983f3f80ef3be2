"""Every way in which a sampled request can go: the engine is run again from its prefill for each choice of coins.

The operations of a worker are watched. Where it verifies by chance, the coins of the watched request are replaced: all
of their cells are tried in one call, cells of equal outcome are one choice, and a run follows one choice a verify.
"""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np

from specsim.conformance.backend import Backend
from specsim.conformance.calls import CallsByName
from specsim.conformance.completed import Completed
from specsim.operations import RECORDS
from specsim.operations.derived.signature import name_arguments
from specsim.properties.distribution import EVERYTHING, Coins, Distribution, Outcome, enumerate_cells
from specsim.properties.runs.sampling.forks import Forks, Run, Turn, forks_of, total
from specsim.properties.runs.sampling.steered import BLOCKS, TREES, Steered, SteeredBlock, SteeredTree

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
    operations: Backend | Completed,
    run: Callable[[Watched], Outcome],
    slack: Fraction,
    counted: range | None = None,
) -> list[Run]:
    """Return every way in which ``run`` can go, which plays a whole engine on the operations that it gets."""
    runs: list[Run] = []
    known: Known = {}

    def play(script: tuple[int, ...]) -> Watched:
        watched = Watched(operations, script, slack, known=known, counted=counted)
        runs.append(Run(run(watched), watched.weight, tuple(watched.turns)))
        return watched

    every_script(play)
    return runs


def every_script(play: Callable[[tuple[int, ...]], Any]) -> None:
    """Play every sequence of choices; ``play`` returns what has ``taken`` and ``widths`` of those that it met."""
    pending: list[tuple[int, ...]] = [()]
    while pending:
        script = pending.pop()
        played = play(script)
        for depth in range(len(script), len(played.taken)):
            pending += [(*played.taken[:depth], other) for other in range(1, played.widths[depth])]
