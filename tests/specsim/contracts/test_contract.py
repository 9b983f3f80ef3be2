import pytest

from specsim.contracts.axes import names_of
from specsim.contracts.contract import ALL, ArraySpec, Contract, Defined, ScalarSpec, Unit, array
from specsim.operations import RECORDS
from specsim.operations.page import DEFINED_IN_WORDS
from specsim.rejection import Reason

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
    )


def test_the_reason_follows_the_unit():
    assert array("x", "int64 [a]", Unit.SLOT).out_of_range is Reason.SLOT_OUT_OF_RANGE
    assert array("x", "int64 [a]", Unit.OFFSET).out_of_range is Reason.COUNT_OUT_OF_RANGE


def test_parameters_are_told_apart():
    spec, scalar = array("x", "int64 [a]", Unit.ANY), ScalarSpec("n")
    contract = Contract(parameters=(spec, scalar), outputs=(array("y", "int64 [a]", Unit.ANY),))
    assert contract.arrays == (spec,)
    assert contract.scalars == (scalar,)
    assert list(contract.by_name) == ["x", "n", "y"]


@pytest.mark.parametrize("name", RECORDS)
def test_record_is_consistent(name):
    operation = RECORDS[name]
    contract = operation.contract
    names = [spec.name for spec in (*contract.parameters, *contract.outputs)]
    assert operation.name == name
    assert operation.summary.endswith(".")
    assert len(names) == len(set(names)), f"names of {name} = {names}, but should be distinct"
    assert set(contract.writes) <= {spec.name for spec in contract.arrays}
    for spec in (*contract.arrays, *contract.outputs):
        assert spec.defined.rule in RULES
        if spec.defined.rule in RULES - {"all", "live", "length"}:
            assert spec.defined.by in names, f"{name}.{spec.name} is defined by {spec.defined.by}, which is not there"
        if spec.dtype.startswith("like "):
            assert spec.dtype.removeprefix("like ") in names
        for axis in spec.axes:
            assert axis == "..." or names_of(axis) is not None


def test_the_default_is_that_every_entry_is_defined():
    assert Defined() == ALL == Defined("all", "")


def test_every_rule_is_explained():
    assert Defined.__doc__ is not None
    for rule in RULES:
        assert f"``{rule}``" in Defined.__doc__
