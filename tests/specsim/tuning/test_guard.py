"""A loss of acceptance is found in noise, and noise is not taken for a loss."""

import pytest

from specsim.tuning.counted import RequestCounts, chain_tokens_per_verify
from specsim.tuning.guard import LOWER, SAME, UNKNOWN, compare
from tests.specsim.tuning.test_counted import drawn

AGREEMENT = 0.7
WHOLE = chain_tokens_per_verify(AGREEMENT, 3)
REPETITIONS = 60
NUM_VERIFIES = 160
"""Of a prompt: as many as of an output of a few hundred tokens."""


def run(agreement, num_prompts, seed=1):
    return drawn(agreement, num_prompts, num_verifies=NUM_VERIFIES, seed=seed)


def renamed(requests, prefix):
    return [RequestCounts.of(f"{prefix}{one.prompt}", one.histogram) for one in requests]


def agreement_with(loss):
    """Return the agreement of a draft that loses so much of the tokens per verify."""
    low, high = 0.0, AGREEMENT
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if chain_tokens_per_verify(middle, 3) < WHOLE * (1 - loss) else (low, middle)
    return high


def verdicts(loss, num_prompts, is_paired=True):
    worse = agreement_with(loss)
    found = []
    for seed in range(REPETITIONS):
        before = run(AGREEMENT, num_prompts, seed=2 * seed)
        after = run(worse, num_prompts, seed=2 * seed + 1)
        found.append(compare(before, after if is_paired else renamed(after, "other "), seed).verdict)
    return found


def prompts_to_tell(is_paired=True):
    before, after = run(AGREEMENT, 60, seed=11), run(AGREEMENT, 60, seed=12)
    return compare(before, after if is_paired else renamed(after, "other "), 0).prompts_to_tell


@pytest.mark.parametrize("is_paired", [True, False])
def test_a_planted_loss_of_3_percent_shows_with_the_prompts_that_tell(is_paired):
    """Nine in ten of 60 repetitions are 54, with a standard deviation of 2.3; one in forty excludes the margin."""
    needed = prompts_to_tell(is_paired)
    assert 20 < needed < 60
    found = verdicts(0.03, needed, is_paired)
    assert 47 <= found.count(LOWER) <= 59
    assert found.count(SAME) <= 5


@pytest.mark.parametrize(("num_prompts", "is_paired"), [(8, True), (40, True), (40, False)])
def test_noise_is_lower_no_more_often_than_the_level(num_prompts, is_paired):
    """One in forty of 60 repetitions is 1.5, with a standard deviation of 1.2."""
    assert verdicts(0.0, num_prompts, is_paired).count(LOWER) <= 5


def test_noise_of_enough_prompts_is_the_same():
    assert verdicts(0.0, 80).count(SAME) >= 55


def test_few_prompts_cannot_tell():
    assert verdicts(0.03, 5).count(UNKNOWN) >= 30


def test_a_run_is_the_same_as_itself():
    requests = run(AGREEMENT, 20)
    guarded = compare(requests, requests, 0)
    assert str(guarded) == (
        "+0.0% [+0.0%, +0.0%] tokens per verify on the same 20 prompts; a loss of 3.0% shows with 2 prompts"
    )
    assert guarded.verdict == SAME


def test_prompts_in_common_are_compared_alone():
    before = [*run(AGREEMENT, 20), *renamed(run(0.1, 20), "more ")]
    guarded = compare(before, run(AGREEMENT, 25), 0)
    assert (guarded.is_paired, guarded.num_prompts, guarded.verdict, guarded.change.value) == (True, 20, SAME, 0)


def test_one_prompt_tells_nothing():
    guarded = compare(run(AGREEMENT, 1), run(0.1, 1), 0)
    assert (guarded.verdict, guarded.prompts_to_tell) == (UNKNOWN, None)
    assert str(guarded).endswith("tokens per verify on other 1 prompts")


def test_a_loss_within_the_margin_is_the_same():
    before = [RequestCounts.of(str(place), (10.0, 10.0)) for place in range(20)]
    after = [RequestCounts.of(str(place), (10.3, 9.7)) for place in range(20)]
    assert compare(before, after, 0).verdict == SAME
    assert compare(before, after, 0, margin=0.005).verdict == LOWER
