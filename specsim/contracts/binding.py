"""Bind the symbolic axes of a contract to the sizes of a call; check shapes, dtypes and scalars.

Nothing here looks at entries, so the array library does not matter.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from specsim.contracts.axes import UnboundAxis, evaluate, names_of, solve
from specsim.contracts.contract import ArraySpec, Contract, Defined, Requirement
from specsim.rejection import Reason, SpecRejection

Bindings = dict[str, Any]


@runtime_checkable
class Array(Protocol):
    """What arrays of all libraries have."""

    shape: tuple[int, ...]
    dtype: Any


def dtype_name(value: Any) -> str:
    """Return ``int32`` for a NumPy or torch array of that element type."""
    return str(value.dtype).removeprefix("torch.")


def is_floating(dtype: Any) -> bool:
    """Return whether a NumPy element type is a floating type; that of ``ml_dtypes`` is one that NumPy calls void."""
    return bool(dtype.kind == "f" or dtype.name == "bfloat16")


def arrays_of(spec: ArraySpec, value: Any) -> Iterator[tuple[str, dict[str, int], Any]]:
    """Yield (label, extra bindings, array) for an array argument or for each entry of a list argument."""
    if value is None:
        return
    if spec.each is None:
        yield spec.name, {}, value
        return
    for index, entry in enumerate(value):
        yield f"{spec.name}[{index}]", {"index": index}, entry


def bind(name: str, contract: Contract, arguments: Mapping[str, Any]) -> Bindings:
    """Bind every axis of a call and check dtypes, shapes and scalars; ``name`` is who states the contract."""
    bindings: Bindings = {}
    for scalar in contract.scalars:
        value = arguments.get(scalar.name)
        if scalar.flag and isinstance(value, bool | np.bool_):
            value = int(value)
        if not isinstance(value, int | np.integer) or isinstance(value, bool):
            raise reject(Reason.MISSING_ARGUMENT, scalar.name, value, "an integer", name, "it is a size")
        bindings[scalar.name] = int(value)
        if scalar.axis is not None:
            bindings[scalar.axis] = int(value)
    equations = _equations(name, contract, arguments)
    _solve_all(name, contract, equations, bindings)
    for scalar in contract.scalars:
        _check_bounds(name, scalar.name, bindings[scalar.name], scalar.low, scalar.high, bindings)
    for requirement in contract.requires:
        _check_requirement(name, requirement, bindings)
    for spec in contract.arrays:
        for label, extra, entry in arrays_of(spec, arguments[spec.name]):
            allowed = dtypes_of(spec, {**bindings, **extra}, arguments)
            if allowed is not None and dtype_name(entry) not in allowed:
                raise reject(Reason.WRONG_DTYPE, f"{label}.dtype", dtype_name(entry), " or ".join(allowed), name)
    return bindings


def dtypes_of(spec: ArraySpec, bindings: Mapping[str, Any], arguments: Mapping[str, Any]) -> tuple[str, ...] | None:
    """Return the allowed dtype names, or None when any will do."""
    if spec.dtype == "any":
        return None
    if spec.dtype.startswith("like "):
        model = arguments[spec.dtype.removeprefix("like ")]
        return None if model is None else (dtype_name(model),)
    if " " in spec.dtype:
        return (str(evaluate(spec.dtype, bindings)),)
    return tuple(spec.dtype.split("|"))


def output_form(spec: ArraySpec, bindings: Bindings, arguments: Mapping[str, Any]) -> Any:
    """Return (shape, dtype name) of an output, or None for an output whose optional source is absent."""
    dtypes = dtypes_of(spec, bindings, arguments)
    if dtypes is None:
        return None
    shape = tuple(evaluate(axis, bindings) for axis in spec.axes if axis != "...")
    if spec.axes[-1:] == ("...",):
        shape += tuple(arguments[spec.dtype.removeprefix("like ")].shape[len(shape) :])
    return shape, dtypes[0]


def defined_mask(
    spec: ArraySpec, shape: Sequence[int], arrays: Mapping[str, Any], bindings: Mapping[str, Any]
) -> NDArray[np.bool_]:
    """Return which entries of an array carry meaning, as a mask that broadcasts over trailing axes.

    Parameters
    ----------
    arrays : mapping
        Arguments and outputs of the call by name, as NumPy arrays.
    """
    mask = np.ones(tuple(shape), dtype=np.bool_)
    rule: Defined = spec.defined
    if rule.rule == "all":
        return mask
    if rule.rule == "live":
        mask[:1] = False
        return mask
    if rule.rule == "length":
        sums = {f"sum_{key}": int(np.sum(arrays[key])) for key in arrays if f"sum_{key}" in names_of(rule.by)}
        mask[int(evaluate(rule.by, {**bindings, **sums})) :] = False
        return mask
    by = np.asarray(arrays[rule.by])
    if rule.rule == "prefix":
        return mask & (np.arange(shape[1])[None, :] < by[:, None])
    if rule.rule == "rows":
        rows = by[:, -1] if by.ndim == 2 else by[-1:]
        reached: NDArray[np.bool_] = np.arange(shape[-1])[None, :] < rows[:, None]
        return reached.reshape(tuple(shape))
    if rule.rule == "owned":
        owned: NDArray[np.bool_] = by != 0
        return mask & owned.reshape(-1, *(1 for _ in shape[1:]))
    mask[:] = False
    if rule.rule == "at":
        kept = by[by >= 0]
        mask[kept[kept < shape[0]]] = True
        return mask
    width = shape[0] // len(by) if len(by) else 0
    for request in range(len(by)):
        for entry in range(min(by.shape[1], width)):
            mask[request * width + entry] = by[request, entry] >= 0
    return mask


def _equations(
    name: str, contract: Contract, arguments: Mapping[str, Any]
) -> list[tuple[str, str, int, dict[str, int]]]:
    """Collect (label, axis expression, size, extra bindings) of every axis of every argument."""
    equations: list[tuple[str, str, int, dict[str, int]]] = []
    for spec in contract.arrays:
        value = arguments.get(spec.name)
        if value is None:
            if not spec.optional:
                raise reject(Reason.MISSING_ARGUMENT, spec.name, None, "an array", name, "it is not optional")
            continue
        if spec.each is not None and not isinstance(value, list | tuple):
            raise reject(Reason.MISSING_ARGUMENT, spec.name, type(value).__name__, "a list of arrays", name)
        if spec.each is not None:
            equations.append((f"len({spec.name})", spec.each, len(value), {}))
        for label, extra, entry in arrays_of(spec, value):
            if not isinstance(entry, Array):
                raise reject(Reason.MISSING_ARGUMENT, label, type(entry).__name__, "an array", name)
            trailing = spec.axes[-1:] == ("...",)
            axes = spec.axes[:-1] if trailing else spec.axes
            if len(entry.shape) < len(axes) or (not trailing and len(entry.shape) != len(axes)):
                form = f"[{', '.join(spec.axes)}]"
                raise reject(Reason.WRONG_SHAPE, f"{label}.shape", tuple(entry.shape), form, name)
            for place, axis in enumerate(axes):
                equations.append((f"{label}.shape[{place}]", axis, int(entry.shape[place]), extra))
    return equations


def _solve_all(
    name: str, contract: Contract, equations: list[tuple[str, str, int, dict[str, int]]], bindings: Bindings
) -> None:
    """Solve for axes until nothing changes, derive the derived ones, then check every equation."""
    progress = True
    derived = dict(contract.derived)
    while progress:
        progress = False
        for axis in [axis for axis, expression in derived.items() if names_of(expression) <= bindings.keys()]:
            bindings[axis] = evaluate(derived.pop(axis), bindings)
            progress = True
        for label, axis, size, extra in equations:
            if axis in bindings:
                continue
            try:
                solution = solve(axis, size, {**bindings, **extra})
            except ArithmeticError as error:
                raise reject(Reason.NOT_DIVISIBLE, label, size, _spelt(axis, bindings), name) from error
            except UnboundAxis:
                continue
            if solution is not None and solution[0] not in derived:
                bindings[solution[0]] = solution[1]
                progress = True
    for label, axis, size, extra in equations:
        try:
            expected = evaluate(axis, {**bindings, **extra})
        except UnboundAxis as unbound:
            bindings.setdefault(str(unbound.args[0]), 0)
            expected = evaluate(axis, {**dict.fromkeys(names_of(axis), 0), **bindings, **extra})
        if expected != size:
            raise reject(Reason.WRONG_SHAPE, label, size, f"{expected} ('{axis}')", name)


def _check_requirement(name: str, requirement: Requirement, bindings: Bindings) -> None:
    if not names_of(requirement.expression) <= bindings.keys():
        return
    if not evaluate(requirement.expression, bindings):
        raise reject(
            requirement.reason, _spelt(requirement.expression, bindings), False, "true", name, requirement.because
        )


def _check_bounds(name: str, label: str, value: int, low: str | None, high: str | None, bindings: Bindings) -> None:
    least, most = bound_of(low, bindings), bound_of(high, bindings)
    if (least is not None and value < least) or (most is not None and value > most):
        bound = f"{'-inf' if least is None else least} to {'inf' if most is None else most}"
        raise reject(Reason.SCALAR_OUT_OF_RANGE, label, value, bound, name)


def bound_of(expression: str | None, bindings: Mapping[str, Any]) -> int | None:
    """Return the value of a bound, or None when there is none or a name of it is unbound."""
    if expression is None or not names_of(expression) <= bindings.keys():
        return None
    return int(evaluate(expression, bindings))


def _spelt(expression: str, bindings: Mapping[str, Any]) -> str:
    used = ", ".join(f"{name}={bindings[name]}" for name in sorted(names_of(expression)) if name in bindings)
    return f"'{expression}' with {used}" if used else f"'{expression}'"


def reject(
    reason: Reason, what: str, got: object, expected: str, name: str, because: str | None = None
) -> SpecRejection:
    """Return a rejection that cites the contract of ``name`` unless a better cause is given."""
    return SpecRejection(
        reason,
        what=what,
        got=got,
        expected=expected,
        because=because or f"the contract of {name} says so",
    )
