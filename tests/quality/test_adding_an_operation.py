"""docs/add-an-operation.md tells how to add an operation: one that is added for trial by exactly its lines passes."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.quality.added_operation import GROUP, NAME, NOT_COUNTED, STEPS

ROOT = Path(__file__).parents[2]
MOST_FILES = 9
MOST_LINES = 110
TELLING = (
    "tests/quality/test_layers.py",
    "tests/properties/mutants/test_mutants.py::test_every_operation_has_a_mutant_of_its_own",
)
SOURCES = "tests/quality/test_sources.py"
CITATIONS = "tests/quality/test_citations.py"
STRATEGIES = "tests/properties/strategies/test_strategies.py"
SELECTED = (
    *TELLING,
    f"{SOURCES}::test_a_module_can_be_read_in_one_go",
    f"{SOURCES}::test_docstrings_of_the_reference_agree_with_the_tables",
    f"{SOURCES}::test_docstrings_of_the_reference_name_every_argument_and_output",
    f"{CITATIONS}::test_the_section_of_an_operation_names_it",
    f"{CITATIONS}::test_tables_and_docstrings_cite_the_same_sections",
    "tests/specsim/operations",
    "tests/specsim/contracts/test_contract.py",
    f"{STRATEGIES}::test_every_drawn_call_is_valid_in_any_layout_with_the_same_values[{NAME}]",
    f"{STRATEGIES}::test_an_empty_batch_can_be_asked_for[{NAME}]",
    "tests/gpu/launching/test_launcher.py::test_every_operation_launches_into_given_buffers",
    f"tests/reference/test_{GROUP}.py",
    "tests/test_docs.py::test_the_pages_of_the_reference_are_those_of_the_tables",
    "tests/test_docs.py::test_every_operation_stands_on_a_page_of_its_own_group",
)
EXPORTS = ("gpu/exports.pyi", "reference/exports.py")
GENERATING = re.compile(r"\$\(BIN\)/python -m ([\w.]+)((?: [\w/.-]+)*?)(?: > ([\w/.-]+))?")
GENERATE = """
import contextlib, json, runpy, sys

for module, arguments, page in json.loads(sys.argv[1]):
    sys.argv = [module, *arguments.split()]
    stdout = open(page, "w", encoding="utf-8") if page else contextlib.nullcontext(sys.stdout)
    with stdout as file, contextlib.redirect_stdout(file):
        runpy.run_module(module, run_name="__main__", alter_sys=True)
"""
"""Runs the commands of ``make generate`` one after the other in one process, which imports what they share once."""

SAY_NOTHING_OF_OPERATIONS = {"specsim.cli.simulating.algorithms_page"}
"""Commands of ``make generate`` whose pages have no operation; tests/test_docs.py compares what they write."""

TRIAL = "tests/test_trial.py"
WRITTEN_TRIAL = f"""
from specsim import load
from specsim.properties.suite.catalogue import GENERATED, all_properties, group_of
from specsim.properties.suite.conformance.runner import check
from specsim.properties.mutants import all_mutants
from specsim.properties.suite.hunt.matrix import kill_matrix


def test_the_operation_conforms_and_its_mutants_are_killed():
    report = check(load("specsim.gpu"), seed=1, max_examples=8, slow_examples=0, operations=["{NAME}"])
    assert report.verdict == "conforms", report.failures
    mutants = [mutant for mutant in all_mutants() if mutant.operation == "{NAME}"]
    properties = [one for one in all_properties() if "{NAME}" in one.operations and not one.is_slow]
    assert {{group_of(one) for one in properties}} == {{*GENERATED, "{GROUP}"}}
    matrix = kill_matrix(seeds=[1], max_examples=20, mutants=mutants, properties=properties, judges_properties=False)
    assert len(mutants) == 8 and matrix.survivors == (), matrix.survivors
    laws = [one for one in properties if group_of(one) == "{GROUP}"]
    alone = kill_matrix(seeds=[1], max_examples=20, mutants=mutants[:1], properties=laws, judges_properties=False)
    assert (mutants[0].id, alone.survivors) == ("OWN-TRIAL", ()), alone.survivors
"""
"""Runs beside the selected tests, in one process, because most of its time would go to imports."""


def run(root, *command):
    environment = {**os.environ, "PYTHONPATH": str(root)}
    return subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, timeout=600, check=False)


@pytest.fixture
def copy(tmp_path):
    """Return a copy of the tree in which nothing has been edited."""
    root = tmp_path / "tree"
    left_out = shutil.ignore_patterns(".*", "*.egg-info", "build", "dist")
    shutil.copytree(ROOT, root, symlinks=True, ignore=left_out)
    return root


def numbered_lines():
    """Return the paths that each line of the instructions names."""
    text = (ROOT / "docs/add-an-operation.md").read_text(encoding="utf-8")
    lines = re.findall(r"^\d+\. (.*(?:\n   .*)*)", text, re.MULTILINE)
    return [re.findall(r"`([\w/<>]+\.(?:py|md))`", line) for line in lines]


def test_the_trial_edits_the_files_that_the_instructions_name_in_their_order():
    edited = [list(dict.fromkeys(edit.path for edit in step)) for step in STEPS]
    assert [[path.replace("<group>", GROUP) for path in line] for line in numbered_lines()] == edited


def test_an_operation_costs_few_files_and_lines():
    edits = [edit for step in STEPS for edit in step if edit.path not in NOT_COUNTED]
    files = {edit.path for edit in edits}
    lines = sum(len(edit.lines.splitlines()) for edit in edits)
    assert len(files) <= MOST_FILES, files
    assert lines <= MOST_LINES, lines
    words = f"{len(files)} files and {lines} lines beside kernel, test and what is generated"
    page = ROOT / "docs/add-an-operation.md"
    assert words in page.read_text(encoding="utf-8"), f"{page} should say {words}"


def test_a_record_alone_says_what_to_write_and_where(copy):
    for edit in STEPS[0]:
        edit.apply(copy)
    reported = run(copy, sys.executable, "-m", "pytest", "-q", *TELLING)
    assert reported.returncode == 1, reported.stdout + reported.stderr
    shelf = f"properties/operations/{GROUP}"
    files = [f"{layer}/{GROUP}.py" for layer in ("reference", "gpu")]
    for file in (*files, *(f"{shelf}/{kind}.py" for kind in ("strategy", "laws", "faults"))):
        assert file in reported.stdout, f"nothing says what {file} lacks:\n{reported.stdout}"


def test_the_trial_passes(copy):
    for edit in (edit for step in STEPS for edit in step):
        edit.apply(copy)
    (generate,) = re.findall(r"^generate:.*\n((?:\t.*\n)+)", (copy / "Makefile").read_text(), re.MULTILINE)
    commands = [GENERATING.fullmatch(line.strip()).groups() for line in generate.splitlines()]
    commands = [command for command in commands if command[0] not in SAY_NOTHING_OF_OPERATIONS]
    made = run(copy, sys.executable, "-c", GENERATE, json.dumps(commands))
    assert made.returncode == 0, made.stderr
    touched = sorted({edit.path for step in STEPS for edit in step if edit.path.endswith(".py")})
    for command in (("check",), ("format", "--check")):
        linted = run(copy, sys.executable, "-m", "ruff", *command, *touched, *EXPORTS)
        assert linted.returncode == 0, linted.stdout
    (copy / TRIAL).write_text(WRITTEN_TRIAL)
    tried = run(copy, sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *SELECTED, TRIAL)
    assert tried.returncode == 0, tried.stdout + tried.stderr
