"""The JSON document of a case file and its arrays, as msgspec structures, with every check that reading needs."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import ml_dtypes
import msgspec
import numpy as np

from specsim.operations import RECORDS
from specsim.rejection import Reason, SpecRejection

SCHEMA = "specsim.case/1"
FAILURE, OBSERVED = "failure", "observed"
"""The kinds of cases: found by a property, or recorded from calls that somebody made."""

BFLOAT16 = np.dtype(ml_dtypes.bfloat16).name
DTYPES = frozenset(
    ["bool", BFLOAT16, "float16", "float32", "float64"]
    + [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]
)
NUMBERS = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}


class StoredArray(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One array: its entries nested row by row, or the key under which the safetensors file holds it."""

    dtype: str
    shape: tuple[int, ...]
    values: list[Any] | int | float | bool | None = None
    key: str = ""


Stored = StoredArray | list[StoredArray] | None


class StoredObservation(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Arrays, or the name of a rejection's reason, or the words of an error."""

    outputs: dict[str, Stored] = {}
    rejection: str = ""
    error: str = ""


class Provenance(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The implementation that was checked, the seed of the run, and versions by distribution name."""

    implementation: str
    seed: int
    versions: dict[str, str] = {}


class Document(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A case file, field by field."""

    schema: Literal["specsim.case/1"]
    id: str
    operation: str
    property: str
    message: str
    parameters: dict[str, int]
    arrays: dict[str, Stored]
    expected: StoredObservation | None
    observed: StoredObservation
    provenance: Provenance
    arrays_file: str = ""
    kind: Literal["failure", "observed"] = "failure"
    ties: Literal["contract", "any"] = "contract"

    def check_id(self, path: Path, content_hash: str) -> None:
        """Check that the id names the content."""
        if self.id != content_hash:
            raise bad_case_file(path, f"the id {self.id}", content_hash, "the id hashes operation and arguments")


def store_array(array: Any, key: str) -> dict[str, Any]:
    """Return an array as JSON; under ``key`` in the file beside it, if there is a key."""
    form: dict[str, Any] = {"dtype": array.dtype.name, "shape": list(array.shape)}
    return {**form, "key": key} if key else {**form, "values": _jsonable(array.tolist())}


def load_document(path: Path) -> Document:
    """Read the JSON document and check it against the table."""
    try:
        if path.is_char_device() or path.is_block_device() or path.is_fifo():
            raise bad_case_file(path, "a device or a pipe", "a file", "reading it might not end")
        document = msgspec.json.decode(path.read_bytes(), type=Document)
    except OSError as error:
        raise bad_case_file(path, error.strerror or "unreadable", "a file", "it cannot be opened") from error
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise bad_case_file(path, f"{error}", f"a {SCHEMA} document", "it does not parse") from error
    if document.operation not in RECORDS:
        raise bad_case_file(path, document.operation, "an operation", "specsim has no operation of that name")
    if (document.expected is None) != (document.kind == OBSERVED):
        got = "nothing" if document.expected is None else "an observation"
        wanted = "null in a case of the kind observed alone"
        raise bad_case_file(path, f"expected, {got}", wanted, "of a recorded call nobody knew what to expect")
    contract = RECORDS[document.operation].contract
    produced = [*(spec.name for spec in contract.outputs), *contract.writes]
    groups: tuple[tuple[str, list[str], Any], ...] = (
        ("parameters", [spec.name for spec in contract.scalars], document.parameters),
        ("arrays", [spec.name for spec in contract.arrays], document.arrays),
        ("expected.outputs", produced, {} if document.expected is None else document.expected.outputs),
        ("observed.outputs", produced, document.observed.outputs),
    )
    for where, names, given in groups:
        for name in given:
            if name not in names:
                raise bad_case_file(path, f"{where}.{name}", f"one of {names}", f"{document.operation} has these")
    return document


def load_arrays(path: Path, document: Document, group: str, stored: Mapping[str, Stored]) -> dict[str, Any]:
    """Turn stored arrays into NumPy arrays, lists of them, or None."""
    beside: dict[str, Any] | None = None

    def load(label: str, array: StoredArray) -> Any:
        nonlocal beside
        if array.dtype not in DTYPES:
            raise bad_case_file(path, f"{label}.dtype {array.dtype}", f"one of {sorted(DTYPES)}", "only these are kept")
        if array.key:
            beside = _load_beside(path, document) if beside is None else beside
            loaded = beside.get(array.key)
            if loaded is None or (loaded.dtype.name, loaded.shape) != (array.dtype, array.shape):
                raise bad_case_file(path, f"{label}.key {array.key}", "that array", f"{document.arrays_file} lacks it")
            return loaded
        return _from_values(path, label, array)

    arrays: dict[str, Any] = {}
    for name, value in stored.items():
        if isinstance(value, StoredArray):
            arrays[name] = load(f"{group}.{name}", value)
        elif value is None:
            arrays[name] = None
        else:
            arrays[name] = [load(f"{group}.{name}.{index}", entry) for index, entry in enumerate(value)]
    return arrays


def bad_case_file(path: Path, got: object, expected: str, because: str) -> SpecRejection:
    """Return the rejection of a case file."""
    return SpecRejection(Reason.BAD_CASE_FILE, what=str(path), got=got, expected=expected, because=because)


def _load_beside(path: Path, document: Document) -> dict[str, Any]:
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    name = document.arrays_file
    if not name or Path(name).name != name:
        raise bad_case_file(path, f"arrays_file {name!r}", "a file name", "large arrays stand beside the document")
    try:
        return dict(load_file(path.parent / name))
    except (OSError, SafetensorError, ValueError) as error:
        raise bad_case_file(path.parent / name, f"{error}", "a safetensors file", "the case names it") from error


def _from_values(path: Path, label: str, array: StoredArray) -> Any:
    try:
        loaded = np.array(_from_json(array.values), dtype=array.dtype)
        if loaded.size == 0:
            loaded = loaded.reshape(array.shape)
    except (TypeError, ValueError, OverflowError, KeyError) as error:
        raise bad_case_file(path, f"{label}.values", f"{array.dtype} entries", f"{error}") from error
    if loaded.shape != array.shape:
        raise bad_case_file(path, f"{label}.values {list(loaded.shape)}", f"{list(array.shape)}", "its shape says so")
    return loaded


def _jsonable(value: Any) -> Any:
    if isinstance(value, list):
        return [_jsonable(entry) for entry in value]
    if isinstance(value, float) and value - value != 0.0:
        return "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"
    return value


def _from_json(value: Any) -> Any:
    if isinstance(value, list):
        return [_from_json(entry) for entry in value]
    return NUMBERS[value] if isinstance(value, str) else value
