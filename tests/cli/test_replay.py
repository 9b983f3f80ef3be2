"""Whom a case is replayed against: whom the user names; the module that a case names is shown."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from specsim.conformance.backend import load
from specsim.conformance.cases import Case, case_arguments, write_case
from specsim.conformance.outcomes import Observation, observe
from specsim.conformance.stored import Provenance
from specsim.conformance.stored_laws import StoredLaw
from specsim.properties.suite.conformance.explained import replay_line

STRANGER = """
open("imported", "w").close()

def fill_bonus_tokens(accept_tokens, num_accepted_tokens):
    return accept_tokens[:, 0].copy()
"""
PLAIN_ALONE = """
import numpy as np

def fill_bonus_tokens(accept_tokens, num_accepted_tokens):
    size = accept_tokens.itemsize
    rows = np.lib.stride_tricks.as_strided(accept_tokens, strides=(accept_tokens.shape[1] * size, size))
    return np.take_along_axis(rows, num_accepted_tokens[:, None] - 1, axis=1)[:, 0]
"""
NAME = "fill_bonus_tokens"


def case_of(implementation, tokens=((5, 6),), expected=None):
    values = {
        "accept_tokens": np.array(tokens, dtype=np.int32),
        "num_accepted_tokens": np.array([2] * len(tokens), dtype=np.int32),
    }
    arguments = case_arguments(NAME, values)
    expected = expected or observe(load("specsim.reference"), NAME, arguments)
    observed = Observation({"bonus_tokens": np.array([5], dtype=np.int32)})
    return Case(NAME, f"agreement.{NAME}", arguments, expected, observed, "words", Provenance(implementation, 7))


def test_what_does_not_fit_a_law_is_one_line(specsim, tmp_path):
    name = "sampling_law.tree_emits_the_targets_law"
    path = write_case(replace(case_of("mine"), property_name=name, law=StoredLaw({"a": 1})), tmp_path)
    got = specsim("replay", path)
    words = f"law.given, KeyError: 'a', but should be what {name} takes, because it is handed over"
    assert (got.exit_code, got.stdout) == (2, "")
    assert got.stderr == f"specsim: BAD_CASE_FILE: {path} is {words}\n"


@pytest.fixture
def case(tmp_path):
    """Return the path of a case that names a module in the folder where it lies."""
    (tmp_path / "of_a_stranger.py").write_text(STRANGER)
    return write_case(case_of("of_a_stranger"), tmp_path)


def test_the_module_that_a_case_names_is_shown_and_not_imported(specsim, case, tmp_path):
    got = specsim("replay", case)
    assert got.exit_code == 0, got.output
    line = f"+ HOLDS HERE {case}  agreement.{NAME}  on specsim.gpu, recorded of of_a_stranger\n"
    assert (got.stdout, (tmp_path / "imported").exists()) == (line, False)
    (entry,) = json.loads(specsim("replay", case, "--json").stdout)["cases"]
    assert entry == {
        "path": str(case),
        "outcome": "HOLDS_HERE",
        "difference": "",
        "implementation": "specsim.gpu",
        "recorded_of": "of_a_stranger",
    }


def test_where_kernels_cannot_run_the_reference_stands_for_them(specsim, case, monkeypatch):
    monkeypatch.setenv("TRITON_INTERPRET", "0")
    other = "gpu" if torch.cuda.is_available() else "reference"
    assert f"  on specsim.{other}, recorded of of_a_stranger\n" in specsim("replay", case).stdout


@pytest.mark.parametrize(
    ("options", "code", "line"),
    [
        (("--impl", "of_a_stranger"), 1, "x FAILED  {case}  agreement.{name}  on of_a_stranger\n"),
        (("--implementation-from-case",), 1, "x FAILED  {case}  agreement.{name}  on of_a_stranger\n"),
        (
            ("--impl", "specsim.reference"),
            0,
            "+ FIXED   {case}  agreement.{name}  on specsim.reference, recorded of of_a_stranger\n",
        ),
    ],
    ids=["named", "from case", "another named"],
)
def test_whom_the_user_asks_for_is_tried(specsim, case, options, code, line):
    got = specsim("replay", case, *options)
    assert (got.exit_code, got.stdout.splitlines(True)[0]) == (code, line.format(case=case, name=NAME)), got.output


@pytest.mark.parametrize("other", [("--impl", "specsim.gpu"), ("--observed",)])
def test_one_way_to_name_a_module_is_enough(specsim, case, tmp_path, other):
    got = specsim("replay", case, "--implementation-from-case", *other)
    assert (got.exit_code, got.stdout, got.stderr.count("\n")) == (2, "", 1)
    assert not (tmp_path / "imported").exists()


def test_a_case_of_ours_is_fixed(specsim, tmp_path):
    path = write_case(case_of("specsim.gpu"), tmp_path)
    assert specsim("replay", path).stdout == f"+ FIXED   {path}  agreement.{NAME}  on specsim.gpu\n"


def test_words_of_a_case_are_shown_in_one_line(specsim, tmp_path):
    path = write_case(case_of("specsim.gpu", expected=Observation(error="E: \x1b[2J\n+ FIXED \u202ex")), tmp_path)
    got = specsim("replay", path, "--impl", "specsim.reference")
    assert got.exit_code == 1
    assert [line.isprintable() for line in got.stdout.splitlines()] == [True, True]
    assert r"should be E: \x1b[2J\n+ FIXED \u202ex" in got.stdout


def test_a_failure_on_views_is_kept_and_replayed_as_one(specsim, tmp_path):
    (tmp_path / "plain_alone.py").write_text(PLAIN_ALONE)
    chosen = (f"--property=strided.{NAME}", f"--property=mutation.{NAME}", f"--property=agreement.{NAME}")
    got = specsim("check", "plain_alone", "--seed", 1, "--examples", 40, *chosen)
    (line,) = {line.strip() for line in got.stdout.splitlines() if line.strip().startswith("specsim replay")}
    _, command, path, *options = line.split()
    assert options == ["--impl", "plain_alone"]
    assert "layout" in Path(path).read_text()
    again = specsim(command, path, *options)
    assert (again.exit_code, again.stdout[:8]) == (1, "x FAILED"), again.output


def test_the_line_that_replays_can_be_pasted(tmp_path):
    path = tmp_path / "a folder" / "x.json"
    assert replay_line(path, "mine") == f"specsim replay '{path}' --impl mine"
