"""Where the outcome of a sampler changes, and which law the emitted tokens must have: rational arithmetic only."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate
from typing import Any, Protocol

import numpy as np

from specsim.conformance.backend import Backend
from specsim.contracts.rounding import rounding_bound, softmax_bound
from specsim.properties.distribution import EVERYTHING, NOTHING, Cell, Coins, Distribution, Outcome, Row, cut, shares
from specsim.properties.laws.checks import Array, Case, require
from specsim.properties.strategies.sampling_scenes import ChainScene, TreeScene, row_array
from specsim.topology import Topology

TREE_SAMPLER = "tree_speculative_sampling_target_only"
CHAIN_SAMPLER = "chain_speculative_sampling"
BLOCK_SAMPLER = "chain_block_verification"
LOSSLESS = (EVERYTHING, EVERYTHING)
LARGEST_EXPONENT = 3 * np.log(2)


def slack_of(vocab_size: int) -> Fraction:
    """Return how far from inner edges an implementation in float32 may be asked."""
    return 2 * Fraction(rounding_bound(vocab_size))


def slack_from_logits(vocab_size: int) -> Fraction:
    """Return the same for probabilities that it computes from logits, from the edge 1 too."""
    return 2 * Fraction(float(softmax_bound(vocab_size, LARGEST_EXPONENT)))


def children_by_token(scene: TreeScene, node: int) -> dict[int, int]:
    """Return the child that stands for each token: the first of equal siblings."""
    found: dict[int, int] = {}
    for child in scene.topology.children[node]:
        found.setdefault(scene.tokens[child], child)
    return found


def running_masses(scene: TreeScene, node: int, skip_duplicates: bool) -> list[Fraction]:
    """Return the target's mass of the children of a node that have been tried, after each of them."""
    masses, tried, mass = list[Fraction](), set[int](), NOTHING
    for child in scene.topology.children[node]:
        token = scene.tokens[child]
        if not (skip_duplicates and token in tried):
            mass += scene.rows[node][token]
        tried.add(token)
        masses.append(mass)
    return masses


def residual(scene: TreeScene, node: int) -> Row:
    """Return what the last token is drawn from when the walk ends at a node."""
    if scene.topology.depths[node] >= scene.num_steps:
        return scene.rows[node]
    rejected = children_by_token(scene, node)
    return tuple(NOTHING if token in rejected else share for token, share in enumerate(scene.rows[node]))


def tree_axes(
    scene: TreeScene, threshold_acc: Fraction = EVERYTHING, *, skip_duplicates: bool = True
) -> list[tuple[Cell, ...]]:
    """Return the cells of every node's coin and of the final coin."""
    nodes = range(len(scene.topology))
    axes = [cut(mass / threshold_acc for mass in running_masses(scene, node, skip_duplicates)) for node in nodes]
    ends = [node for node in nodes if scene.topology.depths[node] <= scene.num_steps]
    return [*axes, cut(point for node in ends for point in shares(residual(scene, node)))]


def walk_law(scene: TreeScene, node: int = 0, before: Outcome = (), chance: Fraction = EVERYTHING) -> Distribution:
    """Return the target's own law: walk down while the token is a child, and emit the first that is none."""
    law: Distribution = {}
    children = children_by_token(scene, node) if scene.topology.depths[node] < scene.num_steps else {}
    for token, share in enumerate(scene.rows[node]):
        if not share:
            continue
        sequence = (*before, token)
        if token in children:
            law.update(walk_law(scene, children[token], sequence, chance * share))
        else:
            law[sequence] = chance * share
    return law


class Drafted(Protocol):
    """What links follow from: a tree, a token a node, and how far a walk goes."""

    @property
    def topology(self) -> Topology:
        """The tree."""

    @property
    def tokens(self) -> tuple[int, ...]:
        """A token a node."""

    @property
    def num_steps(self) -> int:
        """The longest path, root excluded."""


def tree_links(scenes: Sequence[Drafted], counts: Sequence[int]) -> Case:
    """Return candidates and links of a batch in which each scene occurs so many times in a row."""
    num_nodes = len(scenes[0].topology)
    trees = [scene.topology for scene in scenes]
    num_requests = sum(counts)
    return {
        "candidates": np.repeat(np.array([scene.tokens for scene in scenes], dtype=np.int64), counts, axis=0),
        "retrieve_index": np.arange(num_requests * num_nodes, dtype=np.int64).reshape(num_requests, num_nodes),
        "retrieve_next_token": np.repeat(np.stack([tree.next_token for tree in trees]), counts, axis=0),
        "retrieve_next_sibling": np.repeat(np.stack([tree.next_sibling for tree in trees]), counts, axis=0),
        "num_steps": scenes[0].num_steps,
    }


