import json
import re
import subprocess
import sys
from dataclasses import replace

import pytest

from specsim.conformance.backend import load
from specsim.operations import MODEL_TABLE, TABLE
from specsim.properties.property import FEWEST_FOR_WEIGHTY
from specsim.properties.suite.catalogue import all_properties
from specsim.properties.suite.conformance.selection import brings_models, is_selected

GOOD = """
import numpy as np
def per_step_draft_out_cache_loc(out_cache_loc, topk, num_steps):
    return np.ascontiguousarray(out_cache_loc.reshape(-1, num_steps).T)
"""
TRANSPOSED = """
def per_step_draft_out_cache_loc(out_cache_loc, topk, num_steps):
    return out_cache_loc.reshape(num_steps, -1).copy()
"""
QUICK_LOOK = ("--examples", FEWEST_FOR_WEIGHTY - 1, "--slow-examples", 1)
"""Everything but the properties that are as long as many others: tests/test_kernels_ci.py runs those."""

RAISES = """
def per_step_draft_out_cache_loc(out_cache_loc, topk, num_steps):
    raise KeyError("no such thing")
"""


@pytest.fixture
def module(tmp_path, request):
    """Return a function that writes a module whose name no other test uses."""

    def write(source):
        name = f"kernels_of_{request.node.name.replace('[', '_').rstrip(']')}"
        (tmp_path / f"{name}.py").write_text(source)
        return name

    return write


def test_a_module_that_conforms(specsim, module):
    name = module(GOOD)
    got = specsim("check", name, *QUICK_LOOK, "--seed", 3)
    assert got.exit_code == 0, got.output
    lines = got.stdout.splitlines()
    assert lines[0].startswith(f"{name} on ") and lines[0].endswith("seed 3")
    assert lines[-1].startswith("conforms: ") and lines[-1].endswith("seed 3")
    assert f"{name} defines 1 of {len(TABLE)} operations\n" in got.stdout
    assert f"missing: {len(TABLE) - 1} of {len(TABLE)}; --all lists them\n" in got.stdout


def test_operations_of_the_toy_models_are_missed_only_by_who_is_asked_for_them(specsim, module):
    name = module(GOOD)
    quick = ("--examples", 1, "--slow-examples", 1, "--seed", 3, "--json")
    unasked, asked = (json.loads(specsim("check", name, *quick, *more).stdout) for more in ((), ("--models",)))
    assert list(unasked["operations"]) == list(TABLE)
    assert list(asked["operations"]) == [*TABLE, *MODEL_TABLE]
    assert asked["operations"]["target_forward"] == {
        **{"examples": 0, "failures": 0, "missing": True},
        **{"left_out": {}, "margin_cases": 0},
    }
    assert "agreement.target_forward" in asked["properties"].keys() - unasked["properties"].keys()
    assert unasked["verdict"] == asked["verdict"] == "conforms"
    whole_runs = {one.name for one in all_properties() if one.fills_missing}
    assert whole_runs <= unasked["properties"].keys(), "whole runs take the models from the reference"
    words = specsim("check", name, "--models", "--examples", 1, "--slow-examples", 1, "--seed", 3, "--all").stdout
    listed = [line.split()[0] for line in words.splitlines() if line.endswith(" missing")]
    assert {"build_tree", "target_forward"} <= {*listed} and len(listed) == len(TABLE) + len(MODEL_TABLE) - 1
    assert "--all lists them" not in words
    assert f"defines 1 of {len(TABLE)} operations, 0 of {len(MODEL_TABLE)} model operations\n" in words


