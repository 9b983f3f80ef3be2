"""Failures that are expected do not fail a run; one that does not come, or whose day has passed, does."""

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from packaging.version import Version

from specsim.cli.checking.known import judge, read
from specsim.cli.output import Failed
from specsim.conformance.known import BadKnownFailures, KnownFailure, Subject, cause_of, read_known
from specsim.properties.suite.conformance.report import Failure, PropertyReport, assemble

SOURCE = """
from specsim import reference

VERSION = "0.5.2"

def map_hot_tokens(topk_index, hot_token_id):
    return reference.map_hot_tokens(topk_index, hot_token_id) + FAULT
"""
AGREEMENT = '[[failure]]\noperation = "map_hot_tokens"\nproperty = "agreement.map_hot_tokens"\n'


OPERATION, AGREES, STRIDED = "map_hot_tokens", "agreement.map_hot_tokens", "strided.map_hot_tokens"
HELD, FAILED = PropertyReport(4, False, False), PropertyReport(2, True, False)
CUT, CUT_AT_ONCE = PropertyReport(3, False, False, cut=True), PropertyReport(0, False, False, cut=True)


def judged(reports, is_interrupted=False, subject=Subject(), **entry):  # noqa: B008
    """Return what is said of a run in which one failure is known."""
    failures = {name: Failure(OPERATION, name, "wrong", None, "") for name, one in reports.items() if one.failed}
    chosen = [SimpleNamespace(name=name, operations=(OPERATION,)) for name in reports]
    report = assemble("mine", 1, chosen, reports, failures, {OPERATION: True}, is_interrupted)
    found = judge(report, (KnownFailure(**{"operation": OPERATION, "property": AGREES, **entry}),), subject)
    return found.report.verdict, len(found.complaints)


@pytest.fixture
def check(specsim, tmp_path, request):
    """Return a function that checks a module, faulty or not, against a file of known failures."""

    def run(known, *options, fault=1):
        name = f"known_{request.node.name.partition('[')[0]}_{fault}"
        (tmp_path / f"{name}.py").write_text(SOURCE.replace("FAULT", str(fault)))
        (tmp_path / "known.toml").write_text(known)
        usual = ("--seed", 3, "--examples", 2, "--operation", "map_hot_tokens", "--known", "known.toml")
        return specsim("check", name, *usual, *options)

    return run


def test_an_expected_failure_does_not_fail_the_run(check):
    got = check(AGREEMENT + 'versions = ">=0.5,<0.6"\nlink = "https://example.org/1"\nexpires = 2999-01-31\n', "--json")
    document = json.loads(got.stdout)
    (expected,) = document["known"]["expected"]
    assert (expected["property"], expected["link"]) == ("agreement.map_hot_tokens", "https://example.org/1")
    assert "agreement.map_hot_tokens" not in [failure["property"] for failure in document["failures"]]
    as_found = got.stderr.splitlines()
    assert [
        line for line in as_found if "agreement.map_hot_tokens:" in line and line.startswith("known failure, failed")
    ]
    assert not [line for line in as_found if line.startswith("FAILED agreement.map_hot_tokens")]
    reason = check('[[failure]]\nreason = "but should be"\n')
    assert reason.exit_code == 0, reason.stdout
    assert "known failure of map_hot_tokens: agreement.map_hot_tokens" in reason.stdout


def test_a_failure_of_another_version_is_not_expected(check):
    got = check(AGREEMENT + 'versions = "<0.5"\n')
    assert got.exit_code == 1
    assert "FAILURE of map_hot_tokens: agreement.map_hot_tokens" in got.stdout


def test_a_failure_that_does_not_come_fails_the_run(check):
    got = check(AGREEMENT, fault=0)
    assert got.exit_code == 1
    assert "KNOWN FAILURE did not fail, but should: map_hot_tokens, agreement.map_hot_tokens" in got.stdout


def test_a_failure_that_comes_seldom_may_stay_away(check):
    assert check(AGREEMENT + "seldom = true\n", fault=0).exit_code == 0


def test_what_decided_too_little_stays_inconclusive_beside_a_known_failure():
    assert judged({AGREES: FAILED, STRIDED: HELD}) == ("conforms", 0)
    assert judged({AGREES: FAILED, STRIDED: CUT}) == ("conforms", 0)
    assert judged({AGREES: FAILED, STRIDED: CUT_AT_ONCE}) == ("inconclusive", 0)


def test_a_known_failure_may_stay_away_where_its_examples_were_cut():
    assert judged({AGREES: HELD}) == ("fails", 1)
    assert judged({AGREES: CUT}) == ("conforms", 0)
    by_reason = {"property": "", "reason": "wrong"}
    assert judged({AGREES: HELD, STRIDED: HELD}, **by_reason) == ("fails", 1)
    assert judged({AGREES: HELD, STRIDED: CUT}, **by_reason) == ("conforms", 0)


def test_an_interrupted_run_stays_interrupted_beside_known_failures():
    assert judged({AGREES: HELD, STRIDED: FAILED}, is_interrupted=True) == ("interrupted", 0)


