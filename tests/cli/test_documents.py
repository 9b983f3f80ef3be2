"""The JSON documents of check, soak and matrix have one shape."""

import json
from dataclasses import fields

import pytest

from specsim.cli.documents import SCHEMA, FailureRecord, PropertyRecord
from specsim.properties.matrix.factors import cell_named
from specsim.properties.matrix.plan import Plan
from specsim.properties.matrix.run import CellResult, Result
from specsim.properties.matrix.verdict import why_inconclusive
from specsim.properties.suite.catalogue import property_named
from specsim.properties.suite.conformance import running
from specsim.properties.suite.conformance.report import NOTHING_DRAFTED, PropertyReport, assemble
from specsim.properties.suite.conformance.units import together

LAW = "engine.output_equals_autoregressive_decoding"
CELL = "v2-page4-topk1-mha-chunks"
REFERENCE = "specsim.reference"
SCHEDULED = "scheduled_engine.schedules_change_no_token"
COMMANDS = {
    "check": (
        ("check", "{}", "--property", SCHEDULED, "--examples", 80, "--seed", 1),
        SCHEDULED,
    ),
    "soak": (("soak", "{}", "--steps", 60, "--seed", 2, "--replays", 5), "machines"),
    "matrix": (
        ("matrix", "{}", "--cell", CELL, "--histories", 1, "--seed", 7, "--replays", 5),
        f"cells.as it is.{CELL}",
    ),
}
"""Of each command its arguments, and a property that runs engines."""

RECORD = {field.name for field in fields(FailureRecord)}
PROPERTY = {field.name for field in fields(PropertyRecord)} | {"vacuous"}
DRAFTS = {"proposed", "verified", "accepted", "rejected", "cut"}


def document_of(specsim, command, module):
    arguments, name = COMMANDS[command]
    got = specsim(*(module if one == "{}" else one for one in arguments), "--json")
    assert got.stdout.startswith("{"), got.output
    return got.exit_code, json.loads(got.stdout), name


def require_shape(document):
    assert document["schema"] == SCHEMA == 1
    for record in document["failure_records"]:
        assert record.keys() == RECORD
        assert record["property"] in document["properties"] and record["message"]
        assert record["fate"] in ("FAILED", "CRASHED", "TIMED OUT")
    failed = {record["property"] for record in document["failure_records"]}
    for name, one in document["properties"].items():
        assert one.keys() >= PROPERTY
        assert one["failed"] == (name in failed)
        assert one["seconds"] >= 0 and one["examples"] >= 0
        assert one["failed"] or one["first_failed"] is None
        assert one["drafts"] is None or one["drafts"].keys() == DRAFTS


@pytest.mark.parametrize("command", COMMANDS)
def test_a_run_that_conforms(specsim, command):
    code, document, name = document_of(specsim, command, REFERENCE)
    require_shape(document)
    assert (code, document["verdict"], document["failure_records"]) == (0, "conforms", [])
    one = document["properties"][name]
    assert one["examples"] > 0 and one["seconds"] > 0 and not one["vacuous"]
    drafts = one["drafts"]
    assert drafts["proposed"] == drafts["verified"] + drafts["cut"] > 0
    assert drafts["verified"] == drafts["accepted"] + drafts["rejected"]
    assert drafts["accepted"] > 0 < drafts["rejected"]


@pytest.mark.parametrize("command", COMMANDS)
def test_a_run_that_fails(specsim, command, cutting):
    cutting(f"cutting_{command}")
    code, document, name = document_of(specsim, command, f"cutting_{command}")
    require_shape(document)
    assert (code, document["verdict"]) == (1, "fails")
    (record,) = (one for one in document["failure_records"] if one["property"] == name)
    assert record["fate"] == "FAILED" and ", but should be " in record["message"]
    assert record["example"] == document["properties"][name]["first_failed"] is not None
    assert record["replay"].startswith(f"specsim {command} cutting_{command} --seed ")
    assert (record["history"] is None) == (command == "check")


@pytest.mark.parametrize(("command", "kind"), [("check", list), ("soak", int), ("matrix", int)])
def test_failures_keep_the_form_that_they_had(specsim, command, kind):
    _, document, _ = document_of(specsim, command, REFERENCE)
    assert document["failures"] == kind()


def test_what_is_wrong_with_a_lost_process_is_its_fate(specsim, tmp_path):
    source = "import os\n\ndef fill_bonus_tokens(accept_tokens, num_accepted_tokens):\n    os._exit(3)\n"
    (tmp_path / "dying.py").write_text(source)
    arguments = ("--property", "agreement.fill_bonus_tokens", "--examples", 3, "--seed", 1, "--json")
    document = json.loads(specsim("check", "dying", *arguments).stdout)
    require_shape(document)
    (record,) = document["failure_records"]
    assert (record["fate"], record["example"]) == ("CRASHED", 1)
    assert document["failures"] == [record]


DRAFTED = {"proposed": 4, "verified": 4, "accepted": 1, "rejected": 3, "cut": 0}
NONE_DRAFTED = dict.fromkeys(DRAFTED, 0)


def test_a_law_in_which_nothing_was_drafted_is_inconclusive():
    law = property_named(LAW)
    for drafts, verdict in ((NONE_DRAFTED, "inconclusive"), (DRAFTED, "conforms"), ({}, "conforms")):
        report = assemble(REFERENCE, 1, [law], {LAW: PropertyReport(2, False, False, drafts=drafts)}, {}, {})
        assert report.verdict == verdict
        assert report.inconclusive_because == ((f"{LAW}: {NOTHING_DRAFTED}",) if drafts is NONE_DRAFTED else ())


def test_rounds_of_a_law_draft_together_and_fail_at_their_example_in_order():
    first = PropertyReport(3, False, False, drafts=NONE_DRAFTED, seconds=0.5)
    second = PropertyReport(5, True, False, drafts=DRAFTED, seconds=0.25, first_failed=2)
    both = together([first, second])
    assert (both.drafts, both.seconds, both.first_failed) == (DRAFTED, 0.75, 5)
    assert first.is_vacuous and not both.is_vacuous


def test_a_cell_in_which_nothing_was_drafted_is_inconclusive():
    cell = CellResult(cell_named(CELL), "as it is", num_histories=1)
    cell.drafts.update(NONE_DRAFTED)
    plan = Plan((), (), {}, ())
    assert why_inconclusive(plan, Result(1, [cell]), is_part=True)[-1] == f"nothing was drafted in {CELL}, as it is"


def test_a_law_whose_first_example_drafts_nothing_gets_more(monkeypatch):
    """The smallest case is a request that ends with its first token."""
    from specsim.conformance.backend import load

    law, backend = property_named(LAW), load(REFERENCE)
    report, failure = running.run_property(law, backend, 1, 1)
    assert failure is None and report.examples > 1 and report.drafts["proposed"] > 0
    monkeypatch.setattr(running, "MOST_LOOKS", 0)
    report, failure = running.run_property(law, backend, 1, 1)
    assert failure is None and report.examples == 1 and report.is_vacuous
