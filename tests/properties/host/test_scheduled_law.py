"""The exact law of scheduled verification, number by number, and the criterion that needs no law."""

import random
from fractions import Fraction
from itertools import product

import pytest

from specsim.properties.host.schedules.exact_law import Form, joint_law
from specsim.properties.host.schedules.examples import (
    SCHEDULES,
    THREE_DRAFTS,
    TWO_DRAFTS,
    best,
    drawn,
    other_than,
    peak,
    schedule_of,
    survivals,
)
from specsim.properties.host.schedules.stopping_points import Unpredictable, first_unpredictable

SEEDS, MANY_SEEDS = 40, 400
NEVER = "0 0 0 0 0"

DISTANCES = {
    "saturated, later drafts first, budget 1": "1/9 0 1/9 0 0",
    "saturated, later drafts first, budget 2": "1/18 0 1/18 0 0",
    "drawn token, budget 1": "1/9 0 1/9 0 0",
    "drawn token, budget 3": "1/400 0 1/400 0 0",
    "budget of the sum, 2 or 1": "1/18 0 1/18 0 0",
    "budget of the sum, 2 or 0": "1/12 0 1/12 0 0",
    "ties by drawn value, budget 1": "1/9 0 1/9 0 0",
    "ties by drawn value, budget 3": "1667/28800 0 31/320 0 0",
    "none if the next confidence is low": "1/6 0 1/6 0 0",
    "none if the first draft is 0": "1/6 0 1/6 0 0",
    "none if the second draft is 0": "19/240 17/240 1/10 7/48 0",
    "each by the other's first draft": "1/18 0 1/18 0 0",
    "all if the first drafts agree": "1/9 0 1/9 0 0",
}
"""The distances of the joint law in every form, in their order; those of all other schedules are 0."""

TWO_LEVELS = {name: (choose, DISTANCES.get(name, NEVER)) for name, choose in SCHEDULES.items()}

HARMLESS = "by the other's first draft, never verified"
"""It reads a draft that is never judged, which is no stopping point and no bias."""


def total_of(drafts):
    """Return the sum of all survivals of the batch."""
    pairs = zip(THREE_DRAFTS, drafts, strict=True)
    return sum(sum(survivals(scene, draft, peak)) for scene, draft in pairs)


