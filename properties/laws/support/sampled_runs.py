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

from specsim.conformance.backend import Backend, Completed
from specsim.conformance.calls import CallsByName
from specsim.operations import RECORDS
from specsim.operations.signature import name_arguments
from specsim.properties.distribution import (
    EVERYTHING,
    NOTHING,
    Coins,
    Distribution,
    Enumeration,
    Outcome,
    enumerate_cells,
)
from specsim.properties.laws.support.sampling_cells import emitted_along_paths, tree_axes
from specsim.properties.strategies.logit_scenes import Filters, exact_row
from specsim.properties.strategies.sampling_scenes import TreeScene
from specsim.topology import Topology

WATCHED = "verify_tree_sampled_from_logits"
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


Choices = list[tuple[Coins, Fraction]]
"""Coins that lead to each outcome of a verify, and its exact chance."""


@dataclass
class Watched(CallsByName):
    """Operations that steer the coins of the one sampled request of a batch.

    ``script`` says which choice to take at each verify by chance; past its end it is the first. ``taken`` and
    ``widths`` record the choices and how many there were; ``weight`` is the exact chance of this run; ``known`` keeps
    the choices at verifies that earlier runs came to.
    """

    operations: Backend | Completed
    script: tuple[int, ...]
    slack: Fraction
    taken: list[int] = field(default_factory=list)
    widths: list[int] = field(default_factory=list)
    weight: Fraction = EVERYTHING
    known: dict[TreeScene, Choices] = field(default_factory=dict)

    def call(self, name: str, /, *positional: Any, **named: Any) -> Any:
        """Call an operation; a verify by chance gets chosen coins."""
        if name == WATCHED:
            arguments = name_arguments(RECORDS[WATCHED], positional, named)
            return self.operations.call(name, **self._steered(arguments))
        return self.operations.call(name, *positional, **named)

    def host(self, name: str) -> Callable[..., Any]:
        """Return a function of the host."""
        return self.operations.host(name)

    def _steered(self, arguments: dict[str, Any]) -> dict[str, Any]:
        (request,) = np.flatnonzero(arguments["temperature"] > 0).tolist()
        scene = scene_of(arguments, request)
        if scene not in self.known:
            cells = enumerate_cells(tree_axes(scene), self.slack, self.slack)
            self.known[scene] = self._choices(arguments, request, cells)
        choices = self.known[scene]
        place = self.script[len(self.taken)] if len(self.taken) < len(self.script) else 0
        coins, weight = choices[place]
        self.taken.append(place)
        self.widths.append(len(choices))
        self.weight *= weight
        steered = dict(arguments)
        for name in ("uniform_samples", "uniform_samples_for_final_sampling"):
            steered[name] = arguments[name].copy()
        steered["uniform_samples"][request] = coins[:-1]
        steered["uniform_samples_for_final_sampling"][request] = coins[-1]
        return steered

    def _choices(self, arguments: dict[str, Any], request: int, cells: Enumeration) -> Choices:
        """Return, for every outcome that can occur, coins that lead to it and its exact chance."""
        outcomes = emitted_along_paths(self._alone(arguments, request, cells.coins))
        law = cells.law_of(outcomes)
        return [(cells.coins[outcomes.index(outcome)], weight) for outcome, weight in sorted(law.items())]

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
    law: Distribution = {}
    pending: list[tuple[int, ...]] = [()]
    known: dict[TreeScene, Choices] = {}
    while pending:
        watched = Watched(operations, pending.pop(), slack, known=known)
        outcome = run(watched)
        law[outcome] = law.get(outcome, NOTHING) + watched.weight
        for depth in range(len(watched.script), len(watched.taken)):
            pending += [(*watched.taken[:depth], other) for other in range(1, watched.widths[depth])]
    return law
