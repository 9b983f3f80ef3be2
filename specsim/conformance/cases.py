"""Case files, ``specsim.case/1``: one call of one operation, with what it should give and what it gave.

``docs/case-format.md`` describes the file. Reading checks everything: a file that is read can be replayed.
"""

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from specsim.conformance.backend import Backend, load
from specsim.conformance.carrying import labelled
from specsim.conformance.layouts import layout_of
from specsim.conformance.outcomes import Observation, first_difference, observe
from specsim.conformance.pictures import draw_case
from specsim.conformance.plain_files import bad_case_file
from specsim.conformance.plain_text import LONGEST_TEXT
from specsim.conformance.stored import (
    FAILURE,
    OBSERVED,
    SCHEMA,
    Provenance,
    StoredObservation,
    Unset,
    load_document,
)
from specsim.conformance.stored_arrays import StoredArrays, form_of, is_storable, store_array
from specsim.conformance.stored_laws import StoredLaw
from specsim.contracts.binding import arrays_of, defined_mask
from specsim.contracts.compiled import compile_contract
from specsim.contracts.contract import ArraySpec
from specsim.contracts.kinds import NUMPY, dtype_name, is_floating
from specsim.operations import RECORDS
from specsim.rejection import SpecRejection
from specsim.validation.checking import check_call

ENTRIES_AT_ONCE = 1 << 20
"""Entries that are copied at a time."""


def case_id(operation: str, property_name: str, arguments: Mapping[str, Any], law: StoredLaw | None = None) -> str:
    """Return the content hash that names a case; ``docs/case-format.md`` says what is hashed."""
    digest = hashlib.sha256(f"{operation}\n{property_name}".encode())
    for name, value in arguments.items():
        if isinstance(value, list | np.ndarray) or value is None:
            for label, array in labelled(name, value):
                digest.update(f"\n{label} {array.dtype.name} {list(array.shape)}{_layout_in_words(array)}\n".encode())
                for part in _little_endian(array):
                    digest.update(part)
        else:
            digest.update(f"\n{name} {value}".encode())
    if law is not None:
        digest.update(f"\nlaw {law.as_text()}".encode())
    return digest.hexdigest()[:16]


def _layout_in_words(array: Any) -> str:
    layout = layout_of(array)
    return "" if layout is None else f" {list(layout.strides)} {layout.offset} {layout.size}"


def _little_endian(array: Any) -> Iterator[bytes]:
    """Yield the entries in C order, every NaN as the same one, because text knows but one."""
    entries = np.ascontiguousarray(array).reshape(-1)
    for start in range(0, len(entries), ENTRIES_AT_ONCE):
        some = entries[start : start + ENTRIES_AT_ONCE]
        if is_floating(some.dtype) and np.isnan(some).any():
            some = np.where(np.isnan(some), some.dtype.type(np.nan), some)
        yield some.astype(some.dtype.newbyteorder("<")).tobytes()


LARGEST_INLINE, MOST_INLINE = 1 << 16, 1 << 20
"""Bytes of an array that stands in the document, and of all of them together."""

Compare = Callable[[str, Mapping[str, Any], Observation, Observation], str | None]


@dataclass(frozen=True)
class Case:
    """One call: its arguments by name, what the reference gives, what the implementation gave, and whence it came.

    ``property_name`` says which property found it and ``message`` what that property said. A case of the kind
    ``observed`` was recorded: it has none of the two expectations of its own, and what the reference gives is computed
    when it is read. ``ties_are_free`` says that the recorded module may choose among equal scores. ``law`` is what
    the property was given, where it takes more than this call.
    """

    operation: str
    property_name: str
    arguments: dict[str, Any]
    expected: Observation
    observed: Observation
    message: str
    provenance: Provenance
    kind: str = FAILURE
    ties_are_free: bool = False
    law: StoredLaw | None = None

    @property
    def id(self) -> str:
        """The first 16 hexadecimal digits of the SHA-256 of operation, property, arguments and what a law was given."""
        # NOTE: strategies draw arguments in any order, and a file is read in that of the call.
        return case_id(self.operation, self.property_name, case_arguments(self.operation, self.arguments), self.law)

    def _repr_svg_(self) -> str:
        """Return the case as SVG, which notebooks show."""
        return draw_case(self)


class Replay(Enum):
    """What became of a case; the value is what a replay prints."""

    FIXED = "+ FIXED"
    HOLDS_HERE = "+ HOLDS HERE"
    FAILED = "x FAILED"
    CHANGED = "~ CHANGED"
    CRASHED = "! CRASHED"
    TIMED_OUT = "! TIMED OUT"
    UNDECIDED = "? UNDECIDED"


