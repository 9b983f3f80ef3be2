"""Why a run is inconclusive: in the last line, and in JSON under ``inconclusive_because``, by every command."""

import json
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from specsim import reference
from specsim.cli import matrix as matrix_command
from specsim.cli import replay as replay_command
from specsim.cli import soak as soak_command
from specsim.cli.output import last_line, verdict_of
from specsim.cli.replay import replay_in_worker
from specsim.conformance.backend import load
from specsim.conformance.cases import Case, case_arguments, write_case
from specsim.conformance.outcomes import observe
from specsim.conformance.stored import Provenance
from specsim.properties.laws.frequencies import Inconclusive
from specsim.properties.matrix.plan import Plan
from specsim.properties.matrix.run import MatrixRun, Result
from specsim.properties.soak.run import Soak, Soaked
from specsim.properties.suite import catalogue
from specsim.properties.suite.catalogue import properties_by_name
from specsim.properties.suite.hunt import matrix as kill_matrix
from specsim.properties.suite.hunt.hunt import Kill
from specsim.properties.suite.hunt.matrix import Matrix

NAME = "fill_bonus_tokens"
BECAUSE = ["its worker never ran", "its drafter never ran"]
ENDS = ", because its worker never ran; its drafter never ran"


def test_the_first_reasons_are_whole_and_the_others_are_counted(monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    words = "2 properties were cut before their first example was through: law.one, law.two"
    assert last_line("inconclusive", "5 examples", [words]) == f"inconclusive: 5 examples, because {words}"
    assert last_line("inconclusive", "5 examples", [*BECAUSE, words, "d", "e"]) == (
        f"inconclusive: 5 examples, because its worker never ran; its drafter never ran; {words}; and 2 more reasons"
    )
    assert last_line("inconclusive", "5 examples", ["word " * 100]).endswith(" word  …")
    assert last_line("inconclusive", "5 examples", ["a\x1b[2Jb"]) == "inconclusive: 5 examples, because a\\x1b[2Jb"


def test_no_other_verdict_has_reasons():
    assert last_line("fails", "5 examples", BECAUSE) == "fails: 5 examples"
    assert last_line("conforms", "5 examples", []) == "conforms: 5 examples"


def test_what_is_wrong_comes_before_what_is_undecided():
    reported = {"wrong": ["x"], "because": BECAUSE}
    assert verdict_of(is_interrupted=True, **reported) == "interrupted"
    assert verdict_of(is_interrupted=False, **reported) == "fails"
    assert verdict_of(is_interrupted=False, **{**reported, "wrong": []}) == "inconclusive"
    assert verdict_of(is_interrupted=False, wrong=[], because=[]) == "conforms"


def both(specsim, *command):
    """Return the last line of a command that ends with 3, and the reasons in its document."""
    plain, document = specsim(*command), specsim(*command, "--json")
    assert (plain.exit_code, document.exit_code) == (3, 3), plain.output
    return plain.stdout.splitlines()[-1], json.loads(document.stdout)["inconclusive_because"]


def test_check_says_which_properties_had_no_time(specsim, tmp_path):
    (tmp_path / "without_time.py").write_text("def fill_bonus_tokens(accept_tokens, num_accepted_tokens): ...\n")
    options = [word for kind in ("agreement", "strided") for word in ("--property", f"{kind}.{NAME}")]
    line, because = both(specsim, "check", "without_time", *options, "--budget", 0.001, "--seed", 7)
    cut = f"2 properties were cut before their first example was through: agreement.{NAME}, strided.{NAME}"
    assert because == [cut]
    assert line == f"inconclusive: 0 examples, seed 7, because {cut}"


@contextmanager
def no_workers(*ignored):
    yield


def test_soak_and_matrix(specsim, monkeypatch):
    monkeypatch.setattr(soak_command, "engine_workers", no_workers)
    monkeypatch.setattr(Soak, "run_machine", lambda self, supervisor, number: Soaked(7, inconclusive_because=BECAUSE))
    assert both(specsim, "soak", "--seed", 7, "--machine", 0) == (f"inconclusive: 0 steps, seed 7{ENDS}", BECAUSE)
    failing = Soaked(7, stopped="too many", inconclusive_because=BECAUSE)
    monkeypatch.setattr(Soak, "run", lambda *ignored: failing)
    got = specsim("soak", "--seed", 7, "--json")
    assert (got.exit_code, json.loads(got.stdout)["inconclusive_because"]) == (1, [])

    monkeypatch.setattr(matrix_command, "engine_workers", no_workers)
    monkeypatch.setattr(
        MatrixRun, "plan", lambda self, profile, cells, is_whole: Plan((cells[0],), (cells[0],), {}, ())
    )
    monkeypatch.setattr(MatrixRun, "run", lambda *ignored: Result(7, inconclusive_because=BECAUSE))
    assert both(specsim, "matrix", "--seed", 7) == (f"inconclusive: 0 cells, 0 histories, seed 7{ENDS}", BECAUSE)


def test_mutants(specsim, monkeypatch):
    found = Matrix((5,), {"B03": ((Kill("tree.a", 2),),)}, (), tuple(BECAUSE))
    monkeypatch.setattr(kill_matrix, "kill_matrix", lambda **ignored: found)
    line = f"inconclusive: 1 of 1 mutants killed, seed 5{ENDS}"
    assert both(specsim, "mutants", "--seed", 5) == (line, BECAUSE)
    alive = replace(found, by_seed={"B03": ((),)})
    monkeypatch.setattr(kill_matrix, "kill_matrix", lambda **ignored: alive)
    got = specsim("mutants", "--seed", 5, "--json")
    document = json.loads(got.stdout)
    assert (got.exit_code, document["verdict"], document["inconclusive_because"]) == (1, "fails", [])


@pytest.fixture
def path(tmp_path):
    """Return where a case lies that names no module that there is."""
    rows = {"accept_tokens": [[5, 6]], "num_accepted_tokens": [2]}
    arguments = case_arguments(NAME, {name: np.array(value, dtype=np.int32) for name, value in rows.items()})
    expected = observe(load("specsim.reference"), NAME, arguments)
    provenance = Provenance("specsim.reference", 7)
    return write_case(Case(NAME, f"agreement.{NAME}", arguments, expected, expected, "words", provenance), tmp_path)


def test_a_recorded_call_that_the_reference_cannot_judge(specsim, path, monkeypatch):
    monkeypatch.setattr(reference, NAME, lambda **_: 1 / 0)
    line, because = both(specsim, "replay", path, "--observed")
    assert because == [f"{path.name}: the reference raises ZeroDivisionError: division by zero"]
    assert line.startswith(f"inconclusive: 1 recorded calls: 0 contradicted, 1 undecided, because {path.name}")


def test_a_replayed_law_that_has_too_few_samples_is_undecided(specsim, path, monkeypatch):
    def law(backend, case: dict[str, Any]):
        raise Inconclusive("80 samples notice w = 0.15")

    undecided = replace(properties_by_name()[f"agreement.{NAME}"], law=law)
    monkeypatch.setattr(catalogue, "properties_by_name", lambda: {undecided.name: undecided})
    reported = ("UNDECIDED", "80 samples notice w = 0.15")
    assert replay_in_worker(str(path), "specsim.reference") == reported
    monkeypatch.setattr(replay_command, "_run", lambda *ignored: reported)
    line, because = both(specsim, "replay", path)
    assert because == [f"{path}: 80 samples notice w = 0.15"]
    assert line.startswith("inconclusive: 1 cases, because ")


def test_a_situation_that_no_example_came_to_is_a_reason_with_reach_only(specsim):
    agreement = "agreement.verify_tree_greedy"
    command = ("check", "specsim.reference", "--property", agreement, "--examples", 1, "--seed", 1)
    assert specsim(*command).exit_code == 0
    found = specsim(*command, "--reach")
    assert "equal siblings" in found.stdout and "0 of 1" in found.stdout
    assert f"because {agreement} never met " in found.stdout.splitlines()[-1]
    reached = json.loads(specsim(*command, "--reach", "--json").stdout)
    assert reached["verdict"] == "inconclusive" and reached["properties"][agreement]["tags"]["equal siblings"] == 0
