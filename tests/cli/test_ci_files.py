"""``--junit`` and ``--summary``: files that CI systems read, of each verdict."""

import re
from xml.etree import ElementTree

import pytest

from specsim.cli.ci_files import Ended, Outcome, Tried, junit_of, summary_of

FAULTY = """
from specsim.reference import fast_topk


def fill_bonus_tokens(accept_tokens, num_accepted_tokens):
    return accept_tokens[:, 0].copy()
"""
PROPERTIES = ("agreement.fill_bonus_tokens", "strided.fill_bonus_tokens", "agreement.fast_topk", "agreement.build_tree")
HOSTILE = Ended(
    "specsim check <\x1b[2J>",
    "fails",
    "fails: 3 examples, because of ]]> & `that`",
    (
        Tried("a.b", "passed", Outcome.PASSED),
        Tried("a.b", "failed", Outcome.FAILED, 'got "\x00\ufffe"\nand more', "```\n<x> & \x07 \ud800\n````"),
        Tried("a.b", "skipped", Outcome.SKIPPED, "missing: b"),
        Tried("a.b", "error", Outcome.ERROR, "too few samples"),
    ),
)


def outcomes_in(path):
    """Return the outcome and the message of each test in a file of JUnit's XML."""
    root = ElementTree.parse(path).getroot()
    found = {}
    for case in root.iter("testcase"):
        said = [(child.tag, child.get("message")) for child in case]
        found[case.get("name")] = said[0] if said else ("passed", None)
    assert int(root.get("tests")) == len(list(root.iter("testcase")))
    for name, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        assert int(root.get(name)) == len(list(root.iter(tag)))
    return found


def test_text_of_others_makes_no_bad_document(tmp_path):
    (tmp_path / "report.xml").write_text(junit_of(HOSTILE), "utf-8")
    assert outcomes_in(tmp_path / "report.xml") == {
        "passed": ("passed", None),
        "failed": ("failure", 'got "\\x00\\ufffe"\\nand more'),
        "skipped": ("skipped", "missing: b"),
        "error": ("error", "too few samples"),
    }
    text = summary_of(HOSTILE)
    assert "| failed | 1 |\n| inconclusive | 1 |\n| skipped | 1 |\n| passed | 1 |\n" in text
    assert "`````text\n```\n<x> & \\x07 \\ud800\n````\n`````\n" in text, "a fence is longer than those inside"
    assert "**fails**: 3 examples, because of \\]\\]\\> & \\`that\\`" in text


@pytest.mark.parametrize("verdict", ["inconclusive", "interrupted", "nothing selected", "not run"])
def test_a_verdict_that_no_test_has_is_a_test(tmp_path, verdict):
    ended = Ended("specsim check x", verdict, f"{verdict}: 0 examples", (), ("it was cut",)).with_verdict()
    (tmp_path / "report.xml").write_text(junit_of(ended))
    assert outcomes_in(tmp_path / "report.xml") == {"verdict": ("error", f"{verdict}: 0 examples")}
    assert "it was cut" in junit_of(ended) and "it was cut" in summary_of(ended)


def test_check_and_replay_write_each_property_and_case(specsim, tmp_path):
    (tmp_path / "faulty_for_ci.py").write_text(FAULTY)
    chosen = [word for name in PROPERTIES for word in ("--property", name)]
    files = ("--junit", "report.xml", "--summary", "report.md")
    got = specsim("check", "faulty_for_ci", *chosen, "--examples", 5, "--seed", 1, *files)
    assert got.exit_code == 1, got.output
    found = outcomes_in("report.xml")
    assert sorted(found) == sorted(PROPERTIES)
    assert found["agreement.build_tree"] == ("skipped", "missing: build_tree")
    assert found["agreement.fast_topk"] == ("passed", None)
    tag, message = found["agreement.fill_bonus_tokens"]
    assert tag == "failure" and message.startswith("fill_bonus_tokens: bonus_tokens[0] = ")
    (replay,) = set(re.findall(r"specsim replay (\S+) --impl faulty_for_ci", got.stdout))
    for name in ("report.xml", "report.md"):
        text = (tmp_path / name).read_text()
        assert f"specsim replay {replay} --impl faulty_for_ci" in text and "smallest case:" in text
    assert "**fails**: " in (tmp_path / "report.md").read_text()
    assert specsim("replay", replay, "--impl", "faulty_for_ci", *files).exit_code == 1
    assert outcomes_in("report.xml")[replay][0] == "failure"


def test_a_run_that_cannot_start_is_written(specsim, tmp_path):
    got = specsim("check", "no_such_module_for_ci", "--junit", "report.xml", "--summary", "report.md")
    assert got.exit_code == 4
    tag, message = outcomes_in(tmp_path / "report.xml")["verdict"]
    assert tag == "error" and message in got.stderr
    assert "**not run**" in (tmp_path / "report.md").read_text()


@pytest.mark.parametrize("option", ["--junit", "--summary"])
def test_a_file_that_cannot_be_written_is_named_before_anything_runs(specsim, tmp_path, option):
    got = specsim("check", "specsim.reference", option, tmp_path / "nowhere" / "report")
    assert (got.exit_code, got.stdout) == (2, "")
    assert got.stderr == f"specsim: {option} {tmp_path / 'nowhere' / 'report'}: No such file or directory\n"


def test_soak_and_matrix_write_machines_and_cells(specsim, tmp_path):
    files = ("--junit", "report.xml", "--summary", "report.md")
    assert specsim("soak", "--steps", 20, "--seed", 1, *files).exit_code == 0
    assert outcomes_in("report.xml") == {"all": ("passed", None)}
    cell = "v1-page1-topk1-mha"
    assert specsim("matrix", "--cell", cell, "--histories", 1, "--seed", 1, *files).exit_code == 0
    assert outcomes_in("report.xml")[cell] == ("passed", None)
    assert "**conforms**: 1 cells" in (tmp_path / "report.md").read_text()
    for command in (("soak", "--exhaustive"), ("replay", "case.json", "--observed")):
        assert specsim(*command, *files).exit_code == 2
