"""The engine in C++ conforms, over a pipe and by vectors, and both find the fault that is planted in it."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner

from specsim.cli.main import main

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "docs" / "examples" / "engine.cpp"
OPERATIONS = ("verify_chain_greedy", "verify_tree_greedy", "compact_accepted_to_front", "min_p_renorm")
CHOSEN = tuple(f"--operation={name}" for name in OPERATIONS)
PROPERTIES = tuple(f"--property=agreement.{name}" for name in OPERATIONS)

pytestmark = pytest.mark.skipif(shutil.which("g++") is None, reason="there is no g++")


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """Return the folder in which the right engine and the faulty one have been built, and vectors lie."""
    folder = tmp_path_factory.mktemp("engines")
    for name, switches in (("engine", ()), ("faulty", ("-DFAULT",))):
        command = ["g++", "-std=c++17", "-Wall", "-Wextra", "-Werror", *switches, "-o", name, str(SOURCE)]
        subprocess.run(command, cwd=folder, check=True)
    got = CliRunner().invoke(main, ["vectors", str(folder / "vectors"), *CHOSEN, "--cases", "6"])
    assert got.exit_code == 0, got.output
    return folder


@pytest.fixture
def check(built, monkeypatch, tmp_path):
    """Return a function that checks an engine over a pipe."""
    monkeypatch.chdir(built)
    usual = ("--seed", "1", "--examples", "10", "--cases-dir", str(tmp_path))
    return lambda command: CliRunner().invoke(main, ["check", "--command", command, *PROPERTIES, *usual])


def by_vectors(built, engine):
    return subprocess.run([built / engine, "vectors"], cwd=built, capture_output=True, text=True, check=False)


def test_the_right_engine_conforms_over_a_pipe(check):
    got = check("./engine")
    assert got.exit_code == 0, got.output
    assert "command:./engine defines 4 of 4 operations" in got.stdout
    assert "4 properties held, 0 failed" in got.stdout


def test_the_planted_fault_is_found_over_a_pipe(check):
    got = check("./faulty")
    assert got.exit_code == 1, got.output
    assert "FAILURE of verify_tree_greedy: agreement.verify_tree_greedy" in got.stdout
    assert "first difference from the reference: num_accepted_drafts[0] = 1, but should be 0" in got.stdout
    assert "3 properties held, 1 failed" in got.stdout


def test_the_right_engine_conforms_by_vectors(built):
    got = by_vectors(built, "engine")
    (num_cases,) = re.fullmatch(r"conforms: (\d+) cases, 0 failed\n", got.stdout).groups()
    assert (got.returncode, int(num_cases) >= 20) == (0, True)


def test_the_planted_fault_is_found_by_vectors(built):
    got = by_vectors(built, "faulty")
    first, last = got.stdout.splitlines()[0], got.stdout.splitlines()[-1]
    assert (got.returncode, first) == (1, "FAILED verify_tree_greedy case 0: num_accepted_drafts differs in entry 0")
    assert re.fullmatch(r"fails: \d+ cases, \d+ failed", last)


def test_a_folder_without_vectors_is_no_verdict(built, tmp_path):
    got = subprocess.run([built / "engine", tmp_path], capture_output=True, text=True, check=False)
    assert (got.returncode, got.stderr) == (2, f"engine: {os.fspath(tmp_path)}/manifest.json cannot be read\n")
