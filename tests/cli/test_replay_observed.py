"""``specsim replay --observed``: recorded calls, planted faults among them, against the reference."""

import json
import runpy
import sys
from pathlib import Path

import numpy as np
import pytest

from specsim import reference
from specsim.conformance.backend import load
from specsim.conformance.cases import Case, case_arguments, write_case
from specsim.conformance.outcomes import Observation, observe
from specsim.conformance.stored import OBSERVED, Provenance

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"
ORACLE = load("specsim.reference")
TOKENS, COUNTS = np.array([[5, 6], [7, 0]], dtype=np.int32), np.array([2, 1], dtype=np.int32)
BONUS = {"accept_tokens": TOKENS, "num_accepted_tokens": COUNTS}


@pytest.fixture
def write(tmp_path):
    """Return a function that writes a recorded call into the folder ``calls``."""

    def write_one(operation, values, observed=None, **fields):
        arguments = case_arguments(operation, values)
        got = observed or observe(ORACLE, operation, arguments)
        provenance = Provenance("not_there_at_all", 0)
        case = Case(operation, "agreement.x", arguments, Observation(), got, "", provenance, OBSERVED, **fields)
        folder = tmp_path / "calls"
        return write_case(case, folder, f"{operation}-{len(list(folder.glob('*.json'))) if folder.exists() else 0}")

    return write_one


def outcome_of(specsim, path):
    got = specsim("replay", path, "--observed", "--json")
    (one,) = json.loads(got.stdout)["cases"]
    return got.exit_code, one["outcome"], one["difference"]


def test_recorded_calls_that_agree_are_counted_and_no_implementation_is_imported(specsim, write):
    write("fill_bonus_tokens", BONUS)
    write("fast_topk", {"values": np.array([[1.0, 2.0]], dtype=np.float32), "k": 1})
    got = specsim("replay", "calls", "--observed")
    assert got.exit_code == 0, got.output
    assert [line.split() for line in got.stdout.splitlines()] == [
        ["operation", "recorded", "contradicted", "margin", "cases"],
        ["fast_topk", "1", "0", "0"],
        ["fill_bonus_tokens", "1", "0", "0"],
        ["2", "recorded", "calls:", "0", "contradicted"],
    ]


def test_a_call_that_is_contradicted_is_named_with_its_first_entry(specsim, write):
    write("fill_bonus_tokens", BONUS)
    path = write("fill_bonus_tokens", BONUS, Observation({"bonus_tokens": np.array([6, 9], dtype=np.int32)}))
    got = specsim("replay", "calls", "--observed")
    assert got.exit_code == 1
    assert got.stdout.startswith(
        f"x CONTRADICTED calls/{path.name}  fill_bonus_tokens\n    bonus_tokens[1] = 9, but should be 7\n"
    )
    assert got.stdout.endswith("2 recorded calls: 1 contradicted\n")


def test_entries_without_meaning_are_not_compared(specsim, write):
    values = {"values": np.arange(3), "accept_index": np.array([[0, 2]], dtype=np.int32)}
    path = write("compact_accepted_to_front", values, Observation({"compacted": np.array([0, 2, 99])}))
    assert outcome_of(specsim, path) == (0, "AGREES", "")


def test_a_decision_on_its_boundary_may_fall_either_way(specsim, write):
    """The coin is the ratio of both probabilities: to take the draft and not to take it are both right."""
    half = np.array([0.5], dtype=np.float32)
    values = {
        "draft_tokens": np.array([1]),
        "cu_num_drafts": np.array([0, 1], dtype=np.int32),
        "uniform_samples": half,
        "uniform_samples_for_final_sampling": half / 2,
        "draft_probs": np.array([[0, 1]], dtype=np.float32),
        "target_probs": np.full((2, 2), 0.5, dtype=np.float32),
        "max_num_drafts": 1,
    }
    for coin, code in ((0.5, 0), (0.75, 1)):
        taken = {"output_tokens": np.array([[1, 0]], dtype=np.int32), "num_accepted_drafts": np.ones(1, np.int32)}
        path = write("chain_speculative_sampling", {**values, "uniform_samples": 2 * coin * half}, Observation(taken))
        got = specsim("replay", path, "--observed", "--json")
        (one,) = json.loads(got.stdout)["cases"]
        assert (got.exit_code, one["margin_case"]) == (code, code == 0), one


