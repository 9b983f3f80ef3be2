"""Faults that any operation can have: what the properties that every operation has must find."""

import functools
from collections.abc import Callable, Iterable, Iterator
from itertools import count
from typing import Any

import numpy as np

from specsim.operations import RECORDS
from specsim.operations.record import Operation
from specsim.properties.mutants.record import Function, Mutant, Named, answering, given, returning
from specsim.properties.operations.generated.agreement import read_only
from specsim.rejection import SpecRejection


def _arrays(arguments: Named, names: Iterable[str]) -> Iterator[Any]:
    for name in names:
        value = arguments[name]
        yield from (value if isinstance(value, list) else [value] if value is not None else [])


def _writes_an_argument(operation: Operation, correct: Function) -> Function:
    def change(outputs: Named, arguments: Named) -> None:
        for array in _arrays(arguments, read_only(operation.name)):
            if array.size:
                array[(0,) * array.ndim] = array[(0,) * array.ndim] ^ 1 if array.dtype.kind in "biu" else 7

    return returning(change)(correct)


def _ignores_strides(operation: Operation, correct: Function) -> Function:
    def read(value: Any) -> Any:
        if isinstance(value, list):
            return [read(entry) for entry in value]
        if not isinstance(value, np.ndarray) or value.flags.c_contiguous or value.base is None:
            return value
        memory = np.asarray(value.base)
        addresses = [array.__array_interface__["data"][0] for array in (value, memory)]
        start = (addresses[0] - addresses[1]) // value.itemsize
        return np.resize(memory.reshape(-1)[start:], value.shape)

    def change(arguments: Named) -> None:
        for name in read_only(operation.name):
            arguments[name] = read(arguments[name])

    return given(change)(correct)


def _crashes_on_nothing(operation: Operation, correct: Function) -> Function:
    def change(arguments: Named) -> None:
        for array in _arrays(arguments, tuple(spec.name for spec in operation.contract.arrays)):
            if array.ndim and not len(array):
                raise ValueError("a launch without programs")

    return given(change)(correct)


def _leaves_an_entry_unwritten(operation: Operation, correct: Function) -> Function:
    leftovers = count(1)

    def change(outputs: Named, arguments: Named) -> None:
        leftover = next(leftovers) % 128
        for array in (*outputs.values(), *_arrays(arguments, operation.contract.writes)):
            if isinstance(array, np.ndarray) and array.size:
                array[(-1,) * array.ndim] = leftover % 2 if array.dtype.kind == "b" else leftover
                array[(min(1, len(array) - 1),) + (0,) * (array.ndim - 1)] = leftover % 2

    return returning(change)(correct)


def _refusing_by(refuse: Callable[[SpecRejection], None]) -> Callable[[Operation, Function], Function]:
    """Return a fault that does something else than raising a rejection."""

    def answer(correct: Function, arguments: Named) -> Any:
        try:
            return correct(**arguments)
        except SpecRejection as rejection:
            return refuse(rejection)

    return lambda _, correct: answering(answer)(correct)


def _another_error(rejection: SpecRejection) -> None:
    raise ValueError("not what a caller expects") from rejection


def _returns_an_argument(operation: Operation, correct: Function) -> Function:
    def change(outputs: Named, arguments: Named) -> None:
        name, output = next(iter(outputs.items()))
        for array in _arrays(arguments, tuple(spec.name for spec in operation.contract.arrays)):
            memory = _bytes_side_by_side(array)
            if isinstance(output, np.ndarray) and memory.size >= output.itemsize:
                window = memory[: output.itemsize].view(output.dtype)
                outputs[name] = np.lib.stride_tricks.as_strided(window, output.shape, (0,) * output.ndim)

    return returning(change)(correct)


def _bytes_side_by_side(array: Any) -> Any:
    """Return memory of an array from its first entry on: all of it, or where entries lie apart that entry's."""
    whole = array.flags.c_contiguous
    entries = array.reshape(-1) if whole else np.lib.stride_tricks.as_strided(array, (1,), (array.itemsize,))
    return entries.view(np.uint8)


_FAULTS: tuple[tuple[str, str, Callable[[Operation, Function], Function]], ...] = (
    ("WRITE", "An argument is used as scratch space.", _writes_an_argument),
    ("STRIDE", "Views are read as if they were plain arrays.", _ignores_strides),
    ("EMPTY", "An empty batch crashes.", _crashes_on_nothing),
    ("FRESH", "Entries of the output memory keep what lay there.", _leaves_an_entry_unwritten),
    ("CHECK", "Bad input is not refused.", _refusing_by(lambda rejection: None)),
    ("CRASH", "Bad input ends in an error that no caller expects.", _refusing_by(_another_error)),
    ("ALIAS", "An output is a window on an argument.", _returns_an_argument),
)

MUTANTS = tuple(
    Mutant(f"{kind}-{name}", name, summary, functools.partial(fault, operation))
    for name, operation in RECORDS.items()
    for kind, summary, fault in _FAULTS
    if kind != "ALIAS" or operation.contract.outputs
)
