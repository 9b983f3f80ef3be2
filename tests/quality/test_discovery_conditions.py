"""Every rare condition of a whole run is met by the runs of its law, as often as is stated."""

from collections import Counter

import pytest

from specsim.conformance.backend import load
from specsim.conformance.limits import NO_LIMITS
from specsim.properties.reach.conditions import SHARES, Condition
from specsim.properties.reach.counting import counting_reach
from specsim.properties.suite.catalogue import all_properties, property_named
from specsim.properties.suite.hunt.cases import draw_cases

REFERENCE = load("specsim.reference")
NUM_RUNS = 16
LAWS = {
    Condition.LAYERS: "padded_engine.ranks_between_layers_wait_for_others",
    Condition.PAGES_OF_BEAMS: "worker_pages.beams_begin_with_the_end_of_their_text",
    Condition.SAMPLED_CHUNK: "sampled_engine.sampled_requests_come_back_in_chunks",
    Condition.LAST_TOKEN: "committed_engine.states_leave_after_the_tokens_that_they_have_read",
}
CONTINUED = "continued_engine.the_cache_keeps_what_texts_own"
NUM_CONTINUED = 6


def counted(name, count):
    """Return how many of some runs of a law met each tag."""
    one, met = property_named(name), Counter()
    for case in draw_cases(one, 0, count):
        with counting_reach() as counts:
            one.law(REFERENCE, case)
        met.update(set(counts))
    return met


@pytest.mark.parametrize("condition", Condition)
def test_runs_meet_a_condition_with_its_share(condition):
    assert counted(LAWS[condition], NUM_RUNS)[condition] >= SHARES[condition] * NUM_RUNS


def test_texts_of_every_drafter_go_on_after_every_end():
    met, tags = counted(CONTINUED, NUM_CONTINUED), property_named(CONTINUED).tags(NO_LIMITS)
    wide = {tag for tag in tags if tag.startswith("full batch wider")}
    rare = {tag: met[tag] for tag in tags if met[tag] < (0.3 if tag in wide else 0.8) * NUM_CONTINUED}
    assert len(wide) == 10
    assert not rare, f"of {NUM_CONTINUED} runs"


def test_a_condition_is_required_of_one_law():
    required = [tag for one in all_properties() if one.tags is not None for tag in one.tags(NO_LIMITS)]
    assert all(required.count(condition) == 1 for condition in Condition)
    assert LAWS.keys() == SHARES.keys() == set(Condition)
