"""Exact laws of small trees by the reference and by planted faults, and their walks by given coins."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from math import lcm
from typing import Any

import numpy as np

from specsim.conformance.backend import Backend, load
from specsim.properties.distribution import (
    NOTHING,
    Cell,
    Coins,
    Distribution,
    Outcome,
    Row,
    cut,
    integrate,
    shares,
)
from specsim.properties.host.noise.races import total_variation
from specsim.properties.laws.sampling_cells import (
    TREE_SAMPLER,
    children_by_token,
    coin_arguments,
    play_trees,
    residual,
    tree_case,
    walk_law,
)
from specsim.properties.mutants import all_mutants
from specsim.properties.strategies.sampling_scenes import TreeScene
from specsim.properties.suite.live.figures import Table, headline, html_table, law_in_words
from specsim.topology import Topology

PARTS = 4
"""Probabilities of the tables are multiples of 1/PARTS."""

TREES = {
    "two branches": ((-1, 0, 0, 1, 2), (0, 0, 1, 1, 2)),
    "one branch": ((-1, 0, 0, 1, 1), (0, 0, 1, 1, 2)),
    "equal siblings": ((-1, 0, 0, 0), (0, 0, 0, 1)),
    "chain": ((-1, 0, 1), (0, 1, 0)),
}
"""The parents of a tree's nodes, and their tokens."""

ROWS = ((2, 1, 1), (1, 1, 2), (0, 2, 2), (1, 2, 1), (1, 3, 0), (1, 0, 3))
NUM_SETS = 2
"""Rows in parts, of which each tree has some in turn, and how many sets of them a tree has."""

PARENTS, CHILDREN, NODES = "parents", "children", "nodes"
"""Whose coins a walk reads: of the nodes that have children, of all but the root, of all; and mostly the last one."""

FAULTS = {
    "V01": NODES,
    "V28": PARENTS,
    "SYN5": PARENTS,
    "SYN6": PARENTS,
    "OWN-253": PARENTS,
    "OWN-250": CHILDREN,
    "OWN-275": PARENTS,
    "OWN-261": PARENTS,
    "OWN-292": PARENTS,
    "OWN-260": PARENTS,
}
"""Planted faults in the sampler of trees, and whose coins their walks read; who reads those of all nodes draws by them.
"""

NUM_COINS, COIN_PARTS = 12, 64
"""Walks of each tree that the tables hold, and the parts in which their coins are given."""


@dataclass(frozen=True)
class Sampler:
    """A sampler of trees.

    Parameters
    ----------
    backend : Backend
        What defines it.
    summary : str
        What is wrong, empty for the reference.
    reads : str
        Whose coins it reads.
    """

    backend: Backend
    summary: str = ""
    reads: str = PARENTS


@cache
def samplers() -> dict[str, Sampler]:
    """Return the reference, under no name, and each fault planted in it, by its number."""
    reference = load("specsim.reference")
    mutants = {mutant.id: mutant for mutant in all_mutants()}
    planted = {one: Sampler(mutants[one].plant(reference), mutants[one].summary, FAULTS[one]) for one in FAULTS}
    return {"": Sampler(reference), **planted}


def scenes() -> Iterator[tuple[str, TreeScene]]:
    """Yield every tree of the tables by name, each with every set of its rows; equal prefixes have equal rows."""
    for name, (parents, tokens) in TREES.items():
        topology = Topology.from_parents(parents)
        prefixes = [tuple(tokens[node] for node in topology.path_to(place)[1:]) for place in range(len(topology))]
        for first in range(NUM_SETS):
            parts = [ROWS[(prefixes.index(prefix) + 2 * first) % len(ROWS)] for prefix in prefixes]
            rows: tuple[Row, ...] = tuple(tuple(Fraction(part, PARTS) for part in row) for row in parts)
            yield name, TreeScene(topology, tokens, rows, max(topology.depths))


def exact_law(sampler: Sampler, scene: TreeScene) -> Distribution:
    """Return the law of what a sampler emits, over cells on which any of its walks has one outcome.

    Raises
    ------
    AssertionError
        A walk has several outcomes in one cell: it decides otherwise than by shares of a row.
    """

    def play(coins: Coins) -> Sequence[Outcome]:
        return play_trees(sampler.backend, [scene], [coins])[0]

    return integrate([*_axes_of_nodes(sampler, scene), _axis_of_last(sampler, scene)], play)


