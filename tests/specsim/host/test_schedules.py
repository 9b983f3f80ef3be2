import numpy as np
import pytest

from specsim.host.schedules import ScheduleHistory, choose_verify_lens, should_verify
from specsim.rejection import Reason, SpecRejection

CONFIDENCES = ((0.9, 0.8, 0.5), (0.6, 0.6, 0.6), (0.95, 0.1, 0.9))
STEPS_PER_SECOND = (100, 100, 100, 100, 98, 98, 90, 90, 60, 60, 60, 60, 60)
"""By the number of tokens verified, from 0: what was measured at 1, 4, 6 and 8 tokens holds up to the next."""


def history(budget=None, generations=(7, 7, 7), steps_per_second=STEPS_PER_SECOND):
    survivals = np.cumprod(np.array(CONFIDENCES, dtype=np.float32), axis=1)
    owners = np.full(3, 7, dtype=np.int64)
    return ScheduleHistory(survivals, np.array(generations), owners, np.array(steps_per_second, dtype=float), budget)


def lens(known, confidences=CONFIDENCES, num_drafts=(3, 3, 3)):
    tokens, probs = np.zeros((3, 3), dtype=np.int64), np.full((3, 3, 2), 0.5, dtype=np.float32)
    confidences = np.array(confidences, dtype=np.float32)
    return choose_verify_lens(tokens, probs, confidences, np.array(num_drafts), known).tolist()


@pytest.mark.parametrize(
    ("budget", "expected"),
    [
        (0, [1, 1, 1]),
        (1, [1, 1, 2]),
        (2, [2, 1, 2]),
        (3, [3, 1, 2]),
        (4, [3, 2, 2]),
        (5, [3, 3, 2]),
        (9, [4, 4, 4]),
    ],
)
def test_the_worked_example(budget, expected):
    assert lens(history(budget)) == expected


def test_the_budget_of_the_worked_example_is_four():
    assert lens(history()) == lens(history(4)) == [3, 2, 2]


def test_a_row_with_a_new_owner_counts_as_sure():
    """Nine survivals of 1 pay for all drafts where a token costs nothing, and those of the old owners for none."""
    jump = (1.0,) * 4 + (0.4,) * 9
    assert lens(history(steps_per_second=jump)) == [1, 1, 1]
    assert lens(history(generations=(6, 6, 6), steps_per_second=jump)) == [4, 4, 4]


def test_ties_go_by_position_and_then_by_request():
    equal = ((1.0, 1.0, 1.0),) * 3
    assert [lens(history(budget), equal) for budget in (1, 2, 4)] == [[2, 1, 1], [2, 2, 1], [3, 2, 2]]


def test_entries_past_the_drafts_are_not_read():
    nothing = float("nan")
    padded = ((0.9, nothing, nothing), (0.6, 0.6, 0.6), (nothing, nothing, nothing))
    assert lens(history(3), padded, (1, 3, 0)) == [2, 3, 1]


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (float("nan"), Reason.NAN_SCORE),
        (-0.01, Reason.PROBABILITY_OUT_OF_RANGE),
        (1.01, Reason.PROBABILITY_OUT_OF_RANGE),
    ],
)
def test_what_is_no_confidence_is_refused(bad, reason):
    with pytest.raises(SpecRejection) as refusal:
        lens(history(1), (*CONFIDENCES[:2], (0.95, bad, 0.9)))
    assert (refusal.value.reason, refusal.value.what) == (reason, "confidences[2, 1]")
    with pytest.raises(SpecRejection) as refusal:
        should_verify(0, 1, (), bad)
    assert refusal.value.reason is reason


@pytest.mark.parametrize(
    ("call", "reason", "what"),
    [
        (lambda: lens(history(-1)), Reason.COUNT_OUT_OF_RANGE, "history.verify_token_budget"),
        (lambda: lens(history(1), num_drafts=(3, 4, 3)), Reason.COUNT_OUT_OF_RANGE, "num_drafts[1]"),
        (lambda: lens(history(1), num_drafts=(3, -1, 3)), Reason.COUNT_OUT_OF_RANGE, "num_drafts[1]"),
        (lambda: lens(history(1), num_drafts=(3, 3)), Reason.INCONSISTENT_LENGTHS, "num_drafts.shape[0]"),
        (
            lambda: lens(history(1, generations=(7, 7))),
            Reason.INCONSISTENT_LENGTHS,
            "history.survival_generations.shape[0]",
        ),
        (
            lambda: lens(history(1, steps_per_second=(1.0,) * 12)),
            Reason.INCONSISTENT_LENGTHS,
            "history.steps_per_second.shape[0]",
        ),
    ],
)
def test_what_contradicts_itself_is_refused(call, reason, what):
    with pytest.raises(SpecRejection) as refusal:
        call()
    assert (refusal.value.reason, refusal.value.what) == (reason, what)


def test_a_callback_goes_by_the_confidence():
    assert [should_verify(0, 1, (), confidence) for confidence in (0.49, 0.5, 1.0)] == [False, True, True]