def case_arguments(operation: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return every argument of the operation in call order; absent ones get their defaults."""
    arguments = {}
    for spec in RECORDS[operation].contract.parameters:
        value = values.get(spec.name)
        if isinstance(spec, ArraySpec):
            arguments[spec.name] = list(value) if isinstance(value, tuple) else value
        else:
            given = spec.default if value is None else value
            arguments[spec.name] = None if given is None else int(given)
    return arguments


def write_case(case: Case, directory: Path, stem: str | None = None) -> Path:
    """Write a case as ``<operation>-<id>.json``, with large arrays in a safetensors file of the same stem.

    Parameters
    ----------
    case, directory : Case, Path
        What is written, and where.
    stem : str or None
        What the files are called before their dot; None for operation and id.

    Returns
    -------
    path : Path
        The JSON document.

    Raises
    ------
    SpecRejection
        BAD_CASE_FILE: an array is of a type that no case file holds.
    """
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / f"{stem or f'{case.operation}-{case.id}'}.json"
    beside = path.with_suffix(".safetensors")
    large: dict[str, Any] = {}
    room = MOST_INLINE

    def store(group: str, values: Mapping[str, Any]) -> dict[str, Any]:
        nonlocal room
        stored: dict[str, Any] = {}
        for name, value in values.items():
            entries = []
            for label, array in labelled(name, value):
                if not is_storable(array):
                    got = f"{group}.{label} {form_of(array)}"
                    raise bad_case_file(path, got, "an array of numbers or truth values", "a case file holds no other")
                key = f"{group}.{label}" if array.nbytes > min(LARGEST_INLINE, room) else ""
                if key:
                    large[key] = np.ascontiguousarray(array)
                else:
                    room -= array.nbytes
                entries.append(store_array(array, key))
            stored[name] = entries if isinstance(value, list) else entries[0] if entries else None
        return stored

    def store_observation(group: str, observation: Observation) -> dict[str, Any]:
        if observation.rejection or observation.error:
            error = {"error": _kept(observation.error)}
            return {"rejection": observation.rejection} if observation.rejection else error
        return {"outputs": store(f"{group}.outputs", observation.outputs)}

    contract = RECORDS[case.operation].contract
    arguments = case_arguments(case.operation, case.arguments)
    scalars = {spec.name: arguments[spec.name] for spec in contract.scalars}
    document = {
        "schema": SCHEMA,
        "id": case.id,
        "operation": case.operation,
        "property": case.property_name,
        "message": _kept(case.message),
        "parameters": {name: value for name, value in scalars.items() if value is not None},
        "arrays": store("arrays", {name: value for name, value in arguments.items() if name not in scalars}),
        "expected": None if case.kind == OBSERVED else store_observation("expected", case.expected),
        "observed": store_observation("observed", case.observed),
        "provenance": {
            "implementation": case.provenance.implementation,
            "seed": case.provenance.seed,
            "versions": case.provenance.versions,
        },
    }
    if case.kind != FAILURE:
        document["kind"] = case.kind
    if case.ties_are_free:
        document["ties"] = "any"
    if case.law is not None:
        document["law"] = msgspec.to_builtins(case.law)
    if large:
        from safetensors.numpy import save_file

        save_file(large, beside)
        document["arrays_file"] = beside.name
    # NOTE: a process that is stopped in the middle leaves no half of a document.
    partial = path.with_name(f"{path.name}.part")
    partial.write_text(_lay_out(document) + "\n", encoding="utf-8")
    return partial.replace(path)


def read_case(path: Path) -> Case:
    """Read a case file and check it.

    Raises
    ------
    SpecRejection
        BAD_CASE_FILE: unreadable, of another schema, with anything that the format does not have or without what it
        has, larger than it may be, or with a content that its id does not name.
    """
    document = load_document(path)
    arrays = StoredArrays(path, document)
    given = {name: arrays.load(f"arrays.{name}", value) for name, value in document.arrays.items()}
    arguments = case_arguments(document.operation, {**document.parameters, **given})
    case = Case(
        operation=document.operation,
        property_name=document.property,
        arguments=arguments,
        expected=Observation()
        if document.expected is None
        else _load_observation(arrays, "expected", document.expected),
        observed=_load_observation(arrays, "observed", document.observed),
        message=document.message,
        provenance=document.provenance,
        kind=document.kind,
        ties_are_free=document.ties == "any",
        law=None if isinstance(document.law, Unset) else document.law,
    )
    document.check_id(path, case.id)
    if case.kind == OBSERVED:
        return replace(case, expected=observe(load("specsim.reference"), case.operation, arguments))
    check_expected(path, case.operation, arguments, case.expected)
    return case


def replay_case(backend: Backend, case: Case, compare: Compare = first_difference) -> tuple[Replay, str]:
    """Call the operation again and compare with what the case expects and with what it saw.

    Parameters
    ----------
    backend, case : Backend, Case
        What is called, and with what.
    compare : callable
        Returns the first difference of two observations of a call, or None.

    Returns
    -------
    replay : Replay
        FIXED: as expected. CRASHED: raises, and not the expected rejection. FAILED: differs from what is expected just
        as recorded. CHANGED: differs in another way.
    difference : str
        The first difference from what is expected, or an empty string.
    """
    again = observe(backend, case.operation, case.arguments)
    difference = compare(case.operation, case.arguments, case.expected, again)
    if difference is None:
        return Replay.FIXED, ""
    if again.error:
        return Replay.CRASHED, again.error
    recorded = compare(case.operation, case.arguments, case.expected, case.observed)
    return (Replay.FAILED if difference == recorded else Replay.CHANGED), difference


def _load_observation(arrays: StoredArrays, group: str, stored: StoredObservation) -> Observation:
    outputs = {} if isinstance(stored.outputs, Unset) else stored.outputs
    return Observation(
        outputs={name: arrays.load(f"{group}.outputs.{name}", value) for name, value in outputs.items()},
        rejection="" if isinstance(stored.rejection, Unset) else stored.rejection,
        error="" if isinstance(stored.error, Unset) else stored.error,
    )


def _kept(text: str) -> str:
    """Return as much of a text as a case file holds, without halves of characters."""
    return text[:LONGEST_TEXT].encode(errors="backslashreplace").decode()[:LONGEST_TEXT]


def _lay_out(value: Any, depth: int = 0) -> str:
    """Print JSON with one array a line."""
    if not isinstance(value, dict) or not value or "dtype" in value:
        if isinstance(value, list) and value and isinstance(value[0], dict):
            inside = ",\n".join("  " * (depth + 1) + json.dumps(entry) for entry in value)
            return "[\n" + inside + "\n" + "  " * depth + "]"
        return json.dumps(value)
    inside = ",\n".join(
        "  " * (depth + 1) + json.dumps(key) + ": " + _lay_out(entry, depth + 1) for key, entry in value.items()
    )
    return "{\n" + inside + "\n" + "  " * depth + "}"


Form = tuple[tuple[int, ...], str]


def check_expected(path: Path, operation: str, arguments: Mapping[str, Any], expected: Observation) -> None:
    """Check that an implementation can be compared with what is expected.

    Raises
    ------
    SpecRejection
        BAD_CASE_FILE: outputs of a call that the operation refuses, or of other shapes and element types than its own.
    """
    if expected.rejection or expected.error:
        return
    contract = RECORDS[operation].contract
    try:
        axes = check_call(operation, arguments)
        forms = compile_contract(operation, contract, NUMPY).check(arguments).forms
    except SpecRejection as rejection:
        got = "expected.outputs of a call that is outside the domain"
        raise bad_case_file(path, got, "expected.rejection", f"{rejection}") from rejection
    wanted: dict[str, Any] = {spec.name: form for spec, form in zip(contract.outputs, forms, strict=True)}
    wanted |= {name: _form(arguments[name]) for name in contract.writes}
    for name, form in wanted.items():
        got = _form(expected.outputs[name])
        if got != form:
            because = f"{operation} gives that"
            raise bad_case_file(path, f"expected.outputs.{name} {_form_in_words(got)}", _form_in_words(form), because)
    given = {**arguments, **expected.outputs}
    for name in wanted:
        spec = contract.by_name[name]
        for label, array in arrays_of(spec, given[name]):  # type: ignore[arg-type]
            try:
                defined_mask(spec, array.shape, given, axes)  # type: ignore[arg-type]
            except (IndexError, ValueError, ArithmeticError) as error:
                got = f"expected.outputs, by which {label} is defined in part"
                raise bad_case_file(path, got, "entries that can be", f"{error}") from error


def _form(value: Any) -> Any:
    if isinstance(value, list):
        return [_form(entry) for entry in value]
    return (value.shape, dtype_name(value)) if isinstance(value, np.ndarray) else None


def _form_in_words(form: Any) -> str:
    if isinstance(form, list):
        return f"a list of {len(form)} arrays"
    return "nothing" if form is None else f"{form[1]} {list(form[0])}"