def play_trees(
    backend: Backend,
    scenes: Sequence[TreeScene],
    coins: Sequence[Coins],
    thresholds: tuple[Fraction, Fraction] = LOSSLESS,
    *,
    skip_duplicates: bool = True,
) -> list[list[Outcome]]:
    """Run scenes of one size in one batch, each once a row of its coins; return what every request emitted."""
    counts = [len(rows) for rows in coins]
    case = {**tree_case(scenes, counts, thresholds, skip_duplicates=skip_duplicates), **coin_arguments(coins)}
    return split(emitted_along_paths(backend.run(TREE_SAMPLER, case).outputs), counts)


def tree_case(
    scenes: Sequence[TreeScene],
    counts: Sequence[int],
    thresholds: tuple[Fraction, Fraction] = LOSSLESS,
    *,
    skip_duplicates: bool = True,
) -> Case:
    """Return the arguments of a batch, but for its coins."""
    rows = np.stack([np.stack([row_array(row) for row in scene.rows]) for scene in scenes])
    target_probs = np.repeat(rows, counts, axis=0)
    return {
        **tree_links(scenes, counts),
        "target_probs": target_probs,
        "draft_probs": np.zeros_like(target_probs),
        "threshold_single": np.full(sum(counts), float(thresholds[0]), dtype=np.float32),
        "threshold_acc": np.full(sum(counts), float(thresholds[1]), dtype=np.float32),
        "strict": True,
        "skip_duplicates": skip_duplicates,
    }


def coin_arguments(coins: Sequence[Coins]) -> Case:
    """Return the coin arguments of a batch; the last column of each block holds the final coins."""
    rows = np.concatenate(list(coins))
    return {
        "uniform_samples": np.ascontiguousarray(rows[:, :-1]),
        "uniform_samples_for_final_sampling": np.ascontiguousarray(rows[:, -1]),
    }


def emitted_along_paths(outputs: dict[str, Any]) -> list[Outcome]:
    """Return the output tokens of every request, in path order."""
    predict, accept_index = outputs["predict"].tolist(), outputs["accept_index"].tolist()
    return _counted([tuple(predict[node] for node in path if node >= 0) for path in accept_index], outputs)


def split(outcomes: Sequence[Outcome], counts: Sequence[int]) -> list[list[Outcome]]:
    """Cut the outcomes of a batch into its blocks."""
    ends = np.cumsum(counts).tolist()
    return [list(outcomes[end - count : end]) for end, count in zip(ends, counts, strict=True)]


@dataclass(frozen=True)
class ChainRule:
    """A rule by which the drafts of a chain are judged, and which leaves the target's law as it is.

    Parameters
    ----------
    operation : str
        The sampler that claims it.
    bounds : callable
        Returns, of a scene and a draft, below which coin each of its tokens, or the front up to it, is kept.
    rest : callable
        Returns, of a scene, a draft and a number of kept tokens, what the next token is drawn from, in weights.
    """

    operation: str
    bounds: Callable[[ChainScene, Outcome], list[Fraction]]
    rest: Callable[[ChainScene, Outcome, int], list[Fraction]]


def ratio_at(scene: ChainScene, draft: Outcome, place: int) -> Fraction:
    """Return how much more probable a draft token is to the target than to what proposed it."""
    return scene.target[draft[:place]][draft[place]] / proposal_row(scene, draft, place)[draft[place]]


def shares_of_fronts(scene: ChainScene, draft: Outcome) -> list[Fraction]:
    """Return the share of every front of a draft, that of no token first: the ratios' product, cut at 1 each time."""
    ratios = (ratio_at(scene, draft, place) for place in range(len(draft)))
    return list(accumulate(ratios, lambda share, ratio: min(share * ratio, EVERYTHING), initial=EVERYTHING))


def _rest(scene: ChainScene, draft: Outcome, count: int, share: Fraction) -> list[Fraction]:
    target = scene.target[draft[:count]]
    if count == len(draft):
        return list(target)
    return [max(share * p - q, NOTHING) for p, q in zip(target, proposal_row(scene, draft, count), strict=True)]


def _chances_of_fronts(scene: ChainScene, draft: Outcome) -> list[Fraction]:
    shares = shares_of_fronts(scene, draft)
    chances = []
    for count, share in list(enumerate(shares))[1:]:
        mass = sum(_rest(scene, draft, count, share), NOTHING)
        is_plain = count == len(draft) or share in (NOTHING, EVERYTHING)
        chances.append(share if is_plain else mass / (mass + 1 - share))
    return chances


