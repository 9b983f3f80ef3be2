"""Outputs that the caller allocates: poisoned, with room around them, and used by a call of other sizes before.

What an implementation writes outside of an output, or reads of one before it wrote it, shows in no output that is
allocated for it. The rows of a given one are wider than the output, so that a stride that is taken for a width shows.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from hypothesis import strategies as st

from specsim.conformance.backend import Backend, Outcome
from specsim.conformance.given import SUFFIX, WITH_OUTPUTS, as_out
from specsim.conformance.outside import require_inside
from specsim.operations import RECORDS
from specsim.properties import strategies
from specsim.properties.operations.generated.agreement import PATTERNS, reference, require_same_outputs
from specsim.properties.property import Property

ROOM = 3
"""Entries of a buffer before and after an output, along each axis."""

Cases = tuple[strategies.Arguments, strategies.Arguments]


def outputs_are_written_where_they_are(operation: str, backend: Backend, cases: Cases) -> None:
    """Two calls of different sizes write their outputs into the same poisoned memory, and nothing beside them."""
    record = RECORDS[operation]
    for case in cases:
        require_inside(backend.limits, record, case)
    expected = [reference().run(operation, case).outputs for case in cases]
    names = [spec.name for spec in record.contract.outputs]
    for pattern in PATTERNS:
        buffers = {name: _buffers(backend, [outputs[name] for outputs in expected], pattern) for name in names}
        for place, (case, wanted) in enumerate(zip(cases, expected, strict=True)):
            carried = backend.carry(operation, case)
            there = {name: buffers[name][place] for name in names if wanted[name] is not None}
            before = {name: _held(backend, buffer) for name, buffer in there.items()}
            out = {name: _view(backend, buffer, wanted[name]) for name, buffer in there.items()}
            backend.functions[operation + SUFFIX](**carried, out=as_out([out.get(name) for name in names]))
            for name, buffer in there.items():
                what, after = f"{operation}: the memory around {name}", _held(backend, buffer)
                _require_untouched(what, before[name], after, _is_output(backend, wanted[name], after))
            got = {name: _held(backend, out[name]) if name in out else None for name in names}
            written = backend.fetch(operation, carried)
            unwritten = () if backend.limits.writes_scratch else record.contract.scratch
            got.update({name: None if name in unwritten else written[name] for name in record.contract.writes})
            require_same_outputs(operation, case, Outcome(wanted, {}), Outcome(got, {}))


def two_calls(operation: str) -> st.SearchStrategy[Cases]:
    """Return a strategy of two calls of any sizes."""
    one = strategies.for_operation(operation)
    return st.tuples(one, one)


def given_properties() -> tuple[Property, ...]:
    """Return the property of every operation that has outputs."""
    law = outputs_are_written_where_they_are
    return tuple(
        Property(f"given.{name}", "", (name, form), partial(two_calls, name), partial(law, name))
        for form, name in WITH_OUTPUTS.items()
    )


def _buffers(backend: Backend, outputs: Sequence[Any], pattern: int) -> list[Any]:
    """Return the memory of an output in each call: the same one, if its element type is the same."""
    there = [output for output in outputs if output is not None]
    if not there:
        return [None for _ in outputs]
    shape = np.max([output.shape for output in there], axis=0) if there[0].ndim else ()
    roomy = [int(size) + 2 * ROOM for size in shape]
    by_type = {output.dtype: backend.arrays.from_numpy(poisoned(roomy, output.dtype, pattern)) for output in there}
    return [None if output is None else by_type[output.dtype] for output in outputs]


def poisoned(shape: Sequence[int], dtype: np.dtype[Any], pattern: int) -> Any:
    """Return an array of a byte pattern; of truth values, one of either."""
    if dtype == np.bool_:
        return np.full(tuple(shape), pattern == PATTERNS[0])
    return np.full((*shape, dtype.itemsize), pattern, dtype=np.uint8).view(dtype)[..., 0].copy()


def _place(shape: Sequence[int]) -> tuple[slice, ...]:
    """Return where an output lies in its memory."""
    return tuple(slice(ROOM, ROOM + size) for size in shape)


def _view(backend: Backend, buffer: Any, output: Any) -> Any:
    """Return the part of the memory that is handed over: rows with room around, or a block for who takes no others."""
    if backend.limits.is_contiguous:
        return buffer.reshape(-1)[ROOM : ROOM + output.size].reshape(output.shape)
    return buffer[_place(output.shape)]


def _is_output(backend: Backend, output: Any, held: Any) -> Any:
    """Return which entries of the memory are the output."""
    mask = np.zeros(held.shape, dtype=np.bool_)
    if backend.limits.is_contiguous:
        mask.reshape(-1)[ROOM : ROOM + output.size] = True
    else:
        mask[_place(output.shape)] = True
    return mask


def _held(backend: Backend, buffer: Any) -> Any:
    return np.array(backend.arrays.to_numpy(buffer))


def _require_untouched(what: str, before: Any, after: Any, is_output: Any) -> None:
    changed = np.frombuffer(before.tobytes(), np.uint8) != np.frombuffer(after.tobytes(), np.uint8)
    is_changed = changed.reshape(*before.shape, before.dtype.itemsize).any(axis=-1) & ~is_output
    for place in np.argwhere(is_changed)[:1]:
        where = ", ".join(str(int(index) - ROOM) for index in place)
        raise AssertionError(
            f"{what} = {after[tuple(place)]} at [{where}], but should be {before[tuple(place)]} as before"
        )
