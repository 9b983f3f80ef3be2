"""What a compiled contract solves, remembers and refuses."""

from dataclasses import dataclass, replace

import numpy as np
import pytest

from specsim.contracts.compiled import MOST_REMEMBERED, CompiledContract, compile_contract
from specsim.contracts.contract import Contract, ScalarSpec, Unit, array
from specsim.contracts.faults import MOST_OUTPUT_BYTES
from specsim.contracts.kinds import ANY, NUMPY
from specsim.contracts.lists import ArrayTuple
from specsim.operations import RECORDS
from specsim.rejection import Reason, SpecRejection


def size_of(name, expression, size, **scalars):
    """Return what an axis is bound to by one argument and some scalars."""
    specs = tuple(ScalarSpec(scalar) for scalar in scalars)
    contract = Contract(parameters=(*specs, array("x", f"int64 [{expression}]", Unit.ANY)))
    axes = CompiledContract("one", contract).check({**scalars, "x": np.zeros(size, np.int64)}).axes
    return axes.get(name)


@pytest.mark.parametrize(
    ("expression", "size", "solution"),
    [
        ("draft+1", 4, ("draft", 3)),
        ("request*node", 12, ("node", 6)),
        ("node-1", 5, ("node", 6)),
        ("request", 2, ("request", 2)),
        ("0*node", 0, ("node", 0)),
        ("1 if request == 2 else node", 1, ("node", None)),
    ],
)
def test_solutions(expression, size, solution):
    assert size_of(solution[0], expression, size, request=2) == solution[1]


@pytest.mark.parametrize(("expression", "size"), [("request*node", 13), ("draft+1", 0)])
def test_sizes_without_a_solution(expression, size):
    with pytest.raises(SpecRejection) as caught:
        size_of("node", expression, size, request=2)
    assert caught.value.reason is Reason.NOT_DIVISIBLE


def verify_arguments(requests=2, **changes):
    links = np.full((requests, 3), -1, dtype=np.int64)
    return {
        "candidates": links,
        "retrieve_index": links,
        "retrieve_next_token": links,
        "retrieve_next_sibling": links,
        "target_predict": links,
        "num_steps": 2,
    } | changes


def test_a_second_call_of_one_kind_is_looked_up():
    compiled = CompiledContract("verify_tree_greedy", RECORDS["verify_tree_greedy"].contract)
    first = compiled.check(verify_arguments())
    assert compiled.check(verify_arguments()) is first
    assert compiled.check(verify_arguments(num_steps=np.int64(2))) is first
    assert compiled.check(verify_arguments(3)) is not first
    assert compiled.check(verify_arguments(num_steps=1)).forms[1] == ((2, 2), "int32")


def test_a_number_that_equals_a_scalar_is_not_looked_up_for_it():
    compiled = CompiledContract("verify_tree_greedy", RECORDS["verify_tree_greedy"].contract)
    compiled.check(verify_arguments(num_steps=1))
    for same in (1.0, True, np.bool_(True), np.array(1)):
        with pytest.raises(SpecRejection) as caught:
            compiled.check(verify_arguments(num_steps=same))
        assert caught.value.reason is Reason.MISSING_ARGUMENT


def test_what_is_remembered_is_bounded_and_cannot_be_changed():
    compiled = CompiledContract("verify_tree_greedy", RECORDS["verify_tree_greedy"].contract)
    for requests in range(MOST_REMEMBERED + 5):
        checked = compiled.check(verify_arguments(requests))
    assert len(compiled._remembered) <= MOST_REMEMBERED
    with pytest.raises(TypeError):
        checked.axes["node"] = 1


def test_each_contract_is_compiled_once():
    contract = RECORDS["verify_tree_greedy"].contract
    assert compile_contract("verify_tree_greedy", contract) is compile_contract("verify_tree_greedy", contract)
    assert compile_contract("verify_tree_greedy", contract) is not compile_contract("other", contract)
    assert compile_contract("verify_tree_greedy", contract, NUMPY).kind is NUMPY


