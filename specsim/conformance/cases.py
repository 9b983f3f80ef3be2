"""Case files, ``specsim.case/1``: one call of one operation, with what it should give and what it gave.

``docs/case-format.md`` describes the file. Reading checks everything: a file that is read can be replayed.
"""

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np

from specsim.conformance.backend import Backend, load
from specsim.conformance.outcomes import Observation, first_difference, observe
from specsim.conformance.stored import (
    FAILURE,
    OBSERVED,
    SCHEMA,
    Document,
    Provenance,
    StoredObservation,
    load_arrays,
    load_document,
    store_array,
)
from specsim.contracts.contract import ArraySpec
from specsim.operations import RECORDS

LARGEST_INLINE = 64 * 1024

Compare = Callable[[str, Mapping[str, Any], Observation, Observation], str | None]


@dataclass(frozen=True)
class Case:
    """One call: its arguments by name, what the reference gives, what the implementation gave, and whence it came.

    ``property_name`` says which property found it and ``message`` what that property said. A case of the kind
    ``observed`` was recorded: it has none of the two expectations of its own, and what the reference gives is computed
    when it is read. ``ties_are_free`` says that whoever was recorded may choose among equal scores.
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

    @property
    def id(self) -> str:
        """The first 16 hexadecimal digits of the SHA-256 of operation and arguments."""
        return case_id(self.operation, self.arguments)


class Replay(Enum):
    """What became of a case; the value is what a replay prints."""

    FIXED = "+ FIXED"
    FAILED = "x FAILED"
    CHANGED = "~ CHANGED"
    CRASHED = "! CRASHED"
    TIMED_OUT = "! TIMED OUT"


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


def case_id(operation: str, arguments: Mapping[str, Any]) -> str:
    """Return the content hash that names a case."""
    digest = hashlib.sha256(operation.encode())
    for name, value in arguments.items():
        if isinstance(value, list | np.ndarray) or value is None:
            for label, array in _labelled(name, value):
                digest.update(f"\n{label} {array.dtype.name} {list(array.shape)}\n".encode())
                digest.update(_little_endian(array))
        else:
            digest.update(f"\n{name} {value}".encode())
    return digest.hexdigest()[:16]


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
    """
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / f"{stem or f'{case.operation}-{case.id}'}.json"
    beside = path.with_suffix(".safetensors")
    large: dict[str, Any] = {}

    def store(group: str, values: Mapping[str, Any]) -> dict[str, Any]:
        stored: dict[str, Any] = {}
        for name, value in values.items():
            entries = []
            for label, array in _labelled(name, value):
                key = f"{group}.{label}" if array.nbytes > LARGEST_INLINE else ""
                if key:
                    large[key] = np.ascontiguousarray(array)
                entries.append(store_array(array, key))
            stored[name] = entries if isinstance(value, list) else entries[0] if entries else None
        return stored

    def store_observation(group: str, observation: Observation) -> dict[str, Any]:
        if observation.rejection or observation.error:
            return {"rejection": observation.rejection} if observation.rejection else {"error": observation.error}
        return {"outputs": store(group, observation.outputs)}

    scalars = {name: value for name, value in case.arguments.items() if isinstance(value, int)}
    document = {
        "schema": SCHEMA,
        "id": case.id,
        "operation": case.operation,
        "property": case.property_name,
        "message": case.message,
        "parameters": scalars,
        "arrays": store("arrays", {name: value for name, value in case.arguments.items() if name not in scalars}),
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
    if large:
        from safetensors.numpy import save_file

        save_file(large, beside)
        document["arrays_file"] = beside.name
    # NOTE: whoever is stopped in the middle leaves no half of a document.
    partial = path.with_name(f"{path.name}.part")
    partial.write_text(_lay_out(document) + "\n", encoding="utf-8")
    return partial.replace(path)


def read_case(path: Path) -> Case:
    """Read a case file and check it.

    Raises
    ------
    SpecRejection
        BAD_CASE_FILE: unreadable, of another schema, or with a content that its id does not name.
    """
    document = load_document(path)
    arguments = case_arguments(
        document.operation, {**document.parameters, **load_arrays(path, document, "arrays", document.arrays)}
    )
    case = Case(
        operation=document.operation,
        property_name=document.property,
        arguments=arguments,
        expected=observe(load("specsim.reference"), document.operation, arguments)
        if document.expected is None
        else _load_observation(path, document, "expected", document.expected),
        observed=_load_observation(path, document, "observed", document.observed),
        message=document.message,
        provenance=document.provenance,
        kind=document.kind,
        ties_are_free=document.ties == "any",
    )
    document.check_id(path, case.id)
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


def _labelled(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, list):
        for index, entry in enumerate(value):
            yield f"{name}.{index}", entry
    elif value is not None:
        yield name, value


def _little_endian(array: Any) -> bytes:
    return np.ascontiguousarray(array).astype(array.dtype.newbyteorder("<")).tobytes()


def _load_observation(path: Path, document: Document, group: str, stored: StoredObservation) -> Observation:
    return Observation(
        outputs=load_arrays(path, document, group, stored.outputs), rejection=stored.rejection, error=stored.error
    )


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
