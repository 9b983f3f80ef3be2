"""The exact law of sampled verification over trees: what is emitted has the target's own distribution.

Every law integrates over the coins with rational arithmetic and compares without any tolerance.
"""

from fractions import Fraction
from itertools import combinations

import numpy as np
from hypothesis import strategies as st

from specsim.conformance.backend import Backend
from specsim.properties.composite import composite
from specsim.properties.distribution import (
    EVERYTHING,
    GRID,
    NOTHING,
    Coins,
    Distribution,
    enumerate_cells,
    every_pair,
    integrate,
    require_same_law,
)
from specsim.properties.laws.checks import Case, outputs_of, require, state
from specsim.properties.laws.sampling_cells import (
    LOSSLESS,
    TREE_SAMPLER,
    children_by_token,
    play_trees,
    residual,
    slack_of,
    tree_axes,
    walk_law,
)
from specsim.properties.strategies.arrays import Bulk, bulk
from specsim.properties.strategies.sampling_scenes import (
    ROW_KINDS,
    TreeScene,
    make_tree,
    repeated_stars,
    tree_batches,
    tree_scenes,
    twin_scenes,
)
from specsim.topology import Topology

Thresholds = tuple[Fraction, Fraction]
LOWER_THRESHOLDS = (Fraction(1, 2), Fraction(1, 4), Fraction(0))
LEAST_SHARE = Fraction(1, 2**16)


def law_of_tree(
    backend: Backend,
    scene: TreeScene,
    slack: Fraction,
    thresholds: Thresholds = LOSSLESS,
    *,
    skip_duplicates: bool = True,
) -> Distribution:
    """Return the exact law of what a tree emits."""

    def play(coins: Coins) -> list[tuple[int, ...]]:
        return play_trees(backend, [scene], [coins], thresholds, skip_duplicates=skip_duplicates)[0]

    return integrate(tree_axes(scene, max(thresholds[1], LEAST_SHARE), skip_duplicates=skip_duplicates), play, slack)


def require_tree_law(backend: Backend, scene: TreeScene, slack: Fraction) -> None:
    """Raise AssertionError unless a tree emits the target's own law, term by term."""
    require_same_law(f"law of {describe(scene)}", law_of_tree(backend, scene, slack), walk_law(scene))


def describe(scene: TreeScene) -> str:
    """Return a scene in one line."""
    rows = " ".join("(" + ",".join(map(str, row)) + ")" for row in scene.rows)
    return f"parents {list(scene.topology.parents)}, tokens {list(scene.tokens)}, rows {rows}, {scene.num_steps} steps"


def tree_emits_the_targets_law(backend: Backend, scene: TreeScene) -> None:
    """Over all coins, a walked tree emits each sequence exactly as often as the target alone would."""
    require_tree_law(backend, scene, slack_of(scene.vocab_size))


def equal_siblings_leave_the_law_alone(backend: Backend, scene: TreeScene) -> None:
    """A token that stands at several siblings is tried once, so that its chance stays the target's."""
    require_tree_law(backend, scene, slack_of(scene.vocab_size))


def every_tree_of_a_batch_emits_its_own_law(backend: Backend, scenes: list[TreeScene]) -> None:
    """In a batch of different trees each emits the law of its own rows."""
    slack = slack_of(scenes[0].vocab_size)
    cells = [enumerate_cells(tree_axes(scene), slack) for scene in scenes]
    outcomes = play_trees(backend, scenes, [one.coins for one in cells])
    for request, (scene, one, emitted) in enumerate(zip(scenes, cells, outcomes, strict=True)):
        require_same_law(f"law of tree {request}, {describe(scene)}", one.law_of(emitted), walk_law(scene))


def repeated_siblings_count_again_upstream(backend: Backend, case: tuple[TreeScene, int, int]) -> None:
    """Without the rule for equal siblings, m children of one token emit it with chance min(1, m p)."""
    scene, token, copies = case
    law = law_of_tree(backend, scene, slack_of(scene.vocab_size), skip_duplicates=False)
    got = sum((weight for sequence, weight in law.items() if sequence[0] == token), NOTHING)
    expected = min(EVERYTHING, copies * scene.rows[0][token])
    require(got == expected, f"chance of token {token} below {copies} equal children, {describe(scene)}", got, expected)


