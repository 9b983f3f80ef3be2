"""Runs whose requests draft numbers of their own mix them, rest, narrow and widen, in every example that is drawn."""

from specsim.algorithms import DRAFTERS
from specsim.conformance.backend import load
from specsim.properties.reach.counting import counting_reach
from specsim.properties.runs.play import Play
from specsim.properties.runs.steps.numbered_runs import TAGS, count_numbers
from specsim.properties.suite.catalogue import property_named
from specsim.properties.suite.hunt.cases import draw_cases

REFERENCE = load("specsim.reference")


def test_every_run_mixes_rests_narrows_and_widens():
    one = property_named("numbered_engine.nodes_beyond_a_number_are_no_drafts")
    cases = draw_cases(one, number=0, max_examples=8)
    assert len(cases) == 8
    assert {run.is_v1 for run in cases} == {False, True}
    assert {run.config.topk for run in cases} == {1, 2}
    for run in cases:
        with counting_reach() as counts:
            Play(run, REFERENCE, observer=count_numbers).run()
        assert all(counts[tag] for tag in TAGS), (run, counts)


def test_runs_of_every_loop_and_drafter_are_drawn():
    one = property_named("numbered_engine.numbers_of_drafts_change_no_output")
    runs = [run for number in range(8) for run in draw_cases(one, number=number, max_examples=8)]
    assert {run.drafting.drafter for run in runs} == {*DRAFTERS}
    assert any(run.schedule.is_overlapped for run in runs)