def test_who_brings_a_worker_or_one_operation_of_the_models_is_checked_with_them(module, monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(tmp_path)
    one = load(module("def hash_target_logits(hidden_states, vocab_size, seed): ..."))
    none = replace(load("specsim.reference"), functions={"fast_topk": len})
    names = {name: name in MODEL_TABLE for name in (*TABLE, *MODEL_TABLE)}
    for backend, expected in (
        (load("specsim.gpu"), True),
        (load("specsim.reference"), True),
        (one, True),
        (replace(none, worker=object), True),
        (none, False),
    ):
        assert brings_models(backend) is expected
        for name, is_of_models in names.items():
            agreement = next(each for each in all_properties() if each.name == f"agreement.{name}")
            assert is_selected(agreement, backend) is (expected or not is_of_models), name
            assert is_selected(agreement, backend, with_models=True)
            assert is_selected(agreement, backend, [name])


def without_seconds(text):
    return re.sub(r'"seconds": [0-9.e-]+', '"seconds": 0', text)


def test_a_failure_is_shrunk_saved_and_replayed_and_the_same_seed_gives_the_same_report(specsim, module, tmp_path):
    name = module(TRANSPOSED)
    kept = ("--seed", 3, "--json", "--cases-dir", tmp_path / "kept")
    got, second = (specsim("check", name, *QUICK_LOOK, *kept) for _ in range(2))
    assert got.exit_code == 1
    assert without_seconds(got.stdout) == without_seconds(second.stdout)
    report = json.loads(got.stdout)
    assert report["verdict"] == "fails"
    (agreement,) = (one for one in report["failures"] if one["property"].startswith("agreement."))
    assert agreement["operation"] == "per_step_draft_out_cache_loc"
    assert agreement["difference"].startswith("step_cache_loc[")
    again = specsim("replay", agreement["case"], "--impl", name)
    assert (again.exit_code, again.stdout[:8]) == (1, "x FAILED")
    fixed = specsim("replay", agreement["case"], "--impl", "specsim.reference")
    assert (fixed.exit_code, fixed.stdout[:7]) == (0, "+ FIXED")


def test_a_function_that_raises_is_a_failure(specsim, module):
    name = module(RAISES)
    got = specsim("check", name, "--examples", 5, "--seed", 3, "--json")
    assert got.exit_code == 1
    (first, *_) = json.loads(got.stdout)["failures"]
    again = specsim("replay", first["case"], "--impl", name)
    assert (again.exit_code, again.stdout[:9]) == (1, "! CRASHED")
    assert "KeyError: 'no such thing'" in again.stdout


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("import absent_engine", "ModuleNotFoundError: No module named 'absent_engine'"),
        ("def broken(:", "SyntaxError"),
        ("raise RuntimeError('no driver\\nsecond line')", "RuntimeError: no driver second line"),
        ("raise SystemExit(3)", "it exits with 3"),
        ("ARRAYS = 'cupy'", "ARRAYS is 'cupy'"),
    ],
    ids=["import", "syntax", "runtime", "exit", "arrays"],
)
def test_what_does_not_import_is_one_line(specsim, module, source, words):
    got = specsim("check", module(source))
    assert got.exit_code == 4
    assert (got.stdout, got.stderr.count("\n")) == ("", 1)
    assert words in got.stderr


def test_a_module_without_operations_selects_nothing(specsim, module):
    got = specsim("check", module("x = 1"), "--json")
    assert (got.exit_code, json.loads(got.stdout)["verdict"]) == (5, "nothing selected")


def test_an_operation_that_the_module_lacks_selects_nothing(specsim, module):
    assert specsim("check", module(GOOD), "--operation", "build_tree").exit_code == 5


def test_only_the_chosen_operations_are_reported(specsim):
    chosen = ("--operation", "fill_bonus_tokens", "--operation", "fast_topk")
    got = specsim("check", "specsim.reference", "--examples", 3, "--seed", 1, "--slow-examples", 1, "--json", *chosen)
    assert got.exit_code == 0, got.output
    assert set(json.loads(got.stdout)["operations"]) == {"fast_topk", "fill_bonus_tokens"}


@pytest.mark.parametrize("options", [("--operation", "frobnicate"), ("--examples", "0"), ("--seed", "-1"), ("--what",)])
def test_usage(specsim, options):
    got = specsim("check", "specsim.reference", *options)
    assert (got.exit_code, got.stdout) == (2, "")


def test_prints_of_the_implementation_stay_out_of_the_document(tmp_path):
    (tmp_path / "chatty.py").write_text(
        "from specsim.reference import fill_bonus_tokens as correct\n"
        "def fill_bonus_tokens(accept_tokens, num_accepted_tokens):\n"
        "    print('hello')\n"
        "    return correct(accept_tokens, num_accepted_tokens)\n"
    )
    command = [sys.executable, "-m", "specsim", "check", "chatty", "--examples", "3", "--json"]
    command += ["--property", "agreement.fill_bonus_tokens"]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout)["verdict"] == "conforms"
    assert "hello\n" in ran.stderr


def test_an_implementation_that_exits_fails(specsim, module):
    name = module("import sys\ndef fill_bonus_tokens(accept_tokens, num_accepted_tokens):\n    sys.exit(3)\n")
    ran = specsim("check", name, "--examples", 3, "--slow-examples", 1)
    assert ran.exit_code == 1, ran.stderr
    assert "FAILURE of fill_bonus_tokens" in ran.stdout