def test_where_the_reference_fails_nothing_is_decided(specsim, write, monkeypatch):
    path = write("fill_bonus_tokens", BONUS)
    monkeypatch.setattr(reference, "fill_bonus_tokens", lambda **_: 1 / 0)
    assert outcome_of(specsim, path) == (3, "UNDECIDED", "the reference raises ZeroDivisionError: division by zero")


def test_ties_are_free_where_the_recorded_implementation_declares_it(specsim, write):
    values = {"values": np.array([[1.0, 1.0]], dtype=np.float32), "k": 1}
    other = Observation({"topk_values": np.ones((1, 1), np.float32), "topk_index": np.ones((1, 1), np.int64)})
    bound, free = (write("fast_topk", values, other, ties_are_free=is_free) for is_free in (False, True))
    assert outcome_of(specsim, bound)[:2] == (1, "CONTRADICTED")
    assert outcome_of(specsim, free) == (0, "AGREES", "")


def test_an_error_agrees_with_a_rejection_and_with_nothing_else(specsim, write):
    nan = {"values": np.array([[np.nan]], dtype=np.float32), "k": 1}
    outputs = Observation({"topk_values": np.ones((1, 1), np.float32), "topk_index": np.zeros((1, 1), np.int64)})
    assert outcome_of(specsim, write("fast_topk", nan, Observation(error="ValueError: NaN"))) == (0, "AGREES", "")
    assert outcome_of(specsim, write("fast_topk", nan, outputs)) == (
        *(1, "CONTRADICTED"),
        "fast_topk = arrays, but should be a rejection, NAN_SCORE",
    )
    assert outcome_of(specsim, write("fill_bonus_tokens", BONUS, Observation(error="ValueError: \x1b[2J"))) == (
        *(1, "CONTRADICTED"),
        "fill_bonus_tokens = ValueError: \\x1b[2J, but should be arrays",
    )


def test_a_recorded_case_is_an_ordinary_one_for_other_commands(specsim, write):
    path = write("fill_bonus_tokens", BONUS, Observation({"bonus_tokens": np.array([6, 9], dtype=np.int32)}))
    assert specsim("replay", path, "--impl", "specsim.reference").exit_code == 0
    assert "expected" in specsim("show", path).stdout


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("empty", "--observed"), 5, "empty has no case files"),
        (("empty", "--observed", "--impl", "specsim.gpu"), 2, "--observed runs no implementation, and so not specsim"),
        (("absent.json", "--observed"), 2, "absent.json"),
    ],
)
def test_what_cannot_be_compared_is_one_line(specsim, tmp_path, arguments, code, words):
    (tmp_path / "empty").mkdir()
    got = specsim("replay", *arguments)
    assert (got.exit_code, got.stdout, got.stderr.count("\n")) == (code, "", 1)
    assert words in got.stderr


@pytest.mark.parametrize("is_broken", [False, True], ids=["right", "broken"])
def test_the_example_of_the_page_is_recorded_and_compared(specsim, tmp_path, monkeypatch, capsys, is_broken):
    kernels = (EXAMPLES / "my_kernels.py").read_text()
    broken = kernels.replace("num_accepted_tokens[:, None] - 1", "num_accepted_tokens[:, None] % 4")
    (tmp_path / "my_kernels.py").write_text(broken if is_broken else kernels)
    monkeypatch.delitem(sys.modules, "my_kernels", raising=False)
    runpy.run_path(str(EXAMPLES / "recorded_engine.py"), run_name="__main__")
    sys.modules.pop("my_kernels")
    assert capsys.readouterr().out.splitlines() == [
        "the first 10 calls of each operation, and 10 of all later ones drawn with seed 0",
        "fill_bonus_tokens: 20 of 100 calls kept",
    ]
    got = specsim("replay", "calls", "--observed")
    assert got.exit_code == int(is_broken)
    assert ("x CONTRADICTED" in got.stdout) == is_broken
    assert got.stdout.endswith(f"20 recorded calls: {20 if is_broken else 0} contradicted\n")
