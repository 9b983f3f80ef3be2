"""Every mutant is found, every property finds one, and the matrix can tell."""

import inspect
import re
import tomllib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from specsim.conformance.backend import load
from specsim.operations import RECORDS
from specsim.properties.mutants import all_mutants
from specsim.properties.mutants.record import Mutant, given, instead, returning
from specsim.properties.operations.generated import faults as generated
from specsim.properties.property import Property
from specsim.properties.suite.catalogue import all_properties, property_named
from specsim.properties.suite.hunt.cases import draw_cases, find_breaking
from specsim.properties.suite.hunt.hunt import Hunt, Options, is_law
from specsim.properties.suite.hunt.kills import read_kills
from specsim.properties.suite.hunt.matrix import kill_matrix
from specsim.rejection import Reason, SpecRejection

REFERENCE = load("specsim.reference")
KILLS = Path(__file__).with_name("kills.json")
MUTANTS = {mutant.id: mutant for mutant in all_mutants()}
OF_OPERATIONS = {name: mutant for name, mutant in MUTANTS.items() if mutant.operation in RECORDS}
ACCEPT_BAD_INPUT = {"OWN-05", "D11", "B01"}
"""What only takes what should be refused: no law shows it."""

EXAMPLES = 30
FEW_EXAMPLES = 5
FIRST_SEED, LATER_SEEDS = 1, (2, 3, 4, 5)
"""The later ones are for what the first misses: what it draws depends on the modules that happen to be loaded."""

SUPPLEMENT = Path(__file__).with_name("supplement.toml")
DOCUMENT = Path(__file__).parents[3] / "docs" / "mutants.md"


def named(name: str) -> Property:
    return property_named(name)


@pytest.fixture
def matrix(part):
    """Run mutants with one seed; one that a law should find meets laws first, also those that no record names."""
    known = read_kills(KILLS)
    of_laws = {
        mutant: replace(row, killers=tuple(name for name in row.killers if is_law(name)))
        for mutant, row in known.rows.items()
        if MUTANTS[mutant] not in generated.MUTANTS and mutant not in ACCEPT_BAD_INPUT
    }
    laws_first = sorted(all_properties(), key=lambda one: not is_law(one.name))
    known = replace(known, rows={**known.rows, **of_laws})
    return kill_matrix(
        seeds=[FIRST_SEED],
        max_examples=EXAMPLES,
        mutants=[mutant for name, mutant in MUTANTS.items() if part.takes(name)],
        properties=laws_first,
        judges_properties=False,
        known=known,
    )


def missed_later(names, properties):
    """Return those of some mutants that live through every later seed, too."""
    hunt = Hunt(
        [MUTANTS[name] for name in sorted(names)], properties, Options(EXAMPLES, False, read_kills(KILLS).killers)
    )
    return [name for name in hunt.mutants if not any(hunt.kills_of(name, seed) for seed in LATER_SEEDS)]


@pytest.mark.first
def test_no_mutant_survives_and_no_property_is_powerless(matrix, part):
    """One test, because another process would run every mutant again for its share of the same."""
    assert missed_later(matrix.survivors, all_properties()) == []

    known = read_kills(KILLS)
    hunt = Hunt(all_mutants(), all_properties(), Options(EXAMPLES, False, known.killers, known.victims))
    hits = {name for names in matrix.kills.values() for name in names}
    idle = [name for name in hunt.properties if part.takes(name) and name not in hits]
    assert [name for name in idle if hunt.first_victim(name, (FIRST_SEED, *LATER_SEEDS)) is None] == []

    # A law alone finds each mutant that takes only good input.
    asked = OF_OPERATIONS.keys() - {mutant.id for mutant in generated.MUTANTS} - ACCEPT_BAD_INPUT
    by_laws = matrix.killed_by_laws
    missed = {name for name in asked if part.takes(name) and not by_laws[name]}
    assert missed_later(missed, [one for one in all_properties() if is_law(one.name)]) == []


def test_every_mutant_dies_within_a_third_of_the_examples_with_half_of_the_seeds():
    late = {name: row.median for name, row in read_kills(KILLS).rows.items() if row.median > EXAMPLES / 3}
    assert not late, f"{late}; their strategies should draw what shows them more often"


@pytest.mark.parametrize("name", sorted(ACCEPT_BAD_INPUT))
def test_no_quick_law_finds_who_takes_bad_input(name):
    laws = [one for one in all_properties() if is_law(one.name) and not one.is_slow]
    assert kill_matrix(seeds=[1], max_examples=FEW_EXAMPLES, mutants=[MUTANTS[name]], properties=laws).kills == {
        name: ()
    }


def test_the_first_empty_batch_finds_a_crash_on_nothing():
    lucky = []
    for operation in RECORDS:
        mutant, empty = MUTANTS[f"EMPTY-{operation}"], named(f"empty.{operation}")
        correct = REFERENCE.functions[operation]
        faulty = REFERENCE.with_function(operation, mutant.inject(correct), mutant.id)
        if find_breaking(empty, faulty, draw_cases(empty, number=0, max_examples=1)) != 0:
            lucky.append(mutant.id)
    assert not lucky, lucky


def test_ids_are_distinct():
    assert len(MUTANTS) == len(all_mutants())


def test_every_operation_has_a_mutant_of_its_own():
    own = {mutant.operation for mutant in all_mutants() if mutant not in generated.MUTANTS}
    without = [
        f"write a mutant of {name} in properties/operations/{record.group}/faults.py"
        for name, record in RECORDS.items()
        if name not in own
    ]
    assert not without, "\n".join(without)


