"""Every operation of the table stands in every layer, under the same name and with the same parameters."""

import importlib
import inspect
from collections.abc import Sequence
from types import NoneType, UnionType
from typing import Union, get_args, get_origin, get_type_hints

import pytest
import torch

from specsim.conformance.arrays import Array
from specsim.operations import MODEL_TABLE, RECORDS, outputs
from specsim.operations.signature import outputs_class_of, parameters_of, returns_of
from specsim.properties import strategies
from specsim.properties.catalogue import GENERATED, all_properties, group_of

LAYERS = ("reference", "gpu")
ARRAYS = {"reference": Array, "gpu": torch.Tensor}


def place_of(name):
    """Return the module of an operation inside a layer; the toy models stand in a room of their own."""
    group = RECORDS[name].group
    return f"models.{group}" if name in MODEL_TABLE else group


@pytest.mark.parametrize("name", RECORDS)
@pytest.mark.parametrize("layer", LAYERS)
def test_a_layer_defines_the_operation(layer, name):
    file = f"{layer}/{place_of(name).replace('.', '/')}.py"
    function = vars(importlib.import_module(f"specsim.{layer}")).get(name)
    assert function is not None, f"write {name} in {file}, then run python -m specsim.operations.stub"
    got = list(inspect.signature(function).parameters)
    expected = [spec.name for spec in RECORDS[name].contract.parameters]
    assert got == expected, f"parameters of {name} in {file} = {got}, but should be {expected}"


@pytest.mark.parametrize("name", RECORDS)
@pytest.mark.parametrize("layer", LAYERS)
def test_the_operation_stands_in_the_file_of_its_group(layer, name):
    """A group's file may hand an operation on from a file that it is split into."""
    module = importlib.import_module(f"specsim.{layer}.{place_of(name)}")
    assert callable(vars(module).get(name)), f"{name} should be in {layer}/{place_of(name)}"


@pytest.mark.parametrize("name", RECORDS)
@pytest.mark.parametrize("layer", LAYERS)
def test_defaults_agree_with_the_table(layer, name):
    function = vars(importlib.import_module(f"specsim.{layer}"))[name]
    parameters = inspect.signature(function).parameters
    for spec in RECORDS[name].contract.scalars:
        default = parameters[spec.name].default
        expected = inspect.Parameter.empty if spec.default is None else spec.default
        assert default == expected, f"default of {spec.name} in {layer} {name} = {default}, but should be {expected}"


def parts_of(hint):
    """Return the members of a union, or the type itself."""
    return set(get_args(hint)) if get_origin(hint) in (Union, UnionType) else {hint}


def several(record):
    """Return whether an operation has several outputs."""
    return len(record.contract.outputs) > 1


@pytest.mark.parametrize("layer", LAYERS)
def test_annotations_agree_with_the_table(layer):
    """A function may take more than the table says, and hands out nothing else."""
    classes = {outputs_class_of(one): outputs.outputs_of(name) for name, one in RECORDS.items() if several(one)}
    known = {"ArrayT": ARRAYS[layer], "Sequence": Sequence, **classes}
    wrong = []
    for name, record in RECORDS.items():
        hints = get_type_hints(vars(importlib.import_module(f"specsim.{layer}"))[name])
        for parameter in parameters_of(record):
            if not parts_of(eval(parameter.annotation, known)) <= parts_of(hints[parameter.name]):
                wrong.append(f"{name}: {parameter.name} is {hints[parameter.name]}, not {parameter.annotation}")
        returns = eval(returns_of(record), known)
        is_named = layer == "reference" or not several(record)
        if is_named and hints["return"] != (NoneType if returns is None else returns):
            wrong.append(f"{name} returns {hints['return']}, not {returns_of(record)}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("name", RECORDS)
def test_a_strategy_draws_the_operation(name):
    file = f"properties/strategies/{RECORDS[name].group}.py"
    try:
        strategies.for_operation(name)
    except (KeyError, AttributeError, NotImplementedError) as error:
        pytest.fail(f"write {name} in {file}: {error!r}")


@pytest.mark.parametrize("name", RECORDS)
def test_a_law_concerns_the_operation(name):
    laws = [one.name for one in all_properties() if group_of(one) not in GENERATED and name in one.operations]
    assert laws, f"write a law of {name} in properties/laws/{RECORDS[name].group}.py"


@pytest.mark.parametrize("name", RECORDS)
@pytest.mark.parametrize("group", GENERATED)
def test_the_table_generates_the_property(group, name):
    assert f"{group}.{name}" in {one.name for one in all_properties()}
