"""Faults of scheduled verification die in whole runs alone, without any law of a single operation."""

import pytest

from specsim.conformance.backend import load
from specsim.properties.mutants import all_mutants
from specsim.properties.suite.catalogue import all_properties, property_named
from specsim.properties.suite.conformance.running import run_property
from specsim.properties.suite.hunt.matrix import kill_matrix

MUTANTS = {one.id: one for one in all_mutants()}
OF_WHOLE_RUNS = [one for one in all_properties() if one.name.startswith("budget_engine.")]
FAULTS = {
    "OWN-4950": "a budget of this step's survivals",
    "OWN-4006": "nothing is cut",
    "OWN-4007": "the token of the whole walk after a cut",
    "OWN-4008": "the token of a row that was not computed",
    "OWN-4011": "positions of whole chains",
    "OWN-4016": "queries of whole chains",
    "OWN-4954": "features of rows that are not committed",
    "OWN-4955": "features without the last committed row",
    "OWN-4951": "rows that are left as rows of the last request",
}
SEEDS, EXAMPLES = range(1), 30


@pytest.mark.parametrize("number", FAULTS, ids=list(FAULTS.values()))
def test_a_fault_of_scheduled_verification_dies_in_whole_runs(number):
    kills = kill_matrix(
        seeds=SEEDS,
        max_examples=EXAMPLES,
        mutants=[MUTANTS[number]],
        properties=OF_WHOLE_RUNS,
        judges_properties=False,
    )
    assert not kills.survived


def test_what_follows_the_rows_of_a_request_may_be_anything():
    """A scatter that goes on into the rows of the next request changes nothing in a run, and is no fault of one."""
    kills = kill_matrix(
        seeds=range(1),
        max_examples=10,
        mutants=[MUTANTS["OWN-4045"]],
        properties=[property_named("budget_engine.budgets_change_no_output")],
        judges_properties=False,
    )
    assert kills.survived == (("OWN-4045", 0),)


@pytest.mark.parametrize("one", OF_WHOLE_RUNS, ids=[one.name for one in OF_WHOLE_RUNS])
def test_the_reference_keeps_the_laws(one):
    report, failure = run_property(one, load("specsim.reference"), 7, 5, is_shrunk=False)
    assert failure is None
    assert report.examples > 0