def test_a_mutant_has_the_signature_of_the_original():
    def parameters(function):
        return [*inspect.signature(function).parameters]

    wrong = {
        name: parameters(mutant.inject(correct))
        for name, mutant in OF_OPERATIONS.items()
        for correct in [REFERENCE.functions[mutant.operation]]
        if parameters(mutant.inject(correct)) != parameters(correct)
    }
    assert not wrong, wrong


def test_a_summary_is_a_sentence():
    wrong = [name for name, mutant in MUTANTS.items() if not mutant.summary.endswith(".")]
    assert not wrong, wrong


def test_an_equivalent_mutant_survives_and_finds_its_laws_powerless():
    equivalent = Mutant("EQUIVALENT", "fill_bonus_tokens", "Nothing is wrong.", lambda correct: correct)
    law = named("compact.bonus_is_the_last_output_token")
    found = kill_matrix(seeds=[1, 2], max_examples=10, mutants=[equivalent, MUTANTS["PV07"]], properties=[law])
    assert found.survivors == ("EQUIVALENT",)
    assert found.survived == (("EQUIVALENT", 1), ("EQUIVALENT", 2))
    assert found.first_examples("EQUIVALENT") == (None, None)
    assert found.powerless == ()
    alone = kill_matrix(seeds=[1, 2], max_examples=10, mutants=[equivalent], properties=[law])
    assert alone.powerless == (law.name,)


def test_only_properties_of_the_operation_are_run():
    steps = []
    found = kill_matrix(
        seeds=[1],
        max_examples=20,
        mutants=[MUTANTS["PV07"]],
        properties=[named("compact.bonus_is_the_last_output_token"), named("tree.links_follow_the_flat_ids")],
        on_progress=lambda name, done, total: steps.append((name, done, total)),
    )
    assert found.kills == {"PV07": ("compact.bonus_is_the_last_output_token",)}
    assert found.killed_by_laws == found.kills
    assert found.powerless == ()
    assert steps == [("", 0, 1), ("PV07", 1, 1)]


def test_kills_of_generated_properties_are_not_kills_of_laws():
    agreement = named("agreement.fill_bonus_tokens")
    found = kill_matrix(seeds=[1], max_examples=20, mutants=[MUTANTS["PV07"]], properties=[agreement])
    assert found.kills == {"PV07": (agreement.name,)}
    assert found.killed_by_laws == {"PV07": ()}


def test_a_law_that_fails_on_the_reference_is_an_error():
    def never(backend, case):
        raise AssertionError("always")

    sound = named("compact.bonus_is_the_last_output_token")
    unsound = Property("compact.never", "", sound.operations, sound.strategy, never)
    with pytest.raises(AssertionError) as caught:
        kill_matrix(seeds=[1], max_examples=2, mutants=[MUTANTS["PV07"]], properties=[unsound])
    assert str(caught.value) == "compact.never fails on the reference, but should hold: always"


def test_draws_repeat_with_their_seed_and_differ_without():
    one = named("compact.bonus_is_the_last_output_token")
    first, again, other = (
        [{name: value.tolist() for name, value in case.items()} for case in draw_cases(one, seed, 12)]
        for seed in (3, 3, 4)
    )
    assert first == again
    assert first != other
    assert len(first) == 12


def test_a_case_that_breaks_nothing_is_none():
    one = named("compact.bonus_is_the_last_output_token")
    assert find_breaking(one, REFERENCE, draw_cases(one, 1, 10)) is None


CASE = {"accept_tokens": np.array([[7, 8, 9]], dtype=np.int32), "num_accepted_tokens": np.array([2], dtype=np.int32)}


def test_a_fault_in_the_arguments_leaves_the_callers_arrays_alone():
    def all_accepted(arguments):
        arguments["num_accepted_tokens"] = np.full_like(arguments["num_accepted_tokens"], 3)

    faulty = given(all_accepted)(REFERENCE.functions["fill_bonus_tokens"])
    assert faulty(**CASE).tolist() == [9]
    assert CASE["num_accepted_tokens"].tolist() == [2]


def test_a_fault_in_the_outputs_edits_them_by_name():
    def doubled(outputs, arguments):
        outputs["bonus_tokens"] = outputs["bonus_tokens"] * 2

    assert returning(doubled)(REFERENCE.functions["fill_bonus_tokens"])(*CASE.values()).tolist() == [16]


def test_a_reimplementation_refuses_bad_input():
    faulty = instead(lambda accept_tokens, num_accepted_tokens: accept_tokens[:, 0])
    call = faulty(REFERENCE.functions["fill_bonus_tokens"])
    assert call(**CASE).tolist() == [7]
    with pytest.raises(SpecRejection) as caught:
        call(accept_tokens=CASE["accept_tokens"], num_accepted_tokens=np.array([0], dtype=np.int32))
    assert caught.value.reason is Reason.COUNT_OUT_OF_RANGE


def test_no_mutant_is_listed_as_missing():
    missing = set(re.findall(r"^\| ([A-Z]+\d+) \|", DOCUMENT.read_text(encoding="utf-8"), re.MULTILINE))
    assert missing
    assert not missing & MUTANTS.keys()


def test_the_record_has_every_mutant_and_no_other():
    assert read_kills(KILLS).rows.keys() == MUTANTS.keys()


def test_every_fault_of_the_supplement_dies_with_every_seed():
    """S21 is none: where drafts are certain, what is left of a row is drawn as the row is, on the same noise."""
    rows, faults = read_kills(KILLS).rows, tomllib.loads(SUPPLEMENT.read_text(encoding="utf-8"))
    carrying = [number for numbers in faults.values() for number in numbers]
    assert len(faults) == 48 and set(carrying) <= MUTANTS.keys()
    assert {number: rows[number].examples for number in carrying if rows[number].seeds < 20} == {}