def last_token_is_independent_of_other_coins(backend: Backend, scene: TreeScene) -> None:
    """Whatever the coins of the nodes were, the final coin alone draws the last token, from the path's residual."""
    axes = tree_axes(scene)
    nodes, finals = enumerate_cells(axes[:-1]).middles, enumerate_cells(axes[-1:], slack_of(scene.vocab_size))
    (emitted,) = play_trees(backend, [scene], [every_pair(nodes, finals.coins)])
    for place, others in enumerate(nodes.tolist()):
        law = finals.law_of(emitted[place * len(finals.coins) : (place + 1) * len(finals.coins)])
        paths = {sequence[:-1] for sequence in law}
        require(len(paths) == 1, f"accepted tokens at coins {others}, {describe(scene)}", sorted(paths), "one path")
        (path,) = paths
        weights = residual(scene, node_of_path(scene, path))
        total = sum(weights, NOTHING)
        expected = {(*path, token): share / total for token, share in enumerate(weights) if share}
        require_same_law(f"last token at coins {others}, {describe(scene)}", law, expected)


def node_of_path(scene: TreeScene, path: tuple[int, ...]) -> int:
    """Return the node that accepted tokens lead to."""
    node = 0
    for token in path:
        children = children_by_token(scene, node)
        require(token in children, f"accepted token {token} at node {node}, {describe(scene)}", token, sorted(children))
        node = children[token]
    return node


def acceptance_is_the_mass_of_the_children(backend: Backend, scene: TreeScene) -> None:
    """A node is passed exactly as often as the target chooses one of its children, and no less."""
    law = law_of_tree(backend, scene, slack_of(scene.vocab_size))
    expected = walk_law(scene)
    for drafts in range(scene.num_steps + 1):
        got = sum((weight for sequence, weight in law.items() if len(sequence) > drafts), NOTHING)
        wanted = sum((weight for sequence, weight in expected.items() if len(sequence) > drafts), NOTHING)
        require(got == wanted, f"chance of {drafts} accepted drafts, {describe(scene)}", got, wanted)


def lower_thresholds_only_raise_acceptance(backend: Backend, case: tuple[TreeScene, Thresholds]) -> None:
    """With a threshold below 1 a tree's first level is passed as often as its rule says, and never less than before."""
    scene, thresholds = case
    law = law_of_tree(backend, scene, slack_of(scene.vocab_size), thresholds)
    got = sum((weight for sequence, weight in law.items() if len(sequence) > 1), NOTHING)
    chances = [scene.rows[0][token] for token in children_by_token(scene, 0)] if scene.num_steps else []
    mass = sum(chances, NOTHING)
    is_certain = any(chance and chance >= thresholds[0] for chance in chances)
    expected = EVERYTHING if is_certain else min(EVERYTHING, mass / max(thresholds[1], LEAST_SHARE))
    what = f"chance of an accepted draft at thresholds {thresholds}"
    require(got == expected, f"{what}, {describe(scene)}", got, expected)
    require(got >= mass, what, got, f"at least {mass}")


def lower_thresholds_never_shorten_a_chain(backend: Backend, case: tuple[TreeScene, Thresholds, Coins]) -> None:
    """For the same coins a chain with lower thresholds accepts no fewer drafts."""
    scene, thresholds, coins = case
    before = play_trees(backend, [scene], [coins])[0]
    after = play_trees(backend, [scene], [coins], thresholds)[0]
    for one, other, used in zip(before, after, coins.tolist(), strict=True):
        what = f"accepted drafts at thresholds {thresholds} and coins {used}, {describe(scene)}"
        require(len(other) >= len(one), what, len(other) - 1, f"at least {len(one) - 1}")


