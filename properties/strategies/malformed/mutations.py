"""Calls with anything wrong, or with something unusual: whatever a program can hand over in place of an argument.

A mutation takes a valid call and a row of choices. Many mutated calls are still valid (another layout, an
integer of NumPy, an entry within its bounds); what matters is that each one either returns or is refused.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from specsim.contracts.contract import ArraySpec, Contract
from specsim.contracts.faults import is_number
from specsim.properties.strategies.malformed.arguments import Arguments, array_at, num_arrays, with_array
from specsim.properties.strategies.malformed.choices import Choices

Mutation = Callable[[Contract, Arguments, Choices], Arguments]
OfArray = Callable[[Any, Choices], Any]

_WHOLE = ("int64", "int32", "int8", "uint8", "uint64")
_DTYPES = (*_WHOLE, "float64", "float32", "float16", "bool", "complex64", ">i8", ">f4")
_NOTHING: tuple[Any, ...] = (None, "text", b"bytes", 3, 2.5, True, (), {}, object(), range(3))
_NO_ARRAYS = (*_NOTHING, np.int64(3), np.float32(1))
_HUGE = (2**31, 2**32, 2**63 - 1, 2**63, 2**70)


def _is_plain(value: Any) -> bool:
    """Return whether a value is still an array of numbers, so that it can be changed once more."""
    return type(value) is np.ndarray and is_number(value.dtype.name)


class Subclass(np.ndarray[Any, Any]):
    """An array of a class of its own."""


def _other_dtype(values: Any, choices: Choices) -> Any:
    with np.errstate(invalid="ignore", over="ignore"):
        return values.astype(choices.choice(_DTYPES))


def _other_rank(values: Any, choices: Choices) -> Any:
    return choices.choice((values[..., None], values[None], values.reshape(-1), np.zeros((), values.dtype)))


def _other_size(values: Any, choices: Choices) -> Any:
    if not values.ndim:
        return values
    axis = choices.randrange(values.ndim)
    size = choices.choice((0, 1, max(values.shape[axis] - 1, 0), values.shape[axis] + 1, 2 * values.shape[axis]))
    if not values.shape[axis]:
        return np.zeros([size if place == axis else old for place, old in enumerate(values.shape)], values.dtype)
    return np.take(values, [place % values.shape[axis] for place in range(size)], axis=axis)


def _no_array(values: Any, choices: Choices) -> Any:
    return choices.choice(
        (*_NO_ARRAYS, values.tolist(), [values], (values, values), {"values": values}, memoryview(b"12"))
    )


def _other_class(values: Any, choices: Choices) -> Any:
    kinds: tuple[Callable[[], Any], ...] = (
        lambda: np.matrix(values.reshape(-1, values.shape[-1] if values.ndim and values.size else 1)),
        lambda: np.ma.masked_array(values, values == values),
        lambda: values.view(Subclass),
        lambda: values.astype(object),
        lambda: np.full(values.shape, "text"),
        lambda: np.zeros(values.shape, [("first", "i4"), ("second", "f4")]),
        lambda: np.zeros(values.shape, "datetime64[s]"),
        lambda: np.zeros(values.shape, "V8"),
    )
    return choices.choice(kinds)()


def _other_layout(values: Any, choices: Choices) -> Any:
    """Return equal values in other memory: backwards, transposed, with gaps, or at an odd address."""
    if not values.ndim or not values.size:
        return values.copy()
    odd = np.frombuffer(bytearray(b"\0" + values.tobytes()), np.uint8)[1:]
    return choices.choice(
        (
            np.ascontiguousarray(values[::-1])[::-1],
            np.ascontiguousarray(values.T).T,
            np.repeat(values, 2, axis=-1)[..., ::2],
            np.asfortranarray(values),
            np.ndarray(values.shape, values.dtype, buffer=odd.data),
        )
    )


def _read_only(values: Any, _: Choices) -> Any:
    frozen = values.copy()
    frozen.flags.writeable = False
    return frozen


def _expanded(values: Any, choices: Choices) -> Any:
    """Return an array whose entries share one address, which can be written all the same."""
    if not values.ndim or not values.size:
        return values
    axis = choices.randrange(values.ndim)
    one = np.take(values, [0], axis=axis)
    strides = tuple(0 if place == axis else stride for place, stride in enumerate(one.strides))
    return np.lib.stride_tricks.as_strided(one, values.shape, strides)


def _other_entries(values: Any, choices: Choices) -> Any:
    """Return the array with one to three entries replaced by what lies at an end of something."""
    changed = values.copy()
    if not changed.size:
        return changed
    entries: list[Any] = [-1, 0, 1, -2, 2, 7, 2**31 - 1, 2**31, -(2**31), 2**32, 2**63 - 1, -(2**63)]
    if values.dtype.kind in "biu":
        bounds = (0, 1) if values.dtype.kind == "b" else (np.iinfo(values.dtype).min, np.iinfo(values.dtype).max)
        entries = [entry for entry in (*entries, *bounds) if bounds[0] <= entry <= bounds[1]]
    else:
        entries = [0.0, -0.0, 1.0, -1.0, 0.5, 2.0, 1e30, -1e30, 1e-30, float("nan"), float("inf"), -float("inf")]
    for _ in range(choices.randint(1, 3)):
        with np.errstate(over="ignore"):
            changed.reshape(-1)[choices.randrange(changed.size)] = choices.choice(entries)
    return changed


def _plain_places(contract: Contract, arguments: Arguments) -> list[tuple[ArraySpec, int]]:
    """Return where arrays of numbers stand: the argument, and the place in a list."""
    return [
        (spec, place)
        for spec in contract.arrays
        if spec.each is None or isinstance(arguments[spec.name], list)
        for place in range(num_arrays(spec, arguments))
        if _is_plain(array_at(arguments, spec, place))
    ]


def _in_array(change: OfArray) -> Mutation:
    """Return the mutation that replaces one array, or one array of a list."""

    def mutate(contract: Contract, arguments: Arguments, choices: Choices) -> Arguments:
        places = _plain_places(contract, arguments)
        if not places:
            return arguments
        spec, place = choices.choice(places)
        return with_array(arguments, spec, place, change(array_at(arguments, spec, place), choices))

    return mutate


def _other_scalar(contract: Contract, arguments: Arguments, choices: Choices) -> Arguments:
    """Replace a scalar by a number of another size, sign or kind, or by no number."""
    if not contract.scalars:
        return arguments
    spec = choices.choice(contract.scalars)
    value = arguments[spec.name] if isinstance(arguments[spec.name], int) else 1
    others: tuple[Any, ...] = (
        *(-1, 0, 1, value + 1, value - 1, -value),
        *_HUGE,
        *(-size - 1 for size in _HUGE),
        *(None, "1", b"1", float(value), float("nan"), True, False, [value], (value,), object()),
        *(kind(value % 2**7) for kind in (np.int64, np.int32, np.int16, np.int8, np.uint8, np.bool_)),
        *(np.float32(1), np.array(1), np.array([1])),
    )
    return {**arguments, spec.name: choices.choice(others)}


def _swapped(contract: Contract, arguments: Arguments, choices: Choices) -> Arguments:
    """Hand two arguments over in each other's place."""
    names = [spec.name for spec in contract.parameters]
    one, other = choices.choice(names), choices.choice(names)
    return {**arguments, one: arguments[other], other: arguments[one]}