def test_outputs_that_do_not_fit_in_memory_are_refused():
    compiled = CompiledContract("assign_extend_cache_locs", RECORDS["assign_extend_cache_locs"].contract)
    one = np.zeros(1, np.int64)
    arguments = {"req_pool_indices": one, "req_to_token": np.zeros((1, 1), np.int32)}
    arguments |= {"start_offsets": one, "end_offsets": one}
    most = MOST_OUTPUT_BYTES // 8
    assert compiled.check({**arguments, "num_locations": most}).forms == (((most,), "int64"),)
    with pytest.raises(SpecRejection) as caught:
        compiled.check({**arguments, "num_locations": most + 1})
    assert caught.value.reason is Reason.OUTPUT_TOO_LARGE


def test_an_output_whose_size_no_argument_states_is_refused():
    with pytest.raises(SpecRejection) as caught:
        size_of_outputs = CompiledContract("organize_draft_results", RECORDS["organize_draft_results"].contract)
        size_of_outputs.check({"score_list": [], "token_list": [], "parents_list": [], "num_draft_tokens": 2})
    assert caught.value.reason is Reason.MISSING_ARGUMENT


@dataclass(frozen=True, eq=False)
class Symbol:
    """A size that is not known yet, as tracers have them: it computes, compares, and cannot be looked up."""

    text: str
    __hash__ = None

    def __eq__(self, other):
        return self.text == str(other)

    def __str__(self):
        return self.text

    def __add__(self, other):
        return Symbol(f"({self}+{other})")

    def __sub__(self, other):
        return Symbol(f"({self}-{other})")

    def __mul__(self, other):
        return Symbol(f"{self}*{other}")

    def __rmul__(self, other):
        return Symbol(f"{other}*{self.text}")

    def __ge__(self, other):
        return True

    def __lt__(self, other):
        return True


@dataclass(frozen=True)
class Traced:
    """An array of a tracer."""

    shape: tuple
    dtype: str = "int64"


def test_sizes_may_be_symbols():
    compiled = CompiledContract("verify_tree_greedy", RECORDS["verify_tree_greedy"].contract)
    tree, other = Traced((Symbol("r"), Symbol("n"))), Traced((Symbol("r"), Symbol("m")))
    arguments = {**dict.fromkeys([spec.name for spec in compiled.contract.arrays], tree), "num_steps": 2}
    forms = [(*map(str, shape), dtype) for shape, dtype in compiled.check(arguments).forms]
    assert forms == [("r*n", "int32"), ("r", "3", "int32"), ("r", "int32")]
    with pytest.raises(SpecRejection) as caught:
        compiled.check({**arguments, "target_predict": other})
    assert str(caught.value).startswith("WRONG_SHAPE: target_predict.shape[1] is m, but should be n ('node')")


def test_a_scalar_is_a_symbol_where_arrays_are_traced():
    count = Symbol("n")
    contract = Contract((ScalarSpec("count", axis="entry"),), (array("slots", "int64 [2*entry]", Unit.SLOT),))
    with pytest.raises(SpecRejection) as caught:
        CompiledContract("one", contract).check({"count": count})
    assert (caught.value.reason, caught.value.what) == (Reason.MISSING_ARGUMENT, "count")
    checked = CompiledContract("one", contract, replace(ANY, symbols=(Symbol,))).check({"count": count})
    assert checked.axes["entry"] is count
    assert [(*map(str, shape), dtype) for shape, dtype in checked.forms] == [("2*n", "int64")]


def test_arrays_of_one_list_that_never_changes_are_looked_at_once():
    contract = RECORDS["move_kv_cache"].contract
    slots = np.zeros(1, np.int64)
    buffers = [np.zeros((4, 2)), np.zeros((4, 3), np.float32)]
    compiled = CompiledContract("move_kv_cache", contract, NUMPY)
    first = compiled.check({"kv_buffers": buffers, "target_slots": slots, "source_slots": slots + 1})
    kept = ArrayTuple(buffers, NUMPY)
    assert compiled.check({"kv_buffers": kept, "target_slots": slots, "source_slots": slots + 1}) is first
    twice = ArrayTuple([buffers[0], buffers[0]], NUMPY)
    with pytest.raises(SpecRejection) as caught:
        compiled.check({"kv_buffers": twice, "target_slots": slots, "source_slots": slots + 1})
    assert (caught.value.reason, caught.value.what) == (Reason.SHARED_MEMORY, "kv_buffers[1]")