TOKEN_BY_TOKEN = ChainRule(
    CHAIN_SAMPLER,
    lambda scene, draft: [ratio_at(scene, draft, place) for place in range(len(draft))],
    lambda scene, draft, count: _rest(scene, draft, count, EVERYTHING),
)
AS_A_BLOCK = ChainRule(
    BLOCK_SAMPLER,
    _chances_of_fronts,
    lambda scene, draft, count: _rest(scene, draft, count, shares_of_fronts(scene, draft)[count]),
)


def chain_axes(scene: ChainScene, draft: Outcome, rule: ChainRule = TOKEN_BY_TOKEN) -> list[tuple[Cell, ...]]:
    """Return the cells of the coin of every draft, and of the final coin."""
    endings = [rule.rest(scene, draft, count) for count in range(len(draft) + 1)]
    axes = [cut([bound]) for bound in rule.bounds(scene, draft)]
    return [*axes, cut(point for ending in endings for point in shares(ending))]


def proposal_row(scene: ChainScene, draft: Outcome, place: int) -> Row:
    """Return the law that a draft was drawn from; one that was not drawn is certain."""
    if scene.certain is None:
        return scene.proposal[draft[:place]]
    return tuple(EVERYTHING if token == draft[place] else NOTHING for token in range(scene.vocab_size))


def play_chains(
    backend: Backend,
    scenes: Sequence[ChainScene],
    drafts: Sequence[Outcome],
    coins: Sequence[Coins],
    sampler: str = CHAIN_SAMPLER,
) -> list[list[Outcome]]:
    """Run drafts of several scenes in one ragged batch, each once a row of its coins."""
    counts = [len(rows) for rows in coins]
    padded = [np.pad(rows[:, :-1], ((0, 0), (0, one.num_padding))) for one, rows in zip(scenes, coins, strict=True)]
    uniform = np.concatenate([rows.reshape(-1) for rows in padded])
    final = {"uniform_samples_for_final_sampling": np.concatenate([rows[:, -1] for rows in coins])}
    case = {**chain_case(scenes, drafts, counts), "uniform_samples": uniform, **final}
    return split(emitted_in_rows(backend.run(sampler, case).outputs), counts)


def chain_case(scenes: Sequence[ChainScene], drafts: Sequence[Outcome], counts: Sequence[int]) -> Case:
    """Return the arguments of a ragged batch, but for its coins; each draft occurs so many times in a row."""
    blocks = [_chain_rows(scene, draft) for scene, draft in zip(scenes, drafts, strict=True)]
    tokens, proposals, targets = (list(column) for column in zip(*blocks, strict=True))
    lengths = np.repeat([len(draft) for draft in tokens], counts)
    return {
        "draft_tokens": tiled(tokens, counts),
        "cu_num_drafts": np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32),
        "draft_probs": None if scenes[0].certain is not None else tiled(proposals, counts),
        "target_probs": tiled(targets, counts),
        "max_num_drafts": max(map(len, tokens)),
    }


def emitted_in_rows(outputs: dict[str, Any]) -> list[Outcome]:
    """Return the output tokens of every request of the chain sampler."""
    return _counted([tuple(token for token in row if token >= 0) for row in outputs["output_tokens"].tolist()], outputs)


def _counted(emitted: list[Outcome], outputs: dict[str, Any]) -> list[Outcome]:
    """Return what requests emitted; each has a token more than accepted drafts."""
    for request, drafts in enumerate(outputs["num_accepted_drafts"].tolist()):
        got = len(emitted[request])
        require(got == drafts + 1, f"tokens of request {request}", got, f"{drafts + 1} for {drafts} accepted drafts")
    return emitted


def _chain_rows(scene: ChainScene, draft: Outcome) -> tuple[Array, Array, Array]:
    """Return the draft with its padding, a proposal row an entry, and a target row an entry and one more."""
    tokens = np.array([*draft, *([-1] * scene.num_padding)], dtype=np.int64)
    padded = scene.target[draft]
    target = [scene.target[draft[:place]] for place in range(len(draft) + 1)] + [padded] * scene.num_padding
    proposal = [proposal_row(scene, draft, place) for place in range(len(draft))] + [padded] * scene.num_padding
    empty = np.zeros((0, scene.vocab_size), dtype=np.float32)
    return (
        tokens,
        np.stack([row_array(row) for row in proposal]) if proposal else empty,
        np.stack([row_array(row) for row in target]),
    )


def tiled(blocks: Sequence[Array], counts: Sequence[int]) -> Array:
    """Return each block so many times in a row, one after another."""
    return np.concatenate([block for block, count in zip(blocks, counts, strict=True) for _ in range(count)])