def _other_list(contract: Contract, arguments: Arguments, choices: Choices) -> Arguments:
    """Make a list shorter, longer, or something else than a list."""
    lists = [spec for spec in contract.arrays if spec.each is not None and isinstance(arguments[spec.name], list)]
    if not lists:
        return arguments
    spec = choices.choice(lists)
    value = arguments[spec.name]
    others: tuple[Any, ...] = (
        *([], tuple(value), value[:-1], value[::-1], [*value, None], [*value, *value], value + value[:1]),
        *(iter(value), dict(enumerate(value)), None, "text", set(), value[0] if value else 0, [value], [3, "text"]),
    )
    return {**arguments, spec.name: choices.choice(others)}


def _one_memory(contract: Contract, arguments: Arguments, choices: Choices) -> Arguments:
    """Hand one array over twice, or lay a written array and another one over each other or side by side."""
    places = _plain_places(contract, arguments)
    if len(places) < 2:
        return arguments
    written = [one for one in places if one[0].name in contract.writes]
    one = choices.choice(written or places)
    other = choices.choice([place for place in places if place != one])
    first, second = array_at(arguments, *one), array_at(arguments, *other)
    if (first.dtype, first.shape) == (second.dtype, second.shape) and not (written and choices.randrange(4)):
        return with_array(arguments, *other, first)
    if not written:
        return arguments
    offset = choices.choice((0, first.nbytes // 2, first.nbytes)) // 8 * 8
    memory = np.zeros(first.nbytes + second.nbytes + 16, np.uint8)
    for (spec, place), values, start in ((one, first, 0), (other, second, offset)):
        placed = np.ndarray(values.shape, values.dtype, buffer=memory.data, offset=start)
        placed[...] = values
        arguments = with_array(arguments, spec, place, placed)
    return arguments


MUTATIONS: dict[str, Mutation] = {
    "dtype": _in_array(_other_dtype),
    "rank": _in_array(_other_rank),
    "size": _in_array(_other_size),
    "no array": _in_array(_no_array),
    "class": _in_array(_other_class),
    "layout": _in_array(_other_layout),
    "read-only": _in_array(_read_only),
    "expanded": _in_array(_expanded),
    "entries": _in_array(_other_entries),
    "scalar": _other_scalar,
    "swap": _swapped,
    "list": _other_list,
    "memory": _one_memory,
}
"""Every mutation by what it changes."""


def mutated(contract: Contract, arguments: Arguments, choices: Choices) -> Arguments:
    """Return a call with one change, or with a few."""
    changed = dict(arguments)
    for _ in range(choices.choice((1, 1, 1, 2, 3))):
        changed = MUTATIONS[choices.choice(tuple(MUTATIONS))](contract, changed, choices)
    return changed
