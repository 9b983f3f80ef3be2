"""A contract, compiled once: what a call binds and returns is looked up by its key.

A call of a key that has not been seen is bound by generated code. Overlap of written arguments is not part of a key, so
it is checked each time.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from operator import attrgetter
from types import MappingProxyType
from typing import Any

import numpy as np

from specsim.contracts.contract import ArraySpec, Contract, ScalarSpec
from specsim.contracts.faults import MOST_OUTPUT_BYTES, Faults, is_number, late_size, num_bytes_of
from specsim.contracts.keys import ODD, identify_by
from specsim.contracts.kinds import (
    ANY,
    ArrayKind,
    Form,
    Scattered,
    form_of,
    is_array,
    name_of_dtype,
)
from specsim.contracts.lists import NoList
from specsim.contracts.memory import check_memory
from specsim.contracts.source import bind_source
from specsim.contracts.written import define

MOST_REMEMBERED = 32
"""Calls of an operation that are remembered: more of them save no time in long runs, and cost megabytes."""

OutputForm = tuple[tuple[int, ...], str]
Limits = tuple[int | None, int | None]
_Bound = tuple[dict[str, Any], tuple[OutputForm | None, ...], tuple[Limits, ...]]


@dataclass(frozen=True, slots=True)
class Checked:
    """What a call that passed binds and returns.

    Parameters
    ----------
    axes : mapping
        Size of each axis and value of each scalar; NumPy's integers and truth values as plain integers.
    forms : tuple
        Shape and element type of each output, None for an output whose optional source is absent.
    limits : tuple
        Least and largest allowed entry of each array argument, None where there is none.
    place : object
        Where the arguments lie, if their kind has an attribute for it.
    """

    axes: Mapping[str, Any]
    forms: tuple[OutputForm | None, ...]
    limits: tuple[Limits, ...]
    place: Any


class CompiledContract:
    """A contract as code, with what it remembers of the calls that it has seen."""

    def __init__(self, name: str, contract: Contract, kind: ArrayKind = ANY) -> None:
        """Generate the code; ``name`` is who states the contract."""
        self.name = name
        self.contract = contract
        self.kind = kind
        self._faults = Faults(name, contract)
        self._scalars = {spec.name: spec for spec in contract.scalars}
        self.identify = identify_by(contract, kind, self._scalar)
        self._bind: Callable[[tuple[Any, ...]], _Bound] = define(
            bind_source(contract), "bind", _scope(self._faults), f"contract of {name}"
        )
        self._remembered: dict[tuple[Any, ...], Checked] = {}
        self._memory = kind.memory if contract.writes else None

    def check(self, arguments: Mapping[str, Any], key: tuple[Any, ...] | None = None) -> Checked:
        """Check everything about a call but the entries of its arrays; ``key`` is that of the call where it is known.

        Raises
        ------
        SpecRejection
            With the reason of the first fault.
        """
        checked = None
        try:
            if key is None:
                identity = self.identify(arguments)
                key = None if identity is None else identity[0]
            checked = self._remembered.get(key) if key is not None else None
        except ODD:
            key = None
        if checked is None:
            checked = self._check_afresh(arguments, key)
        if self._memory is not None:
            check_memory(self.name, self.contract, self._memory, arguments)
        return checked

    def _check_afresh(self, arguments: Mapping[str, Any], key: tuple[Any, ...] | None) -> Checked:
        # NOTE: a key with addresses is no tuple of forms.
        known = self._careful_forms(arguments) if key is None or self.kind.addresses else key
        axes, forms, limits = self._bind(known)
        place = known[len(self.contract.scalars)]
        if self.kind is not ANY and (key is None or not self._has_known_kinds(known)):
            self._check_kinds(arguments)
        if isinstance(place, Scattered):
            raise self._faults.scattered(place, self.kind.attribute)
        self._check_sizes(axes, forms)
        checked = Checked(MappingProxyType(axes), forms, limits, place)
        if key is not None:
            if len(self._remembered) >= MOST_REMEMBERED:
                self._remembered.clear()
            self._remembered[key] = checked
        return checked

    def _scalar(self, name: str, value: Any) -> Any:
        if isinstance(value, self.kind.symbols):
            return value
        return _scalar_of(self._faults, self._scalars[name], value)

    def _careful_forms(self, arguments: Mapping[str, Any]) -> tuple[Any, ...]:
        """Return what binds a call in which anything may stand for an array."""
        scalars = [self._scalar(spec.name, arguments.get(spec.name)) for spec in self.contract.scalars]
        places = [
            (label, place)
            for label, array in self._labelled(arguments)
            if (place := _attribute(array, self.kind.attribute)) is not None
        ]
        shared: Any = places[0][1] if places else None
        for label, place in places:
            if place != shared:
                shared = Scattered(places[0][0], shared, label, place)
                break
        forms = [_careful_form(spec, arguments.get(spec.name)) for spec in self.contract.arrays]
        return (*scalars, shared, *forms)

    def _has_known_kinds(self, known: tuple[Any, ...]) -> bool:
        """Return whether every array is exactly of the class and in a place that the layer computes on."""
        place, *forms = known[len(self.contract.scalars) :]
        base = self.kind.base
        for spec, form in zip(self.contract.arrays, forms, strict=True):
            entries = () if form is None else form if spec.each is not None else (form,)
            if any(entry[0] is not base for entry in entries):
                return False
        return place is None or self.kind.is_reachable(place)

    def _check_kinds(self, arguments: Mapping[str, Any]) -> None:
        """Check that the layer can compute on every array."""
        for label, array in self._labelled(arguments):
            if not isinstance(array, self.kind.base):
                raise self._faults.foreign(label, array, self.kind)
            place = _attribute(array, self.kind.attribute)
            if not self.kind.is_reachable(place):
                raise self._faults.unreachable(label, place, self.kind)

    def _labelled(self, arguments: Mapping[str, Any]) -> list[tuple[str, Any]]:
        """Return every array with its name; what is no list where one should be has none."""
        found = []
        for spec in self.contract.arrays:
            value = arguments.get(spec.name)
            if spec.each is None:
                found += [] if value is None else [(spec.name, value)]
            elif isinstance(value, list | tuple):
                found += [(f"{spec.name}[{place}]", entry) for place, entry in enumerate(value)]
        return found

    def _check_sizes(self, axes: Mapping[str, Any], forms: tuple[OutputForm | None, ...]) -> None:
        """Check that every output has a size, and that all of them fit in memory."""
        num_bytes = 0
        for form in forms:
            if form is not None:
                if None in form[0]:
                    raise self._faults.undetermined(dict.fromkeys(self._unbound(axes)))
                # NOTE: a size that is a symbol is bounded by the memory that there is when it becomes a number.
                if all(isinstance(size, int) for size in form[0]):
                    num_bytes += num_bytes_of(*form)
        if num_bytes > MOST_OUTPUT_BYTES:
            raise self._faults.too_large(forms, num_bytes)

    def _unbound(self, axes: Mapping[str, Any]) -> list[str]:
        outputs = [axis for spec in self.contract.outputs for axis in spec.axes if axis.isidentifier()]
        return [axis for axis in outputs if axis not in axes]


_COMPILED: dict[tuple[str, int, ArrayKind], CompiledContract] = {}


def compile_contract(name: str, contract: Contract, kind: ArrayKind = ANY) -> CompiledContract:
    """Return the compiled form of a contract, made when it is first asked for.

    Parameters
    ----------
    name : str
        Who states it: an operation or a phase.
    contract : Contract
        It is distinguished by identity, because comparing two of them costs more than a call.
    kind : ArrayKind
        On what arrays the layer computes.
    """
    key = (name, id(contract), kind)
    compiled = _COMPILED.get(key)
    if compiled is None:
        # NOTE: the compiled form holds the contract, so that no other one ever has its identity.
        compiled = _COMPILED[key] = CompiledContract(name, contract, kind)
    return compiled


def _scope(faults: Faults) -> dict[str, Any]:
    """Return the names that generated code uses."""
    return {
        "_TypeError": TypeError,
        "_enumerate": enumerate,
        "_faults": faults,
        "_is_array": is_array,
        "_is_no_list": lambda form: isinstance(form, NoList),
        "_is_number": is_number,
        "_late_size": late_size,
        "_len": len,
        "_name_of_dtype": name_of_dtype,
        "_tuple": tuple,
    }


def _scalar_of(faults: Faults, spec: ScalarSpec, value: Any) -> int:
    """Return a scalar as a plain integer; a truth value is one only for a flag."""
    if isinstance(value, bool | np.bool_):
        if spec.flag:
            return int(value)
        raise faults.no_integer(spec.name, value)
    if not isinstance(value, int | np.integer):
        raise faults.no_integer(spec.name, value)
    return int(value)


def _attribute(array: Any, name: str) -> Any:
    """Return where an array lies, None for what says nothing about it."""
    if not name:
        return None
    try:
        return attrgetter(name)(array)
    except AttributeError:
        return None


def _careful_form(spec: ArraySpec, value: Any) -> Form | tuple[Form | None, ...] | NoList | None:
    if value is None or spec.each is None:
        return form_of(value)
    if not isinstance(value, list | tuple):
        return NoList(type(value))
    return tuple(form_of(entry) for entry in value)
