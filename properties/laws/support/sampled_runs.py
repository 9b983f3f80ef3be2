"""Every way in which a sampled request can go: the engine is run again from its prefill for each choice of coins.

The operations of a worker are watched. Where it verifies by chance, the coins of the watched request are replaced: all
of their cells are tried in one call, cells of equal outcome are one choice, and a run follows one choice a verify.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from math import isinf
from typing import Any

import numpy as np

from specsim.conformance.backend import Backend
from specsim.conformance.calls import CallsByName
from specsim.conformance.completed import Completed
from specsim.operations import RECORDS
from specsim.operations.signature import name_arguments
from specsim.properties.distribution import EVERYTHING, Coins, Distribution, Outcome, enumerate_cells
from specsim.properties.laws.support.forks import Forks, Run, Turn, forks_of, total
from specsim.properties.laws.support.sampling_cells import emitted_along_paths, tree_axes
from specsim.properties.strategies.logit_scenes import Filters, exact_row
from specsim.properties.strategies.sampling_scenes import TreeScene
from specsim.topology import Topology

WATCHED = "verify_tree_sampled_from_logits"
COINS = "generate_coins"
OF_REQUESTS = (
    "candidates",
    "retrieve_next_token",
    "retrieve_next_sibling",
    "temperature",
    "top_k",
    "top_p",
    "min_p",
    "threshold_single",
    "threshold_acc",
)


Known = dict[tuple[TreeScene, int | None], Forks]
"""What verifies can come to, by their tree and how many tokens of it count."""


@dataclass
class Watched(CallsByName):
    """Operations that steer the coins of the one sampled request of a batch.

    ``script`` says which choice to take at each verify by chance; past its end it is the first. ``taken`` and
    ``widths`` record the choices and how many there were, ``turns`` all that there is to say about them; ``weight`` is
    the exact chance of this run; ``known`` keeps the choices at verifies that earlier runs came to. With ``counted``
    nothing is chosen at other lengths, in the middle of a prompt and after an end: what is drawn there is discarded,
    and choices that differ after the last of them alone are one.
    """

    operations: Backend | Completed
    script: tuple[int, ...]
    slack: Fraction
    taken: list[int] = field(default_factory=list)
    widths: list[int] = field(default_factory=list)
    weight: Fraction = EVERYTHING
    known: Known = field(default_factory=dict)
    counted: range | None = None
    turns: list[Turn] = field(default_factory=list)
    _lengths: Any = None

    def call(self, name: str, /, *positional: Any, **named: Any) -> Any:
        """Call an operation; a verify by chance gets chosen coins."""
        if name == WATCHED:
            arguments = name_arguments(RECORDS[WATCHED], positional, named)
            return self.operations.call(name, **self._steered(arguments))
        if name == COINS:
            self._lengths = name_arguments(RECORDS[COINS], positional, named)["seq_lens"]
        return self.operations.call(name, *positional, **named)

    def host(self, name: str) -> Callable[..., Any]:
        """Return a function of the host."""
        return self.operations.host(name)

    def _steered(self, arguments: dict[str, Any]) -> dict[str, Any]:
        (request,) = np.flatnonzero(arguments["temperature"] > 0).tolist()
        length = 0 if self._lengths is None else int(self._lengths[request])
        if self.counted is None or length in self.counted:
            left = None if self.counted is None else self.counted.stop - length
            coins = self._choose(self._forks(arguments, request, left), length)
        else:
            coins = np.zeros(arguments["uniform_samples"].shape[1] + 1, dtype=np.float32)
        steered = dict(arguments)
        for name in ("uniform_samples", "uniform_samples_for_final_sampling"):
            steered[name] = arguments[name].copy()
        steered["uniform_samples"][request] = coins[:-1]
        steered["uniform_samples_for_final_sampling"][request] = coins[-1]
        return steered

    def _choose(self, forks: Forks, length: int) -> Coins:
        place = self.script[len(self.taken)] if len(self.taken) < len(self.script) else 0
        self.taken.append(place)
        self.widths.append(len(forks.outcomes))
        self.weight *= forks.weights[place]
        self.turns.append(Turn(length, forks, place))
        coins: Coins = forks.coins[place]
        return coins

    def _forks(self, arguments: dict[str, Any], request: int, left: int | None) -> Forks:
        """Return what a verify can come to; ``left`` is how many tokens of it count, None for all."""
        key = scene_of(arguments, request), left
        if key not in self.known:
            axes = tree_axes(key[0])
            coins = enumerate_cells(axes, self.slack, self.slack).coins
            self.known[key] = forks_of(
                axes, emitted_along_paths(self._alone(arguments, request, coins)), self.slack, left
            )
        return self.known[key]

    def _alone(self, arguments: dict[str, Any], request: int, coins: Coins) -> dict[str, Any]:
        """Verify one request of a batch by itself, once a row of coins."""
        count, num_nodes = len(coins), arguments["candidates"].shape[1]
        case = {**arguments, **{name: np.repeat(arguments[name][[request]], count, axis=0) for name in OF_REQUESTS}}
        case["retrieve_index"] = np.arange(count * num_nodes, dtype=np.int64).reshape(count, num_nodes)
        case["logits"] = np.tile(arguments["logits"][request * num_nodes : (request + 1) * num_nodes], (count, 1))
        case["uniform_samples"] = np.ascontiguousarray(coins[:, :-1])
        case["uniform_samples_for_final_sampling"] = np.ascontiguousarray(coins[:, -1])
        outputs: dict[str, Any] = self.operations.call(WATCHED, **case)._asdict()
        return outputs


def scene_of(arguments: dict[str, Any], request: int) -> TreeScene:
    """Read the tree of one request, with the exact rows of its whole-number logits; -inf forbids a token."""
    num_nodes = arguments["candidates"].shape[1]
    links = (arguments[name][request] for name in ("retrieve_next_token", "retrieve_next_sibling"))
    logits = arguments["logits"][request * num_nodes : (request + 1) * num_nodes]
    whole = [tuple(None if isinf(logit) else int(logit) for logit in row) for row in logits.tolist()]
    rows = [exact_row(row, Filters()) for row in whole]
    return TreeScene(
        topology=Topology.from_links(*links),
        tokens=tuple(arguments["candidates"][request].tolist()),
        rows=tuple(row for row in rows if row is not None),
        num_steps=int(arguments["num_steps"]),
    )


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
