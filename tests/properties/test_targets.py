"""What the suite is meant to state is stated: every property and test that ``targets.toml`` names is there."""

import re
import tomllib
from pathlib import Path

from specsim.properties.suite.catalogue import all_properties
from specsim.properties.suite.statements import KINDS

TESTS = Path(__file__).parents[1]
TARGETS = tomllib.loads(Path(__file__).with_name("targets.toml").read_text(encoding="utf-8"))
LAWS, OPERATIONS, EXAMPLES = range(1, 64), range(1, 47), range(1, 13)


def test_every_number_is_there_in_order():
    """No law has the number P11."""
    laws = [f"P{number:02}" for number in LAWS if number != 11]
    others = [*(f"M.{number}" for number in OPERATIONS), *(f"K.{number}" for number in EXAMPLES), "E.4", "Q.1"]
    assert [*TARGETS] == [*laws, *others]


def test_a_target_is_stated_or_open():
    carried = {one.catalogue for one in all_properties()}
    keys = {"title", "note", "properties", "tests", "open"}
    for number, target in TARGETS.items():
        assert target.keys() <= keys
        assert number in carried or target.keys() & {"properties", "tests", "open"}, number


def test_a_target_has_one_title_here_or_on_the_page():
    assert KINDS.keys() <= TARGETS.keys() and all(KINDS.values())
    assert {number for number, target in TARGETS.items() if target.get("title")} == TARGETS.keys() - KINDS.keys()


def test_named_properties_are_there_and_named_once():
    names = {one.name for one in all_properties()}
    known = names | {f"{name.partition('.')[0]}.*" for name in names}
    wrong = {}
    for number, target in TARGETS.items():
        named = target.get("properties", [])
        carrying = [one.name for one in all_properties() if one.catalogue == number]
        wrong[number] = [name for name in named if name not in known or [*named, *carrying].count(name) > 1]
    assert not {number: which for number, which in wrong.items() if which}


def test_named_tests_are_there_and_named_once():
    missing = []
    for target in TARGETS.values():
        tests = target.get("tests", [])
        assert len(tests) == len(set(tests))
        for test in tests:
            path, _, name = test.partition("::")
            source = TESTS / path
            if not source.exists() or f"\ndef {name}(" not in source.read_text(encoding="utf-8"):
                missing.append(test)
    assert not missing, f"targets name tests that are not there: {missing}"


def test_every_worked_example_stands_in_its_target():
    """A test that is named after an example, anywhere below tests, is one of those that compute it."""
    lost = []
    for path in sorted(TESTS.rglob("test_*.py")):
        text = path.read_text(encoding="utf-8")
        for name, numbers in re.findall(r"^def (test_((?:k\d+_(?:and_|to_)?)+)\w*)\(", text, re.MULTILINE):
            examples = [f"K.{number}" for number in re.findall(r"k(\d+)", numbers)]
            test = f"{path.relative_to(TESTS)}::{name}"
            lost += [(example, test) for example in examples if test not in TARGETS[example]["tests"]]
    assert not lost, f"not in a target: {lost}"
