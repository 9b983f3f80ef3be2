"""Small scenes for exact laws: trees of up to five nodes and short chains, with rows of eighths.

Rows are dyadic, so that float32 holds them exactly and rational arithmetic has nothing to round.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache
from itertools import product

import numpy as np
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from specsim.properties.composite import composite
from specsim.properties.distribution import Outcome, Row
from specsim.properties.strategies.arrays import Bulk, bulk
from specsim.properties.strategies.limits import limits
from specsim.topology import Topology

PARTS = 8
MAX_NODES = 5
VOCABULARIES = (2, 3, 4)
ROW_KINDS = ("any", "any", "any", "one-hot", "broad")
PROPOSALS = ("any", "any", "equal to the target", "one-hot", "certain")


@dataclass(frozen=True)
class TreeScene:
    """One request of the tree sampler.

    ``tokens`` holds one a node, ``rows`` the target's exact distribution after each node.
    """

    topology: Topology
    tokens: tuple[int, ...]
    rows: tuple[Row, ...]
    num_steps: int

    @property
    def vocab_size(self) -> int:
        """Tokens of a row."""
        return len(self.rows[0])


@dataclass(frozen=True)
class ChainScene:
    """One request of the chain sampler, whatever it may draft.

    Parameters
    ----------
    num_drafts : int
        Length of the draft.
    target, proposal : dict
        Exact rows by the tokens before them; the target has a row after the last draft too.
    certain : tuple of int or None
        A draft that was not drawn; then ``proposal`` is empty.
    num_padding : int
        Entries of -1 after the draft.
    """

    num_drafts: int
    target: dict[Outcome, Row]
    proposal: dict[Outcome, Row]
    certain: Outcome | None = None
    num_padding: int = 0

    @property
    def vocab_size(self) -> int:
        """Tokens of a row."""
        return len(self.target[()])

    def drafts(self) -> list[tuple[Outcome, Fraction]]:
        """Return every draft that can be drawn, with its chance."""
        if self.certain is not None:
            return [(self.certain, Fraction(1))]
        found: list[tuple[Outcome, Fraction]] = [((), Fraction(1))]
        for _ in range(self.num_drafts):
            found = [
                ((*draft, token), chance * share)
                for draft, chance in found
                for token, share in enumerate(self.proposal[draft])
                if share
            ]
        return found


@cache
def all_rows(vocab_size: int, parts: int = PARTS) -> tuple[Row, ...]:
    """Return every distribution whose probabilities are multiples of ``1/parts``."""
    counts = product(range(parts, -1, -1), repeat=vocab_size)
    return tuple(tuple(Fraction(count, parts) for count in one) for one in counts if sum(one) == parts)


@cache
def rows_of_kind(vocab_size: int, kind: str) -> tuple[Row, ...]:
    """Return the rows of a kind; a broad row leaves every token possible."""
    fewest = {"any": 1, "one-hot": 1, "broad": vocab_size}[kind]
    most = 1 if kind == "one-hot" else vocab_size
    return tuple(row for row in all_rows(vocab_size) if fewest <= sum(share > 0 for share in row) <= most)


def pick_row(source: Bulk, vocab_size: int, kind: str) -> Row:
    """Return one row of a kind."""
    rows = rows_of_kind(vocab_size, kind)
    return rows[source.integer(0, len(rows) - 1)]


def all_shapes(max_nodes: int = MAX_NODES) -> Iterator[Topology]:
    """Yield every tree of up to so many nodes, parents before children and siblings ascending."""
    for count in range(1, max_nodes + 1):
        for above in product(*(range(node) for node in range(1, count))):
            yield Topology.from_parents((-1, *above))


def draft_tokens(source: Bulk, topology: Topology, vocab_size: int) -> tuple[int, ...]:
    """Return a token a node, distinct among siblings as long as the vocabulary allows it."""
    orders = [source.order(vocab_size) for _ in range(len(topology))]
    tokens = [source.integer(0, vocab_size - 1)]
    for node, parent in list(enumerate(topology.parents))[1:]:
        place = topology.children[parent].index(node)
        tokens.append(int(orders[parent][place % vocab_size]))
    return tuple(tokens)


def make_tree(source: Bulk, topology: Topology, vocab_size: int, kind: str = "any", *, cut_steps: int = 0) -> TreeScene:
    """Return a scene on a given shape; with ``cut_steps`` the walk ends that much above the deepest node."""
    tokens = draft_tokens(source, topology, vocab_size)
    rows = tuple(pick_row(source, vocab_size, kind) for _ in tokens)
    return TreeScene(topology, tokens, rows, num_steps=max(max(topology.depths) - cut_steps, 0))


@composite
def tree_scenes(draw: DrawFn, num_nodes: int | None = None, vocab_size: int | None = None) -> TreeScene:
    """Draw a tree with distinct siblings where the vocabulary allows it."""
    shapes = [shape for shape in all_shapes() if num_nodes is None or len(shape) == num_nodes]
    topology = draw(st.sampled_from(shapes))
    vocab = draw(st.sampled_from(VOCABULARIES)) if vocab_size is None else vocab_size
    cut_steps = draw(st.sampled_from((0, 0, 0, 1)))
    return make_tree(draw(bulk()), topology, vocab, draw(st.sampled_from(ROW_KINDS)), cut_steps=cut_steps)


@composite
def twin_scenes(draw: DrawFn) -> TreeScene:
    """Draw a tree in which any token may stand at any node; where a node has two children, two of them are equal.

    The target can go on to that node, and has both alternatives there.
    """
    scene = draw(tree_scenes())
    tokens = [draw(st.integers(0, scene.vocab_size - 1)) for _ in scene.tokens]
    forks = [node for node, below in enumerate(scene.topology.children) if len(below) > 1]
    if not forks:
        return replace(scene, tokens=tuple(tokens))
    node, source = draw(st.sampled_from(forks)), draw(bulk())
    first, second = source.order(len(scene.topology.children[node]))[:2]
    tokens[scene.topology.children[node][second]] = tokens[scene.topology.children[node][first]]
    rows = list(scene.rows)
    for above in scene.topology.path_to(node):
        rows[above] = pick_row(source, scene.vocab_size, "broad")
    return replace(scene, tokens=tuple(tokens), rows=tuple(rows))


@composite
def tree_batches(draw: DrawFn) -> list[TreeScene]:
    """Draw a few trees of one size over one vocabulary, with one depth."""
    num_nodes, vocab_size = draw(st.integers(2, 4)), draw(st.sampled_from(VOCABULARIES))
    scenes = draw(st.lists(tree_scenes(num_nodes, vocab_size), min_size=2, max_size=3))
    deepest = max(scene.num_steps for scene in scenes)
    return [replace(scene, num_steps=deepest) for scene in scenes]


@composite
def repeated_stars(draw: DrawFn) -> tuple[TreeScene, int, int]:
    """Draw a root whose children all have one token; return the scene, the token and how many there are."""
    vocab_size, copies = draw(st.sampled_from(VOCABULARIES)), draw(st.integers(1, MAX_NODES - 1))
    scene = make_tree(
        draw(bulk()), Topology.from_parents((-1, *([0] * copies))), vocab_size, draw(st.sampled_from(ROW_KINDS))
    )
    token = draw(st.integers(0, vocab_size - 1))
    return replace(scene, tokens=(0, *([token] * copies))), token, copies


def make_chain(
    source: Bulk, num_drafts: int, vocab_size: int, kind: str, proposal: str, padding: int = 0
) -> ChainScene:
    """Return a chain whose every row is drawn, target and proposal each for every prefix."""
    prefixes = [prefix for length in range(num_drafts + 1) for prefix in product(range(vocab_size), repeat=length)]
    target = {prefix: pick_row(source, vocab_size, kind) for prefix in prefixes}
    if proposal == "certain":
        draft = tuple(source.integer(0, vocab_size - 1) for _ in range(num_drafts))
        return ChainScene(num_drafts, target, {}, draft, padding)
    shorter = [prefix for prefix in prefixes if len(prefix) < num_drafts]
    of_kind = {"any": "any", "one-hot": "one-hot"}.get(proposal)
    rows = {prefix: pick_row(source, vocab_size, of_kind) if of_kind else target[prefix] for prefix in shorter}
    return ChainScene(num_drafts, target, rows, None, padding if limits().takes_padded_proposals else 0)


def longest_chain(vocab_size: int) -> int:
    """Return how many drafts a chain may have before its prefixes become many."""
    return {2: 4, 3: 3, 4: 2}[vocab_size]


@composite
def chain_scenes(
    draw: DrawFn, vocab_size: int | None = None, is_certain: bool | None = None, most_drafts: int = 4
) -> ChainScene:
    """Draw a chain of no to four drafts; ``is_certain`` fixes whether its drafts were drawn."""
    vocab = draw(st.sampled_from(VOCABULARIES)) if vocab_size is None else vocab_size
    kinds = [kind for kind in PROPOSALS if is_certain is None or (kind == "certain") == is_certain]
    source, num_drafts = draw(bulk()), draw(st.integers(0, min(longest_chain(vocab), most_drafts)))
    kind, proposal = draw(st.sampled_from(ROW_KINDS)), draw(st.sampled_from(kinds))
    return make_chain(source, num_drafts, vocab, kind, proposal, draw(st.sampled_from((0, 0, 1))))


@composite
def chain_batches(draw: DrawFn) -> list[ChainScene]:
    """Draw chains of different lengths over one vocabulary; either all drafts were drawn or none."""
    one = chain_scenes(draw(st.sampled_from(VOCABULARIES[:2])), draw(st.sampled_from((False, False, True))), 2)
    return draw(st.lists(one, min_size=1, max_size=3))


def row_array(row: Row) -> np.ndarray[tuple[int], np.dtype[np.float32]]:
    """Return a row in float32."""
    return np.array([float(share) for share in row], dtype=np.float32)


def drawn_chains() -> SearchStrategy[ChainScene]:
    """Return a strategy of chains whose drafts were drawn."""
    return chain_scenes(is_certain=False)
