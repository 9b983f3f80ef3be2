"""The scenes of rounding meet every class of rows and coins, each with a share of its own that is stated here."""

from fractions import Fraction

import numpy as np
import pytest

from specsim.properties.distribution import GRID
from specsim.properties.laws.sampling_cells import children_by_token
from specsim.properties.operations.from_logits.rounded import along_a_tree, one_by_one
from specsim.properties.operations.from_logits.strategy_rounded import (
    FAR_LOGIT,
    FAR_LOGIT_OF_BFLOAT16,
    UNITS,
    far_chain_batches,
    far_logit_batches,
    rounded_chains,
    rounded_trees,
    subnormal_rows,
)
from tests.quality.pool import drawn

CASES = 200
LEAST_NORMAL = Fraction(1, 2**126)


def pairs(scenes):
    """Return the rows of both sides of every drawn draft."""
    return [(scene.target[place], scene.proposal[place]) for scene in scenes for place in scene.proposal]


def agree(scenes, unit):
    return any(
        p != q and all(abs(one - other) <= (UNITS + 1) * unit * one for one, other in zip(p, q, strict=True))
        for p, q in pairs(scenes)
    )


def is_subnormal(row):
    mass = [share for share in row if 0 < share < LEAST_NORMAL]
    return bool(mass) and len(mass) >= sum(share > 0 for share in row) - 1


def is_one_hot(row):
    return sum(share > 0 for share in row) == 1


CHAINS = {
    "rows that agree to units of float32": (0.35, lambda scenes: agree(scenes, 2.0**-23)),
    "rows that agree to units of bfloat16": (
        0.35,
        lambda scenes: agree(scenes, 2.0**-8) and any(abs(p[0] - q[0]) > 2.0**-20 for p, q in pairs(scenes)),
    ),
    "subnormal mass but for a token": (0.2, lambda scenes: any(is_subnormal(p) for p, _ in pairs(scenes))),
    "subnormal mass alone": (
        0.35,
        lambda scenes: any(0 < sum(row) < LEAST_NORMAL for scene in scenes for row in scene.target.values()),
    ),
    "a one-hot target and a broad draft": (
        0.1,
        lambda scenes: any(is_one_hot(p) and not is_one_hot(q) for p, q in pairs(scenes)),
    ),
    "two one-hot rows": (0.1, lambda scenes: any(is_one_hot(p) and is_one_hot(q) for p, q in pairs(scenes))),
    "less than 1 and nothing at the end": (
        0.35,
        lambda scenes: any(
            Fraction(1, 2) < sum(row) < 1 - 2.0**-19 and row[-1] == 0
            for scene in scenes
            for row in scene.target.values()
        ),
    ),
    "nothing on both sides before the end": (
        0.3,
        lambda scenes: any(
            one == other == 0 for p, q in pairs(scenes) for one, other in list(zip(p, q, strict=True))[:-1]
        ),
    ),
    "drafts that were not drawn": (0.15, lambda scenes: any(one.certain for one in scenes)),
    "no drafts": (0.15, lambda scenes: any(one.num_drafts == 0 for one in scenes)),
    "two drafts": (0.3, lambda scenes: any(one.num_drafts == 2 for one in scenes)),
}


def children_mass(scene):
    return [
        sum(row[token] for token in children)
        for node, row in enumerate(scene.rows)
        if (children := children_by_token(scene, node))
    ]


TREES = {
    "children with all but a few units": (
        0.2,
        lambda scene: any(1 - 2.0**-20 < one < 1 for one in children_mass(scene)),
    ),
    "subnormal mass": (0.15, lambda scene: any(map(is_subnormal, scene.rows))),
    "one-hot rows": (0.15, lambda scene: any(map(is_one_hot, scene.rows))),
    "less than 1": (0.15, lambda scene: any(Fraction(1, 2) < sum(row) < 1 - 2.0**-19 for row in scene.rows)),
    "siblings": (0.15, lambda scene: any(len(below) > 1 for below in scene.topology.children)),
}


def logits_of(case):
    return [logit for scene in case[0] for row in scene.logits for logit in row]


FAR = {
    "10,000 up": (0.2, lambda case: any(logit and 9_000 < logit <= FAR_LOGIT for logit in logits_of(case))),
    "10,000 down in place of small ones": (
        0.2,
        lambda case: any(
            all(logit is None or logit <= -FAR_LOGIT for logit in row) for scene in case[0] for row in scene.logits
        ),
    ),
    "-10,000 in place of -inf": (
        0.2,
        lambda case: any(
            {-FAR_LOGIT, -FAR_LOGIT_OF_BFLOAT16} & {*row} and any(logit is not None and logit > -9 for logit in row)
            for scene in case[0]
            for row in scene.logits
        ),
    ),
    "-inf beside far ones": (
        0.2,
        lambda case: any(
            None in row and len({*row}) > 1
            for scene in case[0]
            for row in scene.logits
            if max(map(abs, filter(None, row)), default=0) > 9_000
        ),
    ),
    "bfloat16": (0.2, lambda case: case[1] == "bfloat16"),
    "greedy beside sampled": (0.03, lambda case: len({scene.filters.is_greedy for scene in case[0]}) > 1),
}


@pytest.mark.parametrize(
    ("strategy", "classes"), [(rounded_chains, CHAINS), (rounded_trees, TREES), (far_logit_batches, FAR)]
)
def test_each_class_has_its_share(strategy, classes):
    cases = drawn(strategy(), CASES)
    shares = {name: sum(map(bool, map(is_met, cases))) / len(cases) for name, (_, is_met) in classes.items()}
    assert {name: share for name, share in shares.items() if share < classes[name][0]} == {}


def test_chains_from_far_logits_shift_either_side():
    cases = [case for two in drawn(far_chain_batches(), CASES // 2) for case in two]
    for side in ("target_logits", "draft_logits"):
        is_far = [
            any(abs(logit or 0) > 9_000 for one in case.scenes for row in vars(one)[side].values() for logit in row)
            for case in cases
        ]
        assert sum(is_far) > 0.4 * CASES


def test_rows_of_filters_have_subnormal_mass_alone_or_beside_a_token():
    rows = np.concatenate([case.sum(axis=1, dtype=np.float64) for case in drawn(subnormal_rows(), CASES)])
    assert 0.3 < (rows < 2.0**-120).mean() < 0.7


@pytest.mark.parametrize(
    ("strategy", "judged"),
    [
        (rounded_chains, lambda scenes: one_by_one(scenes[0], scenes[0].drafts()[0][0], Fraction(1, 2**18))),
        (rounded_trees, lambda scene: along_a_tree(scene, Fraction(1, 2**18))),
    ],
)
def test_every_coin_is_tried_at_0_and_at_the_largest_below_1(strategy, judged):
    for case in drawn(strategy(), 20):
        coins = judged(case).coins()
        assert (coins.min(axis=0) == 0).all()
        assert (coins.max(axis=0) == np.float32((GRID - 1) / GRID)).all()
