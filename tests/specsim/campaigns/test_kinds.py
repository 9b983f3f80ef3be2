"""Units of each kind on a node: the workers are those of ``specsim check``, and what they find can be run again."""

import os

import pytest

from specsim.campaigns.causes import Causes
from specsim.campaigns.ledger import Ledger
from specsim.campaigns.node import run_on_node
from specsim.campaigns.plan import Arm, Seeds, Wanted, arms_of, describe
from specsim.campaigns.units import Kind, Unit
from specsim.campaigns.workshop import Terms, Unstartable, close_workshop, workshop_for
from specsim.cli.campaigning.workers import start
from specsim.cli.isolation import prepare
from specsim.cli.matrix import most_seeded_of
from specsim.conformance.isolation.jobs import Limits
from tests.specsim.campaigns.planted import plant

CELL = "v2-page1-topk1-mha"
BONUS = "agreement.fill_bonus_tokens"


@pytest.fixture(scope="module")
def terms(tmp_path_factory):
    folder = tmp_path_factory.mktemp("planted")
    before = os.getcwd()
    yield Terms(plant(folder, "planted_units"), Limits(), 10, 4, most_seeded_of, {}, str(folder), start, prepare)
    close_workshop()
    os.chdir(before)


def test_a_property_runs_seed_after_seed_until_one_fails(terms, tmp_path):
    ended = run_on_node(terms, Unit(Kind.PROPERTY, BONUS, (3, 4)), node="here")
    (broken,) = ended.outcome.failures
    assert (ended.node, broken.seed) == ("here", 3)
    assert broken.message == "fill_bonus_tokens: bonus_tokens[1] = 1, but should be 0"
    assert broken.replay == f"specsim check planted_units --seed 3 --examples 10 --property {BONUS}"
    (name,) = ended.files
    assert broken.plain["case"] == name
    with Ledger(tmp_path, {}) as ledger:
        ledger.keep_case(ended.files)
    causes = Causes(tmp_path, "planted_units")
    causes.add(Unit(Kind.PROPERTY, BONUS, (3, 4)), broken)
    (found,) = causes.found()
    path = tmp_path / "cases" / name
    assert (found.operation, found.case) == ("fill_bonus_tokens", str(path))
    assert found.replay == f"specsim replay {path} --impl planted_units"
    causes.add(Unit(Kind.PROPERTY, BONUS, (7,)), broken)
    assert (path.exists(), causes.found()[0].num_units) == (True, 2)


def test_a_property_that_holds_takes_all_seeds(terms):
    outcome = run_on_node(terms, Unit(Kind.PROPERTY, "agreement.build_tree", (0, 1))).outcome
    assert (outcome.examples, outcome.failures, outcome.undecided) == (20, (), "")
    assert 0 < outcome.busy_seconds <= outcome.seconds


def test_a_machine_that_fails_is_made_shorter_unless_its_failure_is_known(terms):
    for number in range(9):
        unit = Unit(Kind.MACHINE, "", (0,), number)
        outcome = run_on_node(terms, unit).outcome
        if outcome.failures:
            break
    (broken,) = outcome.failures
    assert broken.weight == len(broken.history) > 0
    assert broken.replay == f"specsim soak planted_units --seed 0 --machine {number}"
    (again,) = run_on_node(terms, unit, frozenset([broken.raw])).outcome.failures
    assert (again.history, again.raw) == ((), broken.raw)


def test_a_cell_runs_a_history_and_says_what_it_met(terms):
    outcome = run_on_node(terms, Unit(Kind.CELL, CELL, (5,), 0, "as it is")).outcome
    assert (outcome.examples, bool(outcome.failures)) == (1, True)
    assert outcome.failures[0].replay == f"specsim matrix planted_units --seed 5 --cell {CELL} --history 0"


def test_the_arms_are_those_of_what_the_implementation_brings(terms):
    described = describe(workshop_for(terms), wants_cells=False)
    wanted = Wanted((Kind.PROPERTY, Kind.MACHINE, Kind.CELL), Seeds(0, 3), 10, (BONUS,))
    assert arms_of(wanted, described) == [
        Arm(Kind.PROPERTY, BONUS, Seeds(0, 3), seeds_of_a_unit=4),
        Arm(Kind.MACHINE, "", Seeds(0, 3), units_of_a_seed=16),
    ]


def test_an_implementation_that_does_not_import_is_named(terms):
    absent = Terms("nowhere_to_be_found", Limits(), 10, 4, most_seeded_of, {}, terms.directory, start, prepare)
    with pytest.raises(Unstartable) as caught:
        workshop_for(absent)
    assert (caught.value.code, caught.value.words) == (
        4,
        "nowhere_to_be_found does not import: ModuleNotFoundError: No module named 'nowhere_to_be_found'",
    )


def test_a_mutant_is_killed_or_lives(terms):
    reference = Terms("specsim.reference", Limits(), 10, 4, most_seeded_of, {}, terms.directory, start, prepare)
    outcome = run_on_node(reference, Unit(Kind.MUTANT, "OWN-1740", (0,))).outcome
    assert (outcome.failures, len(outcome.reach)) == ((), 1)
