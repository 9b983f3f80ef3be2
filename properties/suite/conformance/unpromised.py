"""What a module does with input that it does not promise to refuse: whatever it answers, it stays inside its bounds.

The law is that of a bystander: tokens are of the vocabulary, nodes of their tree, counts of their row, and no memory
changes but the outputs. An error of any kind is an answer, and so is a wrong one.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import ml_dtypes
import msgspec
import numpy as np

from specsim.conformance.backend import Backend
from specsim.conformance.carrying import plain_scalar
from specsim.conformance.given import SUFFIX, as_out
from specsim.conformance.isolation.heartbeat import begin_call, begin_example, end_call, stay
from specsim.contracts.binding import Bindings, arrays_of, bound_of
from specsim.contracts.compiled import compile_contract
from specsim.contracts.contract import ALL, ArraySpec, Unit
from specsim.operations import RECORDS
from specsim.operations.derived.signature import name_arguments
from specsim.properties.operations.generated.agreement import PATTERNS
from specsim.properties.operations.generated.given import poisoned
from specsim.properties.operations.generated.rejections import reason_of
from specsim.properties.strategies.arrays import Array, seeded
from specsim.properties.strategies.limits import drawing_within
from specsim.properties.strategies.malformed.arguments import Arguments
from specsim.properties.strategies.malformed.unpromised import unpromised_calls
from specsim.properties.suite.catalogue import property_named
from specsim.properties.suite.conformance.report import Behaviour
from specsim.properties.suite.conformance.units import UnitLimits, loaded
from specsim.properties.suite.hunt.cases import iterate_cases
from specsim.properties.unit_of_work import require_device

EXAMPLES_OF_A_CASE = 10
"""Of so many examples of a run one is changed in every way that the contract refuses."""

GUARD_ENTRIES = 64
"""Entries of memory before and after an array, at least, and at least a row: a multiple of what kernels align to."""

COUNTS = {"num_accepted_drafts": "draft", "num_kept_drafts": "node-1", "verify_lens": "draft+1"}
"""The largest count of an output whose record has no bound, because no well-formed call comes near one."""


def behaviour_from(plain: Any) -> Behaviour:
    """Return what a process sent.

    Raises
    ------
    ValueError
        It is nothing of this kind.
    """
    return msgspec.convert(plain, Behaviour)


def run_unit(implementation: str, operation: str, max_examples: int, limits: UnitLimits) -> dict[str, Any]:
    """Call an operation with input that the contract refuses, until it leaves its bounds; return plain values."""
    return asdict(behaviour_of(loaded(implementation, limits), operation, limits.seed, max_examples))


def behaviour_of(backend: Backend, operation: str, seed: int, max_examples: int) -> Behaviour:
    """Call an operation with input that the contract refuses, until it leaves its bounds."""
    calls = raised = 0
    for case, words, arguments in _refused(backend, operation, seed, max_examples):
        calls += 1
        begin_example()
        try:
            raised += not stays_inside(operation, backend, case, arguments)
        except AssertionError as error:
            return Behaviour(calls, raised, f"with {words} {error}")
        require_device(backend)
    return Behaviour(calls, raised)


def _refused(
    backend: Backend, operation: str, seed: int, max_examples: int
) -> Iterator[tuple[Arguments, str, Arguments]]:
    """Yield calls that the contract refuses, each with the well-formed one that it was made of."""
    number = max(1, max_examples // EXAMPLES_OF_A_CASE)
    one = property_named(f"agreement.{operation}")
    with drawing_within(backend.limits, (operation,)):
        # NOTE: the first case of a strategy is the least one, and has no request most often.
        for place, case in enumerate(iterate_cases(one, seed, number + 1)):
            for changed in unpromised_calls(operation, case, seeded(seed + place + 1)) if place else ():
                if reason_of(operation, changed.arguments) is not None:
                    yield case, changed.words, changed.arguments


def stays_inside(operation: str, backend: Backend, case: Arguments, arguments: Mapping[str, Any]) -> bool:
    """Return whether a call returns, and raise AssertionError where it leaves its bounds.

    Parameters
    ----------
    case : dict
        A well-formed call of the same shapes.
    arguments : mapping
        The call with something wrong.
    """
    contract = RECORDS[operation].contract
    checked = compile_contract(operation, contract).check(case)
    named = name_arguments(RECORDS[operation], (), arguments)
    guarded: list[_Guarded] = []
    carried: dict[str, Any] = {spec.name: plain_scalar(spec, named[spec.name]) for spec in contract.scalars}
    for spec in contract.arrays:
        is_kept = spec.name not in (*contract.writes, *contract.scratch)
        values = [_Guarded(spec.name, value, backend, is_kept) for _, value in arrays_of(spec, named[spec.name])]
        guarded += values
        views = [one.view for one in values]
        carried[spec.name] = views if spec.each is not None else views[0] if views else None
    name = operation
    if backend.has(operation + SUFFIX):
        name = operation + SUFFIX
        outputs = [
            None if form is None else _output_of(spec.name, form, backend)
            for spec, form in zip(contract.outputs, checked.forms, strict=True)
        ]
        guarded += [one for one in outputs if one is not None]
        carried["out"] = as_out([None if one is None else one.view for one in outputs])
    begin_call(operation, named)
    backend.uses[name] += 1
    try:
        with backend.arrays.debugging(False):
            returned = stay(name, backend.functions[name], carried)
    except Exception:  # NOTE: a module may answer such input with any error.
        return False
    finally:
        for one in guarded:
            one.require_untouched()
    end_call()
    got = carried.get("out", returned)
    for spec, value in zip(contract.outputs, got if isinstance(got, tuple) else (got,), strict=False):
        _require_inside(spec, value, _bounds_of(spec, checked.axes), _numbered(spec, contract.arrays, named), backend)
    return True


class _Guarded:
    """An array with memory before and after it, and what all of it held."""

    def __init__(self, name: str, values: Array, backend: Backend, is_kept: bool) -> None:
        width = values[:1].size
        self._room, self._size = GUARD_ENTRIES * -(-max(width, GUARD_ENTRIES) // GUARD_ENTRIES), values.size
        block = poisoned((self._size + 2 * self._room,), values.dtype, PATTERNS[0])
        block[self._room : self._room + self._size] = values.reshape(-1)
        self._name, self._is_kept, self._arrays = name, is_kept, backend.arrays
        self._before = block.copy()
        self._block = backend.arrays.from_numpy(block)
        self.view = self._block[self._room : self._room + self._size].reshape(values.shape)

    def require_untouched(self) -> None:
        """Raise AssertionError where the memory around has changed, or the array if it is not to be written."""
        after = np.array(self._arrays.to_numpy(self._block))
        inside = slice(self._room, self._room + self._size)
        if not self._is_kept:
            after[inside] = self._before[inside]
        if after.tobytes() == self._before.tobytes():
            return
        octets = (np.ascontiguousarray(one).view(np.uint8).reshape(len(one), -1) for one in (after, self._before))
        place = int(np.flatnonzero(np.not_equal(*octets).any(axis=1))[0])
        where = "the memory around " * (not inside.start <= place < inside.stop)
        got = f"{where}{self._name} = {after[place]} at {place - self._room}"
        raise AssertionError(f"{got}, but should be {self._before[place]} as before")


def _output_of(name: str, form: tuple[Any, str], backend: Backend) -> _Guarded:
    dtype = np.dtype(ml_dtypes.bfloat16 if form[1] == "bfloat16" else form[1])
    return _Guarded(name, poisoned(form[0], dtype, PATTERNS[0]), backend, is_kept=False)


def _require_inside(
    spec: ArraySpec, value: Any, bounds: tuple[int, int | None], numbered: Array, backend: Backend
) -> None:
    """Raise AssertionError where an output names a token, a node or a count that there is not."""
    low, high = bounds
    if high is None or value is None:
        return
    values = np.asarray(backend.arrays.to_numpy(value))
    if values.dtype.kind not in "iu" or spec.defined != ALL:
        return
    is_outside = ((values < low) | (values > high)) & (values != spec.sentinel) & ~np.isin(values, numbered)
    for place in np.argwhere(is_outside)[:1]:
        where = ", ".join(map(str, place))
        got = f"{spec.name}[{where}] = {values[tuple(place)]}"
        raise AssertionError(f"{got}, but should be {low} to {high}")


def _numbered(spec: ArraySpec, arrays: Sequence[ArraySpec], named: Mapping[str, Any]) -> Array:
    """Return the numbers that the caller gives to nodes, which may come back as they are; of all else none."""
    nodes = [one for one in arrays if one.unit is spec.unit is Unit.NODE]
    given = [value for one in nodes for _, value in arrays_of(one, named[one.name])]
    return np.concatenate([np.zeros(0, dtype=np.int64), *(np.ravel(value) for value in given)])


def _bounds_of(spec: ArraySpec, axes: Bindings) -> tuple[int, int | None]:
    if spec.name in COUNTS:
        return 0, bound_of(COUNTS[spec.name], axes)
    if spec.unit is Unit.TOKEN and spec.high is None:
        return 0, bound_of("vocab-1", axes)
    return bound_of(spec.low, axes) or 0, bound_of(spec.high, axes)
