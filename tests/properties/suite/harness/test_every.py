"""Every property as a Hypothesis test of its own, which tools find."""

import re
import subprocess
import sys
from dataclasses import replace
from random import Random

import pytest
from hypothesis import Phase, is_hypothesis_test, settings
from hypothesis.database import InMemoryExampleDatabase

from specsim.conformance.backend import load
from specsim.conformance.limits import Limits
from specsim.properties import harness
from specsim.properties.mutants import all_mutants
from specsim.properties.suite.catalogue import all_properties, property_named
from specsim.properties.suite.conformance.explained import explain_here
from specsim.properties.suite.conformance.running import run_property
from specsim.rejection import Reason, SpecRejection

REFERENCE = load("specsim.reference")
MUTANTS = {mutant.id: mutant for mutant in all_mutants()}
FILE = """
from hypothesis import Phase, settings
from specsim.properties import harness

how = settings(phases=[Phase.generate], derandomize=True)
globals().update(harness.tests("my_kernels", ["fill_bonus_tokens"], examples=20, whole_runs=False, how=how))
"""
FOUND = ("agreement_fill_bonus_tokens", "compact_bonus_is_the_last_output_token")
KERNELS = """
def fill_bonus_tokens(accept_tokens, num_accepted_tokens):
    return accept_tokens[range(len(accept_tokens)), num_accepted_tokens - 2]
"""


def test_every_property_of_an_implementation_is_a_test():
    found = harness.tests(REFERENCE)
    lacking = [one for one in all_properties() if not one.fills_missing and not all(map(REFERENCE.has, one.operations))]
    wanted = {one.name for one in all_properties()} - {one.name for one in lacking}
    assert {test.__doc__ for test in found.values()} == {f"``{name}`` holds of specsim.reference." for name in wanted}
    assert all(map(is_hypothesis_test, found.values()))
    assert all(test.__name__ == name and name.isidentifier() for name, test in found.items())
    assert callable(found["test_agreement_build_tree"].hypothesis.fuzz_one_input)


def test_what_is_lacking_or_excluded_is_no_test():
    kernels = replace(
        REFERENCE,
        functions={"fill_bonus_tokens": REFERENCE.functions["fill_bonus_tokens"]},
        limits=Limits(takes_empty=False, is_contiguous=True),
        rejects=False,
        worker=None,
        worker_v1=None,
    )
    names = set(harness.tests(kernels, ["fill_bonus_tokens"]))
    assert {"test_agreement_fill_bonus_tokens", "test_mutation_fill_bonus_tokens"} < names
    assert not [name for name in names if name.startswith(("test_empty", "test_strided", "test_rejection"))]
    assert not harness.tests(kernels, ["build_tree"])


def test_a_test_finds_a_fault_and_what_bytes_found_is_replayed():
    mutant = MUTANTS["PV07"]
    backend = REFERENCE.with_function(mutant.operation, mutant.inject(REFERENCE.functions[mutant.operation]), "PV07")
    kept = InMemoryExampleDatabase()
    how = settings(database=kept, phases=[Phase.reuse])
    test = harness.tests(backend, [mutant.operation], how=how)["test_agreement_fill_bonus_tokens"]
    with pytest.raises(AssertionError):
        for number in range(30):
            test.hypothesis.fuzz_one_input(Random(number).randbytes(4000))
    assert kept.data
    with pytest.raises(AssertionError, match="bonus_tokens"):
        test()


def test_examples_are_shared_out():
    found = harness.tests(REFERENCE, ["build_tree"], examples=50)
    asked = {name: vars(test)["_hypothesis_internal_use_settings"].max_examples for name, test in found.items()}
    assert (asked["test_agreement_build_tree"], asked["test_poison_build_tree"]) == (50, 10)


def test_an_unknown_operation_is_refused():
    with pytest.raises(SpecRejection) as caught:
        harness.tests("specsim.reference", ["build_tre"])
    assert caught.value.reason is Reason.UNKNOWN_NAME


def test_pytest_collects_and_runs_them(tmp_path):
    (tmp_path / "my_kernels.py").write_text(KERNELS)
    (tmp_path / "test_my_kernels.py").write_text(FILE)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "hypothesis"]
    command += ["-k", "agreement or compact", "test_my_kernels.py"]
    got = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)
    assert got.returncode == 1, got.stdout
    failed = re.findall(r"^FAILED test_my_kernels.py::(\w+)", got.stdout, re.MULTILINE)
    assert failed == [f"test_{name}" for name in FOUND]
    assert "FAILURE of fill_bonus_tokens: agreement.fill_bonus_tokens\n" in got.stdout
    assert "  smallest case:\n" in got.stdout
    assert re.search(r"  specsim replay specsim-cases/fill_bonus_tokens-\w+\.json --impl my_kernels\n", got.stdout)


def test_a_failure_is_explained_in_pytest_as_on_the_command_line(tmp_path):
    mutant = next(one for one in MUTANTS.values() if one.operation == "verify_tree_greedy" and one.worker is None)
    faulty = mutant.inject(REFERENCE.functions["verify_tree_greedy"])
    backend = REFERENCE.with_function("verify_tree_greedy", faulty, mutant.id)
    _, failure = run_property(property_named("agreement.verify_tree_greedy"), backend, 0, 40)
    reported = explain_here(failure, backend, 0, tmp_path)
    assert reported.startswith(f"FAILURE of verify_tree_greedy: agreement.verify_tree_greedy\n  {failure.message}\n")
    assert "\n    request 0: node 0 token " in reported and "\n  first difference from the reference: " in reported
    (written,) = tmp_path.glob("*.json")
    assert reported.endswith(f"\n  specsim replay {written} --impl {backend.name}")