SUMS = sorted({total_of(drafts) for drafts in schedule_of(THREE_DRAFTS, lambda a, b: (0, 0))})
MIDDLE = SUMS[len(SUMS) // 2]

THREE_LEVELS = {
    **{f"best survivals, budget {budget}": (best(THREE_DRAFTS, budget), NEVER) for budget in range(1, 6)},
    "drawn token, budget 1": (best(THREE_DRAFTS, 1, drawn), "1/9 0 1/9 0 0"),
    "drawn token, budget 2": (best(THREE_DRAFTS, 2, drawn), NEVER),
    "drawn token, budget 3": (best(THREE_DRAFTS, 3, drawn), "1/400 0 1/400 0 0"),
    "drawn token, budget 4": (best(THREE_DRAFTS, 4, drawn), "101/7200 0 101/7200 0 0"),
    "drawn token, budget 5": (best(THREE_DRAFTS, 5, drawn), "25079/400000 0 42623/360000 0 0"),
    "budget of the sum, 4 or 0": (best(THREE_DRAFTS, other_than(MIDDLE, 0, 4)), "1/12 1/96 1/12 1/96 0"),
    "budget of the sum, 3 or 1": (best(THREE_DRAFTS, other_than(MIDDLE, 1, 3)), "91/1440 1/180 91/1440 1/180 0"),
    "budget of the sum, 4 or 2": (best(THREE_DRAFTS, other_than(MIDDLE, 2, 4)), "1/96 0 1/96 0 0"),
    "budget of the sum, 6 or 0": (best(THREE_DRAFTS, other_than(MIDDLE, 0, 6)), "1/12 1/96 1/12 1/96 0"),
}


def law_of(scenes, choose, form=Form.FRESH):
    return joint_law(scenes, schedule_of(scenes, choose), form)


def distances(scenes, choose):
    schedule = schedule_of(scenes, choose)
    return " ".join(str(joint_law(scenes, schedule, form).distance) for form in Form)


@pytest.mark.parametrize("name", TWO_LEVELS)
def test_distances_of_two_drafts(name):
    choose, expected = TWO_LEVELS[name]
    assert distances(TWO_DRAFTS, choose) == expected


@pytest.mark.parametrize("name", THREE_LEVELS)
def test_distances_of_three_drafts(name):
    choose, expected = THREE_LEVELS[name]
    assert distances(THREE_DRAFTS, choose) == expected


@pytest.mark.parametrize("lengths", [*product(range(3), repeat=2)])
def test_constant_lengths_keep_the_law(lengths):
    assert distances(TWO_DRAFTS, lambda a, b: lengths) == NEVER


def test_lengths_by_the_other_keep_each_law_and_make_them_dependent():
    law = law_of(TWO_DRAFTS, TWO_LEVELS["each by the other's first draft"][0])
    assert (law.by_request, law.dependence) == ((0, 0), Fraction(1, 64))


def test_one_request_alone_may_have_the_whole_bias():
    law = law_of(TWO_DRAFTS, TWO_LEVELS["none if the second draft is 0"][0])
    assert (law.by_request, law.dependence) == ((Fraction(19, 240), 0), 0)


def test_expected_tokens_of_a_budget_of_four():
    laws = [law_of(TWO_DRAFTS, best(TWO_DRAFTS, 4), form) for form in Form]
    assert [law.num_emitted for law in laws] == [
        Fraction(93, 20), Fraction(93, 20), Fraction(289, 60), Fraction(289, 60), Fraction(103, 30)
    ]  # fmt: skip
    assert {law.num_verified for law in laws} == {4}
    assert laws[0].num_accepted_drafts == Fraction(53, 20)


@pytest.mark.parametrize("name", TWO_LEVELS)
def test_both_places_of_the_bonus_token_give_as_many_tokens(name):
    schedule = schedule_of(TWO_DRAFTS, TWO_LEVELS[name][0])
    fresh, coupled, block, _, draws = (joint_law(TWO_DRAFTS, schedule, form).num_emitted for form in Form)
    assert fresh == coupled and draws <= fresh
    assert name in BLOCK_IS_SHORTER or block >= fresh


BLOCK_IS_SHORTER = {"ties by drawn value, budget 3"}
"""What reads drafts that it cuts off also changes how many are accepted."""


def is_stop(schedule, look_ahead):
    return first_unpredictable(schedule, 2, look_ahead) is None


def test_schedules_of_two_drafts_are_stops_or_biased():
    """A stop is exact, and what is no stop is biased but for what reads drafts that are never judged."""
    for name, (choose, expected) in TWO_LEVELS.items():
        fresh, coupled, block, capped, _ = (Fraction(number) for number in expected.split())
        schedule = schedule_of(TWO_DRAFTS, choose)
        assert is_stop(schedule, 0) == ((fresh, block) == (0, 0) and name != HARMLESS), name
        assert is_stop(schedule, 1) == ((coupled, capped) == (0, 0)), name


def test_what_is_no_stop_is_named():
    schedule = schedule_of(TWO_DRAFTS, TWO_LEVELS["drawn token, budget 3"][0])
    found = first_unpredictable(schedule, 2, 0)
    assert found == Unpredictable(((1, 1), (1, 0)), ((1, 0), (1, 0)), (1, 2), (2, 1), request=0, position=2)
    assert found.misled == (0, 1)
    assert str(found) == (
        "verified drafts of drafts [[1, 1], [1, 0]] = [1, 2], but should be [2, 1] as of drafts [[1, 0], [1, 0]],"
        " because draft 2 of request 0, which is not judged, may not decide the length of request 0 and 1"
    )


def every_unpredictable(schedule, look_ahead):
    """Return every pair that agrees on all that is judged and not in its lengths, as the criterion is written."""
    pairs = []
    for drafts, lengths in schedule.items():
        ends = [length + look_ahead for length in lengths]
        for others, other_lengths in schedule.items():
            is_alike = all(one[:end] == other[:end] for one, other, end in zip(drafts, others, ends, strict=True))
            if is_alike and lengths != other_lengths:
                pairs.append((drafts, others))
    return pairs


def random_tables(count):
    arrays = [*schedule_of(TWO_DRAFTS, lambda a, b: (0, 0))]
    for seed in range(count):
        source = random.Random(seed)
        yield {drafts: (source.randrange(3), source.randrange(3)) for drafts in arrays}


def explorations(count):
    """Yield schedules that admit one draft after the other, each choice by whatever is admitted already."""
    for seed in range(count):
        source, choices = random.Random(seed), {}

        def choose(*drafts, source=source, choices=choices):
            lengths = [0, 0]
            while True:
                known = tuple(draft[:length] for draft, length in zip(drafts, lengths, strict=True))
                left = [request for request in (0, 1) if lengths[request] < 2]
                if known not in choices:
                    choices[known] = source.choice([*left, None])
                if choices[known] is None:
                    return tuple(lengths)
                lengths[choices[known]] += 1

        yield schedule_of(TWO_DRAFTS, choose)


@pytest.mark.parametrize("count", [SEEDS, pytest.param(MANY_SEEDS, marks=pytest.mark.slow)])
def test_whatever_explores_is_a_stop_and_exact(count):
    for schedule in explorations(count):
        assert is_stop(schedule, 0) and is_stop(schedule, 1)
        assert {joint_law(TWO_DRAFTS, schedule, form).distance for form in Form} == {0}


@pytest.mark.parametrize("count", [SEEDS, pytest.param(MANY_SEEDS, marks=pytest.mark.slow)])
def test_random_lengths_are_biased_but_against_draws(count):
    for schedule in random_tables(count):
        for look_ahead, form in enumerate((Form.FRESH, Form.COUPLED)):
            assert not is_stop(schedule, look_ahead)
            assert joint_law(TWO_DRAFTS, schedule, form).distance > 0
        assert joint_law(TWO_DRAFTS, schedule, Form.SAMPLED).distance == 0


@pytest.mark.parametrize("look_ahead", [0, 1])
def test_one_changed_draft_decides_about_all_pairs(look_ahead):
    """Tables that differ from an exploration in one place are stops or not; both ways of asking agree on each."""
    verdicts = set()
    for seed, schedule in enumerate(explorations(SEEDS)):
        source = random.Random(seed)
        changed = {**schedule, source.choice([*schedule]): (source.randrange(3), source.randrange(3))}
        for one in (schedule, changed):
            expected = not every_unpredictable(one, look_ahead)
            assert is_stop(one, look_ahead) == expected
            verdicts.add(expected)
    assert verdicts == {True, False}


def most_tokens_a_second(cost):
    """Return the schedule of the best budget by this step's survivals, where each token costs as much as any other."""

    def choose(*drafts):
        found = sorted(
            (-share, place, request)
            for request, (scene, draft) in enumerate(zip(THREE_DRAFTS, drafts, strict=True))
            for place, share in enumerate(survivals(scene, draft, peak))
        )
        expected = [2 - sum(share for share, *_ in found[:budget]) for budget in range(len(found) + 1)]
        rates = [tokens / (cost + 2 + budget) for budget, tokens in enumerate(expected)]
        sent = [request for *_, request in found[: rates.index(max(rates))]]
        return sent.count(0), sent.count(1)

    return choose


def test_a_budget_may_read_its_own_survivals_where_no_later_draft_pays():
    """The best budget ends before the first draft that does not pay, and so has read none after it."""
    budgets = set()
    for cost in range(1, 5):
        schedule = schedule_of(THREE_DRAFTS, most_tokens_a_second(cost))
        budgets |= {sum(lengths) for lengths in schedule.values()}
        assert is_stop(schedule, 0)
        assert joint_law(THREE_DRAFTS, schedule, Form.FRESH).distance == 0
    assert len(budgets) > 1
