"""The verdict on a module's schedule: whether it biases, by how much, and with which drafts."""

import re
from dataclasses import replace
from time import process_time

import numpy as np
import pytest

from specsim.conformance.backend import Backend, load
from specsim.conformance.limits import Limits
from specsim.host.schedules import ScheduleHistory, choose_verify_lens
from specsim.properties.host.schedules.exact_law import Form, joint_law
from specsim.properties.host.schedules.examples import TWO_DRAFTS
from specsim.properties.host.schedules.laws import CHOOSE, chosen_lengths, with_generic_targets
from specsim.properties.host.schedules.strategy import ScheduleCase
from specsim.properties.mutants import all_mutants
from specsim.properties.suite.catalogue import all_properties, property_named
from specsim.properties.suite.conformance.running import run_property
from specsim.properties.suite.hunt.cases import draw_cases, find_breaking

REFERENCE = load("specsim.reference")
STOPS, JOINT = "schedules.lengths_stop_before_what_they_read", "schedules.batches_keep_the_joint_law"
WITHIN, ASKED = "schedules.lengths_lie_within_the_drafts", "schedules.callbacks_read_drafts_before_alone"
COUPLED, DRAWS = Limits(judges_draft_after_cut=True), Limits(accepts_equal_draws=True)
EXAMPLES, FEW_EXAMPLES = 30, 6
MUTANTS = {mutant.id: mutant for mutant in all_mutants()}


def with_schedule(choose, limits=None, name=CHOOSE):
    """Return a module that defines its schedule alone."""
    return Backend("mine", {name: choose}, REFERENCE.arrays, **({} if limits is None else {"limits": limits}))


def failure_of(backend, name, examples=EXAMPLES):
    """Return the message of a property that fails, without what shrinking would add; an empty one if it holds."""
    _, failure = run_property(property_named(name), backend, 0, examples, is_shrunk=False)
    return "" if failure is None else failure.message


def by_tokens(decide):
    """Return a schedule of all drafts or none, decided for each request by the tokens of the batch."""

    def choose(draft_tokens, draft_probs, confidences, num_drafts, history):
        return [1 + count * decide(draft_tokens, request) for request, count in enumerate(num_drafts)]

    return choose


def drawn_token(draft_tokens, draft_probs, confidences, num_drafts, history):
    """Rank drafts by the probability that they were drawn with."""
    drawn = np.take_along_axis(draft_probs, np.maximum(draft_tokens, 0)[:, :, None], axis=2)[:, :, 0]
    return choose_verify_lens(draft_tokens, draft_probs, drawn, num_drafts, history)


@pytest.fixture
def anchors():
    """The two requests of the semantics' table, with the likeliest token's probability as confidence."""
    owners, survivals = np.zeros(2, dtype=np.int64), np.ones((2, 2), dtype=np.float32)
    history = ScheduleHistory(survivals, owners, owners, np.ones(7), verify_token_budget=1)
    confidences = {front: float(max(row)) for front, row in TWO_DRAFTS[0].proposal.items()}
    return ScheduleCase(TWO_DRAFTS, (confidences, confidences), history)


def test_the_drawn_token_is_named_with_its_bias_in_no_sample_and_no_second(anchors):
    backend = with_schedule(drawn_token)
    start = process_time()
    with pytest.raises(AssertionError) as failure:
        property_named(STOPS).law(backend, [anchors])
    assert process_time() - start < 1
    assert str(failure.value) == (
        "verified drafts of drafts [[1, 0], [0, 0]] = [0, 1], but should be [1, 0] as of drafts [[0, 0], [0, 0]],"
        " because draft 1 of request 0, which is not judged, may not decide the length of request 0 and 1:"
        " accepted token by token, bonus token drawn at the cut or as one block that ends at the cut, the joint law is"
        " off by 1/9 (0.1111) in total variation (request 0 alone 1/9, request 1 alone 1/18, dependence 1/288)"
    )


def test_the_reference_keeps_every_budget(anchors):
    for budget in range(5):
        case = replace(anchors, history=replace(anchors.history, verify_token_budget=budget))
        schedule = chosen_lengths(REFERENCE, case)
        assert {joint_law(case.scenes, schedule, form).distance for form in Form} == {0}
        assert joint_law(case.scenes, schedule, Form.FRESH).num_verified == budget


def test_a_bonus_token_that_the_next_draft_gives_lets_a_schedule_read_that_draft():
    assert failure_of(with_schedule(drawn_token), STOPS) and failure_of(with_schedule(drawn_token), JOINT)
    coupled = with_schedule(drawn_token, COUPLED)
    assert all(not failure_of(coupled, name, FEW_EXAMPLES) for name in (STOPS, JOINT))


@pytest.mark.parametrize("limits", [None, COUPLED])
@pytest.mark.parametrize("name", [STOPS, JOINT])
def test_a_draft_after_the_next_is_read_by_no_one(name, limits):
    last = by_tokens(lambda tokens, request: tokens[request, -1] == 0)
    assert "the joint law is off by" in failure_of(with_schedule(last, limits), STOPS)
    assert failure_of(with_schedule(last, limits), name)


