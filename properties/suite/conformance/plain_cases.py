"""What a law is given, as plain values that JSON can hold, and back by the types that the law states.

Only classes that a law names in its own signature are made, from fields of the types that they state.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from fractions import Fraction
from functools import partial
from inspect import signature
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import numpy as np

from specsim.rejection import SpecRejection

ARRAY = frozenset(["dtype", "shape", "values"])
PLAIN = (bool, int, float, str, NoneType)
LONGEST_FRACTION = 100


class NotPlain(ValueError):
    """A value has a type that is not kept, or does not fit the type that a law states."""


def form_of(law: Callable[..., None]) -> Any:
    """Return the type of what a law takes beside the implementation."""
    while isinstance(law, partial):
        law = law.func
    last = list(signature(law).parameters)[-1]
    return get_type_hints(law)[last]


def plain(value: Any) -> Any:
    """Return a value as JSON can hold it.

    Raises
    ------
    NotPlain
        It is made of anything but numbers, words, arrays, sequences, mappings and data classes.
    """
    if isinstance(value, np.generic):
        value = value.item()
    if type(value) in PLAIN:
        return str(value) if isinstance(value, float) and value - value != 0.0 else value
    if isinstance(value, Fraction):
        return str(value)
    if isinstance(value, np.ndarray):
        entries = value.astype(np.float64) if value.dtype.kind not in "biu" else value
        return {"dtype": value.dtype.name, "shape": list(value.shape), "values": plain(entries.reshape(-1).tolist())}
    if isinstance(value, list | tuple):
        return [plain(entry) for entry in value]
    if isinstance(value, Mapping):
        if all(isinstance(name, str) for name in value):
            return {name: plain(entry) for name, entry in value.items()}
        return [[plain(key), plain(entry)] for key, entry in value.items()]
    if is_dataclass(value) and not isinstance(value, type):
        return {one.name: plain(vars(value)[one.name]) for one in fields(value)}
    raise NotPlain(f"{type(value).__name__} is not kept")


def restored(value: Any, form: Any) -> Any:
    """Return what plain values stand for.

    Parameters
    ----------
    value : Any
        As ``plain`` returns it.
    form : Any
        The type.

    Raises
    ------
    NotPlain
        It does not fit.
    """
    try:
        return _restored(value, form)
    except NotPlain:
        raise
    except (SpecRejection, TypeError, ValueError, KeyError, AttributeError, ArithmeticError, RecursionError) as error:
        raise NotPlain(f"{type(error).__name__}: {error}") from error


def _restored(value: Any, form: Any) -> Any:
    origin, of = get_origin(form) or form, get_args(form)
    if origin in (Union, UnionType):
        return _restored_any_of(value, of)
    if form is Any:
        return _restored_anything(value)
    if origin is np.ndarray:
        return _array(value)
    if origin is Fraction:
        # NOTE: an exponent takes no room in a file, and all memory in a fraction.
        _require(isinstance(value, str) and len(value) <= LONGEST_FRACTION, value, form)
        _require(set(value) <= set("-0123456789/"), value, form)
        return Fraction(value)
    if origin is float and isinstance(value, str):
        return float(value)
    if origin in PLAIN:
        _require(type(value) is origin or (origin is float and type(value) is int), value, form)
        return origin(value) if origin is not NoneType else None
    if origin is tuple and of[-1:] != (Ellipsis,):
        _require(isinstance(value, list) and len(value) == len(of), value, form)
        return tuple(_restored(entry, one) for entry, one in zip(value, of, strict=True))
    if origin in (tuple, list, Sequence):
        _require(isinstance(value, list), value, form)
        entries = [_restored(entry, of[0]) for entry in value]
        return tuple(entries) if origin is tuple else entries
    if origin in (dict, Mapping):
        pairs = value.items() if isinstance(value, dict) else value
        return {_restored(key, of[0]): _restored(entry, of[1]) for key, entry in pairs}
    if isinstance(origin, type) and is_dataclass(origin):
        _require(isinstance(value, dict), value, form)
        types = get_type_hints(origin)
        return origin(**{name: _restored(entry, types[name]) for name, entry in value.items()})
    raise NotPlain(f"{form} is not kept")


def _restored_any_of(value: Any, forms: Sequence[Any]) -> Any:
    for form in forms:
        try:
            found = restored(value, form)
        except NotPlain:
            continue
        if plain(found) == value:
            return found
    raise NotPlain(f"{value!r:.80} is none of {list(forms)}")


def _restored_anything(value: Any) -> Any:
    """Return arrays, lists of them and plain values, as a call has them."""
    if isinstance(value, dict):
        if value.keys() == ARRAY:
            return _array(value)
        return {name: _restored_anything(entry) for name, entry in value.items()}
    return [_restored_anything(entry) for entry in value] if isinstance(value, list) else value


def _array(value: Any) -> Any:
    _require(isinstance(value, dict) and value.keys() == ARRAY, value, "an array")
    dtype = np.dtype(str(value["dtype"]))
    _require(dtype.kind in "biuf", value, "an array of numbers or truth values")
    entries = [float(entry) if isinstance(entry, str) else entry for entry in value["values"]]
    return np.array(entries, dtype=dtype).reshape(value["shape"])


def _require(fits: bool, value: Any, form: Any) -> None:
    if not fits:
        raise NotPlain(f"{value!r:.80} is no {form}")
