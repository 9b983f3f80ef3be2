"""``show --svg`` and ``simulate --timeline``: what is written, and what becomes of a run that cannot be drawn."""

import json
from pathlib import Path

import pytest

from specsim.conformance.cases import read_case, write_case
from specsim.conformance.pictures import draw_case
from tests.specsim.conformance.some_cases import bonus_case
from tests.specsim.pictures.parsed import boxes_of, texts_of

RUN = ("simulate", "--requests", 2, "--max-new-tokens", 6, "--steps", 2, "--topk", 1, "--draft-tokens", 3)
FULL = Path("/dev/full")


def test_show_writes_the_picture_of_a_case_beside_its_text(specsim, tmp_path):
    path = write_case(bonus_case(), tmp_path)
    plain = specsim("show", path)
    got = specsim("show", path, "--svg", "case.svg")
    assert (got.exit_code, got.stdout, got.stderr) == (0, plain.stdout, "")
    assert (tmp_path / "case.svg").read_text("utf-8") == draw_case(read_case(path))


@pytest.mark.parametrize("subject", [("fast_topk",), ("--law", "agreement.fast_topk"), ("--fault", "M.1")])
def test_show_draws_cases_alone(specsim, subject):
    got = specsim("show", *subject, "--svg", "case.svg")
    assert (got.exit_code, got.stderr) == (2, "specsim: --svg draws a case file, and none is given\n")
    assert not Path("case.svg").exists()


def test_show_refuses_a_path_that_cannot_be_written(specsim, tmp_path):
    path = write_case(bonus_case(), tmp_path)
    got = specsim("show", path, "--svg", "nowhere/case.svg")
    expected = "specsim: --svg nowhere/case.svg: No such file or directory\n"
    assert (got.exit_code, got.stdout, got.stderr) == (2, "", expected)


def test_simulate_writes_the_timeline_of_the_run(specsim, tmp_path):
    plain = specsim(*RUN, "--json")
    got = specsim(*RUN, "--json", "--timeline", "run.svg")
    assert (got.exit_code, got.stdout) == (0, plain.stdout)
    svg = (tmp_path / "run.svg").read_text("utf-8")
    figures = json.loads(got.stdout)
    verified = [box.lines[0] for box in boxes_of(svg, "activity") if box.marks["activity"] == "verify"]
    assert len(verified) == figures["spec_verify_ct"]
    assert sum(int(label.split("/")[0]) for label in verified) == figures["num_accepted_drafts"]
    assert sum("ends" in box.marks for box in boxes_of(svg, "activity")) == 2
    assert texts_of(svg)[0] == "simulate: 2 requests, EAGLE on the reference worker"


def test_overlap_draws_streams_beside_each_other(specsim, tmp_path):
    specsim(*RUN, "--overlap", "--timeline", "run.svg")
    streams = [box.marks["streams"] for box in boxes_of((tmp_path / "run.svg").read_text("utf-8"), "streams")]
    assert streams.count("overlapped") > streams.count("in turn")


def test_an_unwritable_timeline_is_refused_before_the_run(specsim):
    got = specsim(*RUN, "--timeline", "nowhere/run.svg")
    expected = "specsim: --timeline nowhere/run.svg: No such file or directory\n"
    assert (got.exit_code, got.stdout, got.stderr) == (2, "", expected)


@pytest.mark.skipif(not FULL.exists(), reason="this system has no /dev/full")
def test_a_timeline_that_cannot_be_written_after_the_run_leaves_the_verdict(specsim):
    plain = specsim(*RUN)
    got = specsim(*RUN, "--timeline", FULL)
    assert (got.exit_code, got.stdout) == (0, plain.stdout)
    assert got.stderr == "--timeline /dev/full: No space left on device; it is not written\n"