def _axes_of_nodes(sampler: Sampler, scene: TreeScene) -> Iterator[tuple[Cell, ...]]:
    """Yield the cells of each node's coin: between the masses that it may be compared with, and what it may draw."""
    masses = [Fraction(part, _parts_of(scene)) for part in range(_parts_of(scene))]
    for node, children in enumerate(scene.topology.children):
        is_read = {PARENTS: bool(children), CHILDREN: node > 0, NODES: True}[sampler.reads]
        yield cut([*masses, *shares(residual(scene, node))] if is_read else [])


def _axis_of_last(sampler: Sampler, scene: TreeScene) -> tuple[Cell, ...]:
    """Return the cells of the last coin: it draws in proportion to entries of a row, all of them or some."""
    totals = range(1, 1 if sampler.reads == NODES else _parts_of(scene) + 1)
    return cut(Fraction(part, total) for total in totals for part in range(total))


def _parts_of(scene: TreeScene) -> int:
    """Return the parts of 1 that all probabilities are multiples of."""
    return lcm(*(share.denominator for row in scene.rows for share in row))


def completed(scene: TreeScene, law: Distribution) -> Distribution:
    """Return a law whose outputs go on by the target's rows until they leave the tree."""
    longer: Distribution = {}
    for output, chance in law.items():
        node = _node_of(scene, output)
        endings = {output: chance} if node is None else walk_law(scene, node, output, chance)
        for sequence, share in endings.items():
            longer[sequence] = longer.get(sequence, NOTHING) + share
    return longer


def _node_of(scene: TreeScene, output: Outcome) -> int | None:
    """Return the node that an output leads to; None where it has left the tree."""
    node = 0
    for token in output:
        children = children_by_token(scene, node)
        if token not in children:
            return None
        node = children[token]
    return node


def bias_of(scene: TreeScene, law: Distribution) -> Fraction:
    """Return how far the tokens that come out lie from the target's, in total variation."""
    return total_variation(completed(scene, law), walk_law(scene))


def walks(sampler: Sampler, scene: TreeScene, coins: Coins) -> list[tuple[list[int], list[int]]]:
    """Return the accepted nodes, root first, and the output tokens for each row of coins."""
    case = {**tree_case([scene], [len(coins)]), **coin_arguments([coins])}
    outputs: dict[str, Any] = sampler.backend.run(TREE_SAMPLER, case).outputs
    found = []
    for request, row in enumerate(outputs["accept_index"].tolist()):
        path = [place for place in row if place >= 0]
        first = request * len(scene.topology)
        found.append(([place - first for place in path], outputs["predict"][path].tolist()))
    return found


def some_coins(scene: TreeScene) -> np.ndarray[tuple[int, int], np.dtype[np.int64]]:
    """Return coins in parts of COIN_PARTS, a row a walk: of each node, and the last one."""
    size = (NUM_COINS, len(scene.topology) + 1)
    return np.random.default_rng(len(scene.topology)).integers(0, COIN_PARTS, size)


def table() -> Table:
    """Return the exact laws and some walks of every tree by every sampler."""
    entries = []
    for name, scene in scenes():
        parts = some_coins(scene)
        coins = (parts / COIN_PARTS).astype(np.float32)
        by_sampler = {}
        for number, sampler in samplers().items():
            law = exact_law(sampler, scene)
            by_sampler[number] = {
                "law": law_in_words(law),
                "bias": headline(bias_of(scene, law)),
                "walks": walks(sampler, scene, coins),
            }
        entries.append(
            {
                "tree": name,
                "rows": [[str(share) for share in row] for row in scene.rows],
                "target": law_in_words(walk_law(scene)),
                "coins": parts.tolist(),
                "samplers": by_sampler,
            }
        )
    facts = {number: {"summary": one.summary, "reads": one.reads} for number, one in samplers().items()}
    trees = {name: {"parents": parents, "tokens": tokens} for name, (parents, tokens) in TREES.items()}
    return {"trees": trees, "samplers": facts, "coinParts": COIN_PARTS, "scenes": entries}


def html(entries: Table) -> str:
    """Return the bias of every sampler on every tree, with its first rows."""
    first = {entry["tree"]: entry for entry in reversed(entries["scenes"])}
    rows = [
        [
            f"{number} {facts['summary']}" if number else "The reference.",
            *(first[name]["samplers"][number]["bias"]["exact"] for name in TREES),
        ]
        for number, facts in entries["samplers"].items()
    ]
    return html_table("Total variation of what comes out, on the first rows of each tree", ["sampler", *TREES], rows)
