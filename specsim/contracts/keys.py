"""The key of a call, written down as plain Python for each contract: what tells the call apart from others.

``key_source`` writes ``identify(arguments)``, which returns the key and the addresses of the arrays. The key is a flat
tuple: the scalars, the place that the arrays share, and the form of each array, which is class, shape and element type.
It returns None where the arrays lie in different places, and raises one of ``ODD`` where an argument is no array.

Of a kind with ``addresses`` the arrays must be exactly of its class, which the form leaves out, and the key holds what
a launch depends on besides: strides where an array is not contiguous, and the lowest bits of addresses. Two calls of
one key then have equal scalars, and arrays of equal sizes, element types and places, which all are contiguous or have
equal strides, and whose addresses are equal modulo ``POINTER_ALIGNMENT``. So whatever a contract says of one but where
its arrays lie holds of the other, and so does what its launches take. (An axis of one entry may have any stride and the
array be contiguous; an index along it is 0.)
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cache, lru_cache
from typing import Any

from specsim.contracts.contract import ArraySpec, Contract
from specsim.contracts.kinds import ArrayKind
from specsim.contracts.lists import ArrayTuple, forms_and_place
from specsim.contracts.written import define

Lines = list[str]
Identity = tuple[tuple[Any, ...], list[int]]
"""The key of a call, and the addresses of its arrays in the order of the contract, 0 for one that is absent."""

Identify = Callable[[Mapping[str, Any]], Identity | None]
ListIdentity = tuple[Any, Sequence[int], int, Any]
"""What tells a list of arrays apart, their addresses, all bits of these, and the place that they share."""

ODD = (AttributeError, IndexError, KeyError, RuntimeError, TypeError)
"""What reading a call raises where something is no array, or has sizes that are symbols and cannot be looked up."""

POINTER_ALIGNMENT = 16
"""Bytes: Triton compiles a kernel anew for pointers that they do not divide."""

MOST_LENGTHS = 256
"""Lengths of lists of which the function that reads them is kept; an engine has one a layer count."""


def identify_by(contract: Contract, kind: ArrayKind, scalar: Callable[[str, Any], int]) -> Identify:
    """Return the function that identifies calls.

    Parameters
    ----------
    scalar : callable
        Takes the name and the value of a scalar that is no plain integer; returns it as one or refuses it.
    """
    scope = {
        "_Array": kind.base,
        "_bool": bool,
        "_forms_and_place": forms_and_place,
        "_int": int,
        "_lie_at": _lie_at,
        "_list": identify_list_by(kind) if kind.addresses else None,
        "_scalar": scalar,
        "_tuple": tuple,
    }
    identify: Identify = define(key_source(contract, kind), "identify", scope, "key of a call")
    return identify


def key_source(contract: Contract, kind: ArrayKind) -> str:
    """Write the function that identifies calls: no loops but over lists, and each property is asked for once."""
    arrays = contract.arrays
    lines = [f"_{spec.name} = _arguments[{spec.name!r}]" for spec in contract.parameters]
    for scalar in contract.scalars:
        name = f"_{scalar.name}"
        is_truth = f"+{name} if {name}.__class__ is _bool else " if scalar.flag else ""
        lines.append(f"if {name}.__class__ is not _int:")
        lines.append(f"    {name} = {is_truth}_scalar({scalar.name!r}, {name})")
    scalars = [f"_{scalar.name}" for scalar in contract.scalars]
    if kind.addresses:
        return _function([*lines, *_addressed_lines(contract, scalars)])
    for spec in arrays:
        if spec.each is not None:
            lines.append(f"_{spec.name}, _{spec.name}_place = _forms_and_place(_{spec.name}, {kind.attribute!r})")
    place = "None"
    if kind.attribute and arrays:
        place = "_place"
        first = _first_of(arrays)
        lines.append(f"_place = _{first.name}{'_place' if first.each is not None else '.' + kind.attribute}")
        for spec in arrays:
            own = f"_{spec.name}_place" if spec.each is not None else f"_{spec.name}.{kind.attribute}"
            absent = f"{own} is not None and " if spec.each is not None else _if_there(spec)
            lines += [] if spec is first else [f"if {absent}{own} != _place: return None"]
    forms = []
    for spec in arrays:
        name = f"_{spec.name}"
        form = name if spec.each is not None else f"({name}.__class__, {name}.shape, {name}.dtype)"
        forms.append(f"None if {name} is None else {form}" if spec.optional else form)
    lines.append(f"return ({', '.join([*scalars, place, *forms])},), ()")
    return _function(lines)


def _addressed_lines(contract: Contract, scalars: Sequence[str]) -> Lines:
    """Read the arrays of a kind with addresses, and return the key with what launches depend on."""
    arrays = contract.arrays
    first = _first_of(arrays)
    lines: Lines = []
    for spec in arrays:
        if spec.each is not None:
            names = ", ".join(f"_{spec.name}_{part}" for part in ("form", "addresses", "bits", "place"))
            lines.append(f"{names} = _list(_{spec.name})")
    lines.append(f"_place = _{first.name}{'_place' if first.each is not None else '.device'}")
    lines.append("_index = -1 if _place.index is None else _place.index")
    for spec in arrays:
        name = f"_{spec.name}"
        if spec.each is not None:
            lines += [] if spec is first else [f"if {name}_place != _place: return None"]
            continue
        body = [f"if {name}.__class__ is not _Array: return None"]
        body += [] if spec is first else [f"if {name}.get_device() != _index: return None"]
        body.append(f"{name}_at = {name}.data_ptr()")
        lines += [f"if {name} is None:", f"    {name}_at = 0", "else:", *_indented(body)] if spec.optional else body
    # NOTE: only a GPU has an index, by which it is distinguished from another one faster than by its name.
    singles = [spec for spec in arrays if spec.each is None]
    names = "".join(f"_{spec.name}, " for spec in singles)
    lines.append(f"if _index < 0 and not _lie_at(_place, ({names})): return None")
    forms = [
        f"_{spec.name}_form"
        if spec.each is not None
        else f"None if _{spec.name} is None else (_{spec.name}.shape, _{spec.name}.dtype)"
        if spec.optional
        else f"_{spec.name}.shape, _{spec.name}.dtype"
        for spec in arrays
    ]
    addresses = [f"*_{spec.name}_addresses" if spec.each is not None else f"_{spec.name}_at" for spec in arrays]
    bits = [f"_{spec.name}_bits" if spec.each is not None else f"_{spec.name}_at" for spec in arrays]
    lines.append(f"_key = ({', '.join([*scalars, '_place', *forms])},)")
    if singles:
        is_contiguous = " and ".join(f"({_or_absent(spec)}_{spec.name}.is_contiguous())" for spec in singles)
        strides = [f"None if _{spec.name} is None else _{spec.name}.stride()" for spec in singles]
        lines += [f"if not ({is_contiguous}):", f"    _key += ({', '.join(strides)},)"]
    return [
        *lines,
        f"_addresses = [{', '.join(addresses)}]",
        f"if ({' | '.join(bits)}) % {POINTER_ALIGNMENT}:",
        f"    _key += _tuple([_address % {POINTER_ALIGNMENT} for _address in _addresses])",
        "return _key, _addresses",
    ]


def _first_of(arrays: Sequence[ArraySpec]) -> ArraySpec:
    """Return the array whose place the others are compared with: the first that must be there."""
    return min(arrays, key=lambda spec: (spec.optional, spec.each is not None))


def _if_there(spec: ArraySpec) -> str:
    return f"_{spec.name} is not None and " if spec.optional else ""


def _or_absent(spec: ArraySpec) -> str:
    return f"_{spec.name} is None or " if spec.optional else ""


def _function(lines: Lines) -> str:
    return "\n".join(["def identify(_arguments):", *_indented(lines), ""])


def _indented(lines: Lines) -> Lines:
    return [f"    {line}" for line in lines]


def _lie_at(place: Any, values: tuple[Any, ...]) -> bool:
    """Return whether arrays lie at one place."""
    return all(value is None or value.device == place for value in values)


@cache
def identify_list_by(kind: ArrayKind) -> Callable[[Any], ListIdentity]:
    """Return the function that identifies lists of arrays with addresses; of an ``ArrayTuple`` that is known.

    The function raises TypeError where the argument is no list of arrays of the kind that share a place, or is empty.
    """

    @lru_cache(MOST_LENGTHS)
    def reader_of(count: int) -> Callable[[Any], ListIdentity]:
        reader: Callable[[Any], ListIdentity] = define(
            list_source(count), "read", {"_Array": kind.base, "_TypeError": TypeError}, "list of arrays"
        )
        return reader

    def identify(arrays: Any) -> ListIdentity:
        if isinstance(arrays, ArrayTuple):
            if arrays.identity is None:
                raise TypeError("no plain arrays of one place")
            return arrays.identity
        if not isinstance(arrays, list | tuple) or not arrays:
            raise TypeError("no list of arrays")
        return reader_of(len(arrays))(arrays)

    return identify


def list_source(count: int) -> str:
    """Write the function that reads a list of so many arrays: entry by entry, at half the cost of a loop."""
    names = [f"_{number}" for number in range(count)]
    first, *others = names
    elsewhere = [f"{name}.get_device() != _index" for name in others]
    # NOTE: only a GPU has an index, by which it is distinguished from another one faster than by its name.
    elsewhere += ["_index < 0 and (" + " or ".join(f"{name}.device != _place" for name in others) + ")"] * bool(others)
    addresses = [f"{name}_at" for name in names]
    lines = [
        f"{', '.join(names)}, = _arrays",
        f"if {' or '.join(f'{name}.__class__ is not _Array' for name in names)}:",
        "    raise _TypeError('no plain arrays')",
        f"_place, _index = {first}.device, {first}.get_device()",
        f"if {' or '.join(elsewhere) or False}:",
        "    raise _TypeError('no arrays of one place')",
        *(f"{address} = {name}.data_ptr()" for name, address in zip(names, addresses, strict=True)),
        f"_form = ({', '.join(f'{name}.shape, {name}.dtype' for name in names)})",
        f"if not ({' and '.join(f'{name}.is_contiguous()' for name in names)}):",
        f"    _form += ({', '.join(f'{name}.stride()' for name in names)},)",
        f"return _form, ({', '.join(addresses)},), {' | '.join(addresses)}, _place",
    ]
    return "\n".join(["def read(_arrays):", *_indented(lines), ""])