def test_draws_of_the_target_allow_every_schedule():
    last = with_schedule(by_tokens(lambda tokens, request: tokens[request, -1] == 0), DRAWS)
    for name in (STOPS, JOINT):
        report, failure = run_property(property_named(name), last, 0, EXAMPLES, is_shrunk=False)
        assert failure is None and report.is_excluded
    assert not failure_of(last, WITHIN)


def test_what_is_read_and_never_judged_is_no_bias():
    """The first request goes by the other's first draft, of which none is ever sent."""
    never = by_tokens(lambda tokens, request: request == 0 and tokens[1, 0] == 0)
    assert all(not failure_of(with_schedule(never), name, FEW_EXAMPLES) for name in (STOPS, JOINT))


def test_generic_targets_are_rows_that_agree_with_no_proposal():
    for case in draw_cases(property_named(STOPS), 0, EXAMPLES):
        for scene in with_generic_targets(case[0].scenes):
            rows = [(scene.target[front], scene.proposal[front]) for front in scene.proposal]
            assert all(sum(target) == 1 and set(target).isdisjoint(proposal) for target, proposal in rows)


@pytest.mark.parametrize(
    ("choose", "message"),
    [
        (by_tokens(lambda tokens, row: 2), r"verify_lens\[0\] of drafts .* = \d, but should be 1 to \d, because"),
        (
            by_tokens(lambda tokens, request: -1),
            r"verify_lens\[0\] of drafts .* = -\d, but should be 1 to \d, because",
        ),
        (by_tokens(lambda tokens, row: 0.5), "verify_lens.dtype = float64, but should be whole numbers"),
        (lambda **arguments: [1], r"verify_lens.shape = \(1,\), but should be \(2,\)"),
    ],
)
def test_lengths_that_no_request_has_are_named(choose, message):
    assert re.match(message, failure_of(with_schedule(choose), WITHIN))


def test_a_schedule_that_changes_its_mind_is_named():
    calls = []

    def choose(draft_tokens, draft_probs, confidences, num_drafts, history):
        calls.append(1)
        return 1 + num_drafts * (len(calls) % 3 == 0)

    assert re.match(r"verified drafts of drafts .*, asked again", failure_of(with_schedule(choose), STOPS))


def test_a_schedule_that_writes_what_it_should_only_read_is_named():
    def choose(draft_tokens, draft_probs, confidences, num_drafts, history):
        history.survivals[:] = confidences
        return [1] * len(num_drafts)

    assert "read-only" in failure_of(with_schedule(choose), WITHIN)


def test_a_schedule_that_never_verifies_decides_nothing():
    never = with_schedule(by_tokens(lambda tokens, request: 0))
    report, failure = run_property(property_named(JOINT), never, 0, FEW_EXAMPLES, is_shrunk=False)
    assert failure is None
    assert report.inconclusive == "no draft of a batch is verified, also where the budget allows all of them"


def test_survivals_of_an_old_owner_change_the_budget_and_not_the_law():
    backend = MUTANTS["OWN-4107"].plant(REFERENCE)
    for one in map(property_named, (STOPS, JOINT)):
        assert find_breaking(one, backend, draw_cases(one, 0, FEW_EXAMPLES)) is None


@pytest.mark.parametrize(
    ("callback", "message"),
    [
        (
            lambda request, position, prefix_tokens, confidence: prefix_tokens[position - 1] > 0,
            "draft 1 of request 0, read when draft 1 is decided = read, but should be unread, because",
        ),
        (
            lambda request, position, prefix_tokens, confidence: sum(prefix_tokens[: position + 1]) > 0,
            "draft 2 of request 0, read when draft 1 is decided = read, but should be unread, because",
        ),
        (
            lambda request, position, prefix_tokens, confidence: confidence,
            r"should_verify\(0, 1, \[\], …\) = [01]\.\d+, but should be True or False",
        ),
    ],
)
def test_callbacks_that_read_too_far_are_named(callback, message):
    assert re.match(message, failure_of(with_schedule(callback, name="should_verify"), ASKED))


def test_a_callback_that_hides_its_read_is_named():
    def hiding(request, position, prefix_tokens, confidence):
        try:
            return prefix_tokens[position] > 0
        except BaseException:
            return True

    assert "read when draft 1 is decided" in failure_of(with_schedule(hiding, name="should_verify"), ASKED)


def test_a_callback_may_read_all_drafts_before_its_own():
    def reading(request, position, prefix_tokens, confidence):
        before = [*prefix_tokens]
        assert before == [*prefix_tokens[: position - 1]] and len(before) == position - 1
        return sum(before) % 2 == 0

    assert not failure_of(with_schedule(reading, name="should_verify"), ASKED)


def test_properties_that_draws_leave_out_are_named_right():
    from specsim.properties.strategies.limits import OF_SCHEDULES

    assert set(OF_SCHEDULES) <= {one.name for one in all_properties()}
