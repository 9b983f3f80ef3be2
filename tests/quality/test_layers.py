"""Every operation of the table stands in every layer, under the same name and with the same parameters."""

import importlib
import inspect
from collections.abc import Sequence
from types import NoneType, UnionType
from typing import Union, get_args, get_origin, get_type_hints

import torch

from specsim.conformance.arrays import Array
from specsim.operations import MODEL_TABLE, RECORDS, outputs
from specsim.operations.derived.signature import outputs_class_of, parameters_of, returns_of
from specsim.properties import strategies
from specsim.properties.suite.catalogue import GENERATED, all_properties, group_of

LAYERS = ("reference", "gpu")
ARRAYS = {"reference": Array, "gpu": torch.Tensor}


def place_of(name):
    """Return the module of an operation inside a layer; the toy models stand in a room of their own."""
    group = RECORDS[name].group
    return f"models.{group}" if name in MODEL_TABLE else group


def exported(layer, name):
    return vars(importlib.import_module(f"specsim.{layer}")).get(name)


def in_every_layer():
    return [(layer, name, f"{layer}/{place_of(name).replace('.', '/')}.py") for layer in LAYERS for name in RECORDS]


def defined():
    """Return the same without what is missing, which one test reports."""
    return [place for place in in_every_layer() if exported(*place[:2]) is not None]


def test_every_layer_defines_every_operation():
    missing = [
        f"write {name} in {file}, then run python -m specsim.operations.derived.stub"
        for layer, name, file in in_every_layer()
        if exported(layer, name) is None
    ]
    assert not missing, "\n".join(missing)


def test_parameters_are_those_of_the_table():
    wrong = []
    for layer, name, file in defined():
        got = [*inspect.signature(exported(layer, name)).parameters]
        expected = [spec.name for spec in RECORDS[name].contract.parameters]
        if got != expected:
            wrong.append(f"parameters of {name} in {file} = {got}, but should be {expected}")
    assert not wrong, "\n".join(wrong)


def test_every_operation_stands_in_the_file_of_its_group():
    """A group's file may hand an operation on from a file that it is split into."""
    misplaced = [
        f"{name} should be in {file}"
        for layer, name, file in defined()
        if not callable(vars(importlib.import_module(f"specsim.{layer}.{place_of(name)}")).get(name))
    ]
    assert not misplaced, "\n".join(misplaced)


def test_defaults_agree_with_the_tables():
    wrong = []
    for layer, name, file in defined():
        parameters = inspect.signature(exported(layer, name)).parameters
        for spec in RECORDS[name].contract.scalars:
            default = parameters[spec.name].default
            expected = inspect.Parameter.empty if spec.default is None else spec.default
            if default != expected:
                wrong.append(f"default of {spec.name} of {name} in {file} = {default}, but should be {expected}")
    assert not wrong, "\n".join(wrong)


def parts_of(hint):
    """Return the members of a union, or the type itself."""
    return set(get_args(hint)) if get_origin(hint) in (Union, UnionType) else {hint}


def test_annotations_agree_with_the_tables():
    """A function may take more than the table says, and hands out nothing else."""
    several = {name: one for name, one in RECORDS.items() if len(one.contract.outputs) > 1}
    known = {"Sequence": Sequence, **{outputs_class_of(one): outputs.outputs_of(name) for name, one in several.items()}}
    wrong = []
    for layer, name, file in defined():
        hints = get_type_hints(exported(layer, name))
        types = {**known, "ArrayT": ARRAYS[layer]}
        for parameter in parameters_of(RECORDS[name]):
            got = hints[parameter.name]
            if not parts_of(eval(parameter.annotation, types)) <= parts_of(got):
                wrong.append(f"{parameter.name} of {name} in {file} is {got}, but should be {parameter.annotation}")
        returns = returns_of(RECORDS[name])
        if hints["return"] != (eval(returns, types) or NoneType):
            wrong.append(f"{name} in {file} returns {hints['return']}, but should return {returns}")
    assert not wrong, "\n".join(wrong)


def test_a_strategy_draws_every_operation():
    missing = []
    for name in RECORDS:
        try:
            strategies.for_operation(name)
        except (KeyError, AttributeError, NotImplementedError) as error:
            missing.append(
                f"write {name} in properties/operations/{place_of(name).replace('.', '/')}/strategy.py: {error!r}"
            )
    assert not missing, "\n".join(missing)


def test_a_law_concerns_every_operation():
    """Whole runs, which take what is missing from the reference, do not count: they call nearly everything."""
    laws = [one for one in all_properties() if group_of(one) not in GENERATED and not one.fills_missing]
    concerned = {name for one in laws for name in one.operations}
    missing = [
        f"write a law of {name} in properties/operations/{place_of(name).replace('.', '/')}/laws.py"
        for name in RECORDS
        if name not in concerned
    ]
    assert not missing, "\n".join(missing)


def test_the_tables_generate_a_property_of_every_group():
    names = {one.name for one in all_properties()}
    wanted = {f"{group}.{name}" for group in GENERATED for name in RECORDS}
    silent = [name for name, operation in RECORDS.items() if not operation.contract.outputs]
    wanted -= {f"{group}.{name}" for group in ("apart", "given") for name in silent}
    missing = sorted(wanted - names)
    assert not missing, f"properties/operations/generated/ makes no {missing}"