def impossible_tokens_are_never_emitted(backend: Backend, scene: TreeScene) -> None:
    """A token without probability is emitted at no coin: not as a draft at coin 0, not as the last token at any."""
    cells, reported = enumerate_cells(tree_axes(scene)), describe(scene)
    for sequence, used in zip(play_trees(backend, [scene], [cells.coins])[0], cells.coins.tolist(), strict=True):
        path = scene.topology.path_to(node_of_path(scene, sequence[:-1]))
        for token, after in zip(sequence, path, strict=True):
            require(scene.rows[after][token] > 0, f"token emitted at coins {used}, {reported}", token, "possible")


def coins_of_one_verify_are_all_different(backend: Backend, case: Case) -> None:
    """No two columns of a request share their coins: not two nodes, and not a node and the final draw."""
    outputs = outputs_of(backend, "generate_coins", case)
    columns = [*outputs["uniform_samples"].T.tolist(), outputs["uniform_samples_for_final_sampling"].tolist()]
    for one, other in combinations(range(len(columns)), 2):
        equal = sum(first == second for first, second in zip(columns[one], columns[other], strict=True))
        require(equal < 2, f"requests whose coins {one} and {other} are equal", equal, f"none of {len(columns[0])}")


@composite
def coin_addresses(draw: st.DrawFn) -> Case:
    """Draw seeds and lengths of two dozen requests, all different."""
    count, first, length = 24, draw(st.integers(0, 2**31)), draw(st.integers(0, 1000))
    seeds = first + np.arange(count, dtype=np.int64)
    seq_lens = length + np.arange(count, dtype=np.int64) // 2
    return {"seeds": seeds, "seq_lens": seq_lens, "num_draft_tokens": draw(st.integers(1, 6))}


@composite
def threshold_scenes(draw: st.DrawFn) -> tuple[TreeScene, Thresholds]:
    """Draw a tree and thresholds of which one lies below 1; powers of two keep the breakpoints dyadic."""
    scene, lower = draw(tree_scenes()), draw(st.sampled_from(LOWER_THRESHOLDS))
    return scene, draw(st.sampled_from(((lower, EVERYTHING), (EVERYTHING, lower), (lower, lower))))


@composite
def threshold_chains(draw: st.DrawFn) -> tuple[TreeScene, Thresholds, Coins]:
    """Draw a chain, lower thresholds, and coins on a coarse grid."""
    length, vocab_size = draw(st.integers(1, 5)), draw(st.integers(2, 4))
    chain = Topology.from_parents(range(-1, length - 1))
    scene = make_tree(draw(bulk()), chain, vocab_size, draw(st.sampled_from(ROW_KINDS)))
    _, thresholds = draw(threshold_scenes())
    return scene, thresholds, coarse_coins(draw(bulk()), length + 1)


def coarse_coins(source: Bulk, width: int, count: int = 32) -> Coins:
    """Return coins in sixteenths, and a few just below them."""
    places = source.integers((count, width), 0, 15) * (GRID // 16) - source.integers((count, width), 0, 1)
    coins: Coins = (np.maximum(places, 0) / GRID).astype(np.float32)
    return coins


_TREE = (TREE_SAMPLER,)

PROPERTIES = (
    state("sampling_law", tree_emits_the_targets_law, tree_scenes, _TREE, "P03"),
    state("sampling_law", equal_siblings_leave_the_law_alone, twin_scenes, _TREE, "P03"),
    # NOTE: of a quick look's two examples both are often chains, in which no sibling is rejected.
    state("sampling_law", every_tree_of_a_batch_emits_its_own_law, tree_batches, _TREE, "P03", least_examples=8),
    state("sampling_law", repeated_siblings_count_again_upstream, repeated_stars, _TREE, "P03"),
    state("sampling_law", last_token_is_independent_of_other_coins, tree_scenes, _TREE, "P09"),
    state("sampling_law", acceptance_is_the_mass_of_the_children, tree_scenes, _TREE, "P63"),
    state("sampling_law", lower_thresholds_only_raise_acceptance, threshold_scenes, _TREE, "P12"),
    state("sampling_law", lower_thresholds_never_shorten_a_chain, threshold_chains, _TREE, "P12"),
    state("sampling_law", impossible_tokens_are_never_emitted, tree_scenes, _TREE, "P07"),
    state("sampling_law", coins_of_one_verify_are_all_different, coin_addresses, ("generate_coins",), "P09"),
)