def test_a_failure_of_another_device_is_neither_expected_nor_missed():
    on_gpu = Subject(uses_gpu=True)
    assert judged({AGREES: FAILED}, device="gpu") == ("fails", 0)
    assert judged({AGREES: FAILED}, subject=on_gpu, device="gpu") == ("conforms", 0)
    assert judged({AGREES: HELD}, subject=on_gpu, device="cpu") == ("conforms", 0)
    assert judged({AGREES: HELD}, device="cpu") == ("fails", 1)


def test_a_day_has_no_time(tmp_path):
    path = tmp_path / "known.toml"
    path.write_text(AGREEMENT + "expires = 2027-01-31T00:00:00Z\n")
    with pytest.raises(
        BadKnownFailures, match=r"^\S+, failure 1: expires is .* but should be a date, as in 2027-01-31$"
    ):
        read_known(path, [AGREES], None)


def test_an_entry_whose_day_has_passed_fails_the_run(check):
    got = check(AGREEMENT + "expires = 2020-01-31\n")
    assert got.exit_code == 1
    assert "KNOWN FAILURE expired on 2020-01-31: map_hot_tokens, agreement.map_hot_tokens" in got.stdout


def test_what_was_written_is_expected_afterwards(check, tmp_path):
    assert check("", "--write-known", "fresh.toml").exit_code == 1
    text = (tmp_path / "fresh.toml").read_text()
    assert 'versions = "==0.5.2"' in text and "expires = 2" in text
    assert check(text).exit_code == 0
    assert check(text, "--write-known", "again.toml").exit_code == 0
    assert (tmp_path / "again.toml").read_text() == text


def test_a_cause_is_known_under_every_property_and_hides_no_other():
    entry = KnownFailure(OPERATION, "agreement.*", pattern=r"at coins \[0\.0(, 0\.0)*\]")
    known = "outcome at coins [0.0, 0.0] = (1,), but should be (0,)"
    assert entry.matches(OPERATION, AGREES, known)
    assert not entry.matches(OPERATION, STRIDED, known)
    assert not entry.matches("fast_topk", AGREES, known)
    assert not entry.matches(OPERATION, AGREES, "outcome at coins [0.0, 0.5] = (1,), but should be (0,)")


def test_a_recorded_cause_holds_for_other_numbers_only():
    entry = KnownFailure(OPERATION, pattern=cause_of("output 0[1] = -3, but should be 2.5e-07\nand more"))
    assert entry.matches(OPERATION, AGREES, "output 7[0] = 4, but should be 1")
    assert not entry.matches(OPERATION, AGREES, "output 7[0] = nan, but should be 1")


def test_runs_of_several_seeds_add_up_to_causes(check, tmp_path):
    path = tmp_path / "causes.toml"
    assert check("", "--write-known", path.name, "--by-cause").exit_code == 1
    entries = read_known(path, [AGREES], Version("0.5.2"))
    assert {(entry.operation, entry.property, entry.seldom) for entry in entries} == {(OPERATION, "", False)}
    assert check(path.read_text()).exit_code == 0
    assert check(path.read_text(), "--write-known", path.name, "--by-cause", fault=0).exit_code == 1
    seldom = tuple(replace(entry, seldom=True) for entry in entries)
    assert read_known(path, [AGREES], Version("0.5.2")) == seldom
    assert check(path.read_text(), fault=0).exit_code == 0
    assert check(path.read_text(), fault="absent").exit_code == 1


def test_the_name_of_an_adapter_stands_for_the_file_beside_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    entries = read(Path("transformers"), Subject(Version("5.23.0")))
    assert {entry.operation for entry in entries} == {"chain_speculative_sampling"}
    with pytest.raises(Failed, match="no_engine: No such file"):
        read(Path("no_engine"), Subject())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("failure = 3", "known.toml holds a single failure, but should hold [[failure]] only"),
        ("[[failures]]", "known.toml holds ['failures'], but should hold [[failure]] only"),
        ("[[failure", "known.toml is no TOML: "),
        ('[[failure]]\nop = "x"', "known.toml, failure 1 has 'op', but should have some of operation, property"),
        ('[[failure]]\noperation = "map_hot_tokens"', "failure 1 has no property, reason or pattern"),
        ('[[failure]]\noperation = "map_hot"\nreason = "x"', "no operation 'map_hot'; did you mean map_hot_tokens?"),
        ('[[failure]]\nproperty = "agreement.map_hot"', "there is no property 'agreement.map_hot'; did you mean"),
        ('[[failure]]\nproperty = "agreement.*"', "should say by which reason or pattern they fail"),
        (AGREEMENT + 'pattern = "("', "pattern is '(', which is no regular expression"),
        (AGREEMENT + "versions = 3", "versions is 3, but should be a text"),
        (AGREEMENT + 'versions = "about 3"', "versions is 'about 3', but should be as in '>=0.5,<0.6'"),
        (AGREEMENT + 'device = "tpu"', "device is 'tpu', but should be cpu or gpu"),
        (AGREEMENT + "seldom = 1", "seldom is 1, but should be true or false"),
        (AGREEMENT + 'expires = "soon"', "expires is 'soon', but should be a date, as in 2027-01-31"),
    ],
)
def test_a_file_that_makes_no_sense_is_one_line(check, text, message):
    got = check(text)
    assert (got.exit_code, got.stdout) == (2, "")
    assert message in got.stderr and len(got.stderr.splitlines()) == 1
