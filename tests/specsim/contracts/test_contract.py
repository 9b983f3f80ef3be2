import numpy as np
import pytest

from specsim.contracts.axes import names_of
from specsim.contracts.compiled import CompiledContract
from specsim.contracts.contract import ALL, ArraySpec, Contract, Defined, ScalarSpec, Unit, array
from specsim.operations import RECORDS
from specsim.operations.derived.page import DEFINED_IN_WORDS
from specsim.rejection import Reason, SpecRejection

RULES = set(DEFINED_IN_WORDS)


def test_a_form_is_read_into_a_spec():
    got = array("accept_index", "int32 [request, draft+1]", Unit.NODE, within=("0", None), sentinel=-1)
    assert got == ArraySpec(
        name="accept_index",
        dtype="int32",
        axes=("request", "draft+1"),
        unit=Unit.NODE,
        low="0",
        high=None,
        sentinel=-1,
        defined=ALL,
        optional=False,
        each=None,
        can_be_empty=False,
    )


def test_the_reason_follows_the_unit():
    assert array("x", "int64 [a]", Unit.SLOT).out_of_range is Reason.SLOT_OUT_OF_RANGE
    assert array("x", "int64 [a]", Unit.OFFSET).out_of_range is Reason.COUNT_OUT_OF_RANGE


def test_parameters_are_distinguished():
    spec, scalar = array("x", "int64 [a]", Unit.ANY), ScalarSpec("n")
    contract = Contract(parameters=(spec, scalar), outputs=(array("y", "int64 [a]", Unit.ANY),))
    assert contract.arrays == (spec,)
    assert contract.scalars == (scalar,)
    assert list(contract.by_name) == ["x", "n", "y"]


def inconsistencies(name, operation):
    """Yield what contradicts itself in a record of a table."""
    contract = operation.contract
    names = [spec.name for spec in (*contract.parameters, *contract.outputs)]
    if operation.name != name:
        yield f"{name} is called {operation.name}"
    if not operation.summary.endswith("."):
        yield f"the summary of {name} is no sentence"
    if len(names) != len(set(names)):
        yield f"names of {name} = {names}, but should be distinct"
    if not set(contract.writes) <= {spec.name for spec in contract.arrays}:
        yield f"{name} writes {contract.writes}, which it does not take"
    for spec in (*contract.arrays, *contract.outputs):
        if spec.defined.rule not in RULES:
            yield f"{name}.{spec.name} is defined by the rule {spec.defined.rule}, which is not there"
        if spec.defined.rule in RULES - {"all", "live", "length"} and spec.defined.by not in names:
            yield f"{name}.{spec.name} is defined by {spec.defined.by}, which is not there"
        if spec.dtype.startswith("like ") and spec.dtype.removeprefix("like ") not in names:
            yield f"{name}.{spec.name} is {spec.dtype}, which is not there"
        if any(axis != "..." and names_of(axis) is None for axis in spec.axes):
            yield f"{name}.{spec.name} has the axes {spec.axes}, one of which does not parse"


def test_records_are_consistent():
    found = [found for name, operation in RECORDS.items() for found in inconsistencies(name, operation)]
    assert not found, "\n".join(found)


def test_the_default_is_that_every_entry_is_defined():
    assert Defined() == ALL == Defined("all", "")


def test_every_rule_is_explained():
    assert Defined.__doc__ is not None
    for rule in RULES:
        assert f"``{rule}``" in Defined.__doc__


@pytest.mark.parametrize("where", ["derived", "an array"])
def test_a_size_that_is_divided_by_zero_is_named_before_it_is_used(where):
    derived = (("whole", "n//page"),) if where == "derived" else ()
    contract = Contract(
        parameters=(
            array("x", "int64 [a]" if derived else "int64 [-(-n//page)]", Unit.ANY),
            ScalarSpec("n", low="0"),
            ScalarSpec("page", low="1"),
        ),
        outputs=(array("y", "int64 [n]", Unit.ANY),),
        derived=derived,
    )
    with pytest.raises(SpecRejection) as refused:
        CompiledContract("divided", contract).check({"x": np.zeros(2, np.int64), "n": 4, "page": 0})
    assert (refused.value.reason, refused.value.what) == (Reason.SCALAR_OUT_OF_RANGE, "page")


LISTS = CompiledContract(
    "lists",
    Contract(
        parameters=(
            array("states", "any [state, ...]", Unit.ANY, each="buffer", can_be_empty=True),
            array("steps", "like states [request, node, ...]", Unit.ANY, each="buffer"),
        )
    ),
)


def zeros(*shapes, dtype="float32"):
    return [np.zeros(shape, dtype) for shape in shapes]


def test_arrays_of_two_lists_are_alike_place_by_place():
    states = [*zeros((5, 3, 2)), *zeros((5,), dtype="int8")]
    checked = LISTS.check({"states": states, "steps": [*zeros((2, 4, 3, 2)), *zeros((2, 4), dtype="int8")]})
    assert dict(checked.axes) == {"state": 5, "buffer": 2, "request": 2, "node": 4}


@pytest.mark.parametrize(
    ("steps", "reason", "what"),
    [
        (zeros((2, 4, 3, 2), (2, 4)), Reason.WRONG_DTYPE, "steps[1].dtype"),
        ([*zeros((2, 4, 2, 3)), *zeros((2, 4), dtype="int8")], Reason.WRONG_SHAPE, "steps[0].shape[2:]"),
        ([*zeros((2, 4, 3, 2)), *zeros((2, 4, 1), dtype="int8")], Reason.WRONG_SHAPE, "steps[1].shape[2:]"),
        (zeros((2, 4, 3, 2)), Reason.WRONG_SHAPE, "len(steps)"),
    ],
    ids=["element type", "order of sizes", "one axis more", "one array less"],
)
def test_arrays_of_two_lists_that_are_not_alike(steps, reason, what):
    with pytest.raises(SpecRejection) as caught:
        LISTS.check({"states": [*zeros((5, 3, 2)), *zeros((5,), dtype="int8")], "steps": steps})
    assert (caught.value.reason, caught.value.what) == (reason, what)


def test_an_array_that_can_be_empty_does_not_say_how_long_the_others_are():
    steps = zeros((2, 4, 3), (2, 4, 3))
    for states in (zeros((0, 3), (5, 3)), zeros((5, 3), (0, 3))):
        assert LISTS.check({"states": states, "steps": steps}).axes["state"] == 5
    assert "state" not in LISTS.check({"states": zeros((0, 3), (0, 3)), "steps": steps}).axes
    with pytest.raises(SpecRejection) as caught:
        LISTS.check({"states": zeros((4, 3), (5, 3)), "steps": steps})
    assert (caught.value.reason, caught.value.what) == (Reason.WRONG_SHAPE, "states[1].shape[0]")
