"""Operations and laws as functions of bytes."""

from dataclasses import replace
from random import Random

import numpy as np
import pytest

from specsim.conformance.backend import load
from specsim.conformance.cases import Replay, read_case, replay_case
from specsim.conformance.limits import Limits
from specsim.properties import harness
from specsim.properties.mutants import all_mutants
from specsim.properties.suite.harness.finding import find_property
from specsim.properties.suite.harness.saving import save_smallest
from specsim.rejection import Reason, SpecRejection

REFERENCE = load("specsim.reference")
MUTANTS = {mutant.id: mutant for mutant in all_mutants()}


def faulty(mutant_id):
    """Return the reference with a planted fault."""
    mutant = MUTANTS[mutant_id]
    return REFERENCE.with_function(mutant.operation, mutant.inject(REFERENCE.functions[mutant.operation]), mutant.id)


def raising(operation, error):
    """Return the reference with an operation that fails in another way than by a wrong answer."""

    def fail(**arguments):
        raise error

    return REFERENCE.with_function(operation, fail, "raising")


def buffers(count, longest=1500):
    """Return random bytes of any length, as a fuzzer without feedback tries them."""
    random = Random(0)
    return [random.randbytes(random.randint(1, longest)) for _ in range(count)]


def first_failing(target, count):
    """Return the number of the first input that fails, and what it raises."""
    for number, data in enumerate(buffers(count)):
        try:
            target(data)
        except Exception as error:  # NOTE: a planted fault may crash.
            return number, error
    return None


def test_what_no_case_file_holds_hides_no_failure(tmp_path):
    call = {"accept_tokens": np.array("text"), "num_accepted_tokens": np.array([1], dtype=np.int32)}
    found = [(call, AssertionError("wrong"))]
    line = save_smallest(find_property("fill_bonus_tokens"), REFERENCE, found, tmp_path, shrink=list)
    assert line.startswith("its case is not kept: BAD_CASE_FILE: ")


@pytest.mark.parametrize(
    ("name", "mutant", "within"),
    [
        ("verify_tree_greedy", "V16", 20),
        ("build_tree", "B07", 60),
        ("fill_bonus_tokens", "PV02", 20),
        ("strided.fill_bonus_tokens", "STRIDE-fill_bonus_tokens", 20),
        ("verify.accepted_nodes_are_the_longest_match", "V16", 60),
    ],
)
def test_planted_faults_are_found_by_bytes_alone(name, mutant, within):
    found = first_failing(harness.target(name, faulty(mutant)), within)
    assert found is not None


@pytest.mark.parametrize("name", ["fill_bonus_tokens", "anything.fill_bonus_tokens", "verify_tree_greedy"])
def test_what_conforms_passes_and_tells_which_bytes_it_used(name):
    target = harness.target(name, "specsim.reference")
    used = [target(data) for data in (b"", *buffers(12))]
    assert None not in used
    assert [target(data) for data in used] == used
    assert used[0] == b""
    assert len({*used}) > 10


def test_the_smallest_case_is_kept_and_replays(tmp_path):
    backend = faulty("PV07")
    _, error = first_failing(harness.target("fill_bonus_tokens", backend, cases=tmp_path), 20)
    (path,) = tmp_path.iterdir()
    assert error.__notes__ == ["agreement.fill_bonus_tokens of PV07", f"smallest case: {path}"]
    case = read_case(path)
    assert (case.property_name, case.provenance.implementation) == ("agreement.fill_bonus_tokens", "PV07")
    assert case.arguments["accept_tokens"].shape[0] == 1
    assert sum(case.arguments["accept_tokens"].tolist()[0]) == 1
    assert replay_case(backend, case)[0] is Replay.FAILED
    assert replay_case(REFERENCE, case)[0] is Replay.FIXED


def test_a_case_that_is_no_call_is_not_kept(tmp_path):
    backend = raising("assign_req_to_token_pool", KeyError("no"))
    target = harness.target("engine.slots_have_one_owner", backend, cases=tmp_path)
    _, error = first_failing(target, 10)
    assert isinstance(error, KeyError)
    assert error.__notes__[1] == "its case is no call of one operation"
    assert not [*tmp_path.iterdir()]


def test_a_folder_that_cannot_be_written_hides_no_failure(tmp_path):
    (tmp_path / "file").write_text("")
    target = harness.target("fill_bonus_tokens", faulty("PV07"), cases=tmp_path / "file")
    _, error = first_failing(target, 20)
    assert isinstance(error, AssertionError)
    assert error.__notes__[1].startswith("its case is not kept: ")


def test_whatever_an_implementation_raises_reaches_the_fuzzer(tmp_path):
    target = harness.target("fill_bonus_tokens", raising("fill_bonus_tokens", ZeroDivisionError()), cases=tmp_path)
    with pytest.raises(ZeroDivisionError):
        target(b"\1\2")
    (path,) = tmp_path.iterdir()
    assert read_case(path).observed.error.startswith("ZeroDivisionError")


def test_inputs_outside_of_what_is_declared_are_none():
    limits = Limits(values={"fill_bonus_tokens": {"request": range(1, 3)}}, takes_empty=False)
    calls = []

    def counting(**arguments):
        calls.append(len(arguments["num_accepted_tokens"]))
        return REFERENCE.functions["fill_bonus_tokens"](**arguments)

    backend = REFERENCE.with_function("fill_bonus_tokens", counting, "limited")
    target = harness.target("fill_bonus_tokens", replace(backend, limits=limits))
    for data in buffers(30):
        target(data)
    assert set(calls) == {1, 2}


@pytest.mark.parametrize("name", ["verify_tree_gready", "agreement.nothing", "", "find_algorithm"])
def test_an_unknown_name_is_refused(name):
    with pytest.raises(SpecRejection) as caught:
        harness.target(name, "specsim.reference")
    assert caught.value.reason is Reason.UNKNOWN_NAME
    assert ("verify_tree_greedy" in str(caught.value)) == (name == "verify_tree_gready")


def test_an_operation_that_is_lacking_is_named():
    lacking = load("specsim.properties.harness")
    with pytest.raises(NotImplementedError, match=r"^specsim\.properties\.harness does not define build_tree, which"):
        harness.target("build_tree", lacking)
