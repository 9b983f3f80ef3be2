"""What two engines report of the same requests is compared token by token, within rounding, as it grows."""

from dataclasses import replace

import pytest

from specsim.host.stopping import Finish, FinishReason
from specsim.reference.models import load_model
from specsim.simulation.comparing.history import Divergence
from specsim.simulation.comparing.reported_pairs import ReportedPairs
from specsim.simulation.logprobs import ReportedToken
from specsim.simulation.models.hash_model import HashModel
from specsim.simulation.requests import Request

FIRST = ReportedToken(7, -0.5, ((7, -0.5), (3, -1.5)))
SECOND = ReportedToken(3, -2.0, ((9, -0.25), (7, -1.75)))
NEXT_FLOAT = ReportedToken(3, -2.0000002, ((9, -0.25), (7, -1.7499999)))


def pair(expected, got, top_logprobs=2):
    requests = [
        Request(5, (1, 2), 8, top_logprobs=top_logprobs, logprobs=list(reported)) for reported in (expected, got)
    ]
    pairs = ReportedPairs(load_model(HashModel(32)).description)
    pairs.add(*requests)
    return pairs, *requests


def test_the_same_but_for_rounding_is_no_difference():
    assert pair([FIRST, SECOND], [FIRST, NEXT_FLOAT])[0].first_divergence(3) is None


@pytest.mark.parametrize(
    "wrong",
    [
        replace(SECOND, token=9),
        replace(SECOND, logprob=-2.001),
        replace(SECOND, top=((7, -1.75), (9, -0.25))),
        replace(SECOND, top=((9, -0.25), (7, -1.751))),
        replace(SECOND, top=SECOND.top[:1]),
        replace(SECOND, logprob=float("nan")),
    ],
    ids=["token", "score", "order of alternatives", "score of an alternative", "fewer alternatives", "not a number"],
)
def test_a_difference_is_reported_with_its_place(wrong):
    found = pair([FIRST, SECOND], [FIRST, wrong])[0].first_divergence(3)
    assert found == Divergence(3, "Request", "logprobs", (5, 1), SECOND, wrong)


def test_a_score_too_few_and_a_score_too_many_are_differences():
    missing = pair([FIRST, SECOND], [FIRST])[0].first_divergence(0)
    assert str(missing) == f"iteration 0, Request.logprobs[5, 1] = nothing, but should be {SECOND}"
    after_the_end = pair([FIRST], [FIRST, SECOND])[0].first_divergence(0)
    assert str(after_the_end) == f"iteration 0, Request.logprobs[5, 1] = {SECOND}, but should be nothing"


def test_who_asks_nothing_is_not_looked_at():
    assert pair([FIRST], [SECOND], top_logprobs=None)[0].first_divergence(0) is None


def test_what_comes_later_is_compared_later():
    pairs, expected, got = pair([FIRST], [FIRST])
    assert pairs.first_divergence(0) is None
    expected.logprobs.append(SECOND)
    got.logprobs.append(FIRST)
    assert pairs.first_divergence(1) == Divergence(1, "Request", "logprobs", (5, 1), SECOND, FIRST)


def test_a_request_is_watched_until_both_have_ended():
    pairs, expected, got = pair([FIRST], [FIRST])
    expected.finish = Finish(FinishReason.ABORT, 1, "")
    assert pairs.first_divergence(0) is None
    got.logprobs.append(SECOND)
    assert pairs.first_divergence(1) == Divergence(1, "Request", "logprobs", (5, 1), "nothing", SECOND)
    got.logprobs.pop()
    got.finish = expected.finish
    assert pairs.first_divergence(2) is None
    got.logprobs.append(SECOND)
    assert pairs.first_divergence(3) is None
