"""Arrays of a case file: entries in the document or in a safetensors file beside it, and views as they lay in memory.

Everything that a document declares is checked before memory is taken for any of it.
"""

import json
import math
import struct
from collections.abc import Mapping
from io import BufferedReader
from pathlib import Path
from typing import Any

import ml_dtypes
import msgspec
import numpy as np

from specsim.conformance.layouts import MOST_SPREAD, Layout, lay_out, layout_of
from specsim.conformance.plain_files import bad_case_file, open_plain_file
from specsim.conformance.stored import FILE_NAME, Document, Stored, StoredArray, Unset, parse_json
from specsim.rejection import SpecRejection

BFLOAT16 = np.dtype(ml_dtypes.bfloat16).name
CODES = {
    "bool": "BOOL",
    BFLOAT16: "BF16",
    **{f"float{bits}": f"F{bits}" for bits in (16, 32, 64)},
    **{f"{sign}int{bits}": f"{'U' if sign else 'I'}{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)},
}
"""Element types that are kept, with what a safetensors file calls them."""

LARGEST = {
    name: float(ml_dtypes.finfo(name).max)  # type: ignore[no-untyped-call]
    for name in (BFLOAT16, "float16", "float32", "float64")
}
"""The largest finite number of each floating type."""

LENGTH = struct.Struct("<Q")
METADATA = "__metadata__"
NUMBERS = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}
MOST_AXES, MOST_BYTES, MOST_OF_HEADER = 16, 1 << 32, 1 << 20


class _Entry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    dtype: str
    shape: tuple[int, ...]
    data_offsets: tuple[int, int]


def is_storable(value: Any) -> bool:
    """Return whether a case file can hold a value: an array of a kept element type."""
    return isinstance(value, np.ndarray) and value.dtype.name in CODES and value.ndim <= MOST_AXES


def is_stored_type(name: str) -> bool:
    """Return whether a case file can hold entries of a type, by its name."""
    return name in CODES


def form_of(value: Any) -> str:
    """Return ``int32 [2, 6]`` of an array, and the type of anything else."""
    return f"{value.dtype} {list(value.shape)}" if isinstance(value, np.ndarray) else type(value).__name__


def store_array(array: Any, key: str) -> dict[str, Any]:
    """Return an array as JSON; under ``key`` in the file beside it, if there is a key."""
    form: dict[str, Any] = {"dtype": array.dtype.name, "shape": list(array.shape)}
    layout = layout_of(array)
    if layout is not None:
        form["layout"] = {"strides": list(layout.strides), "offset": layout.offset, "size": layout.size}
    return {**form, "key": key} if key else {**form, "values": _jsonable(array.tolist())}


class StoredArrays:
    """The arrays of a document whose declared sizes have been checked, read when they are asked for."""

    def __init__(self, path: Path, document: Document) -> None:
        self.path = path
        self._check_sizes(document)
        self._check_keys(document)
        self._beside = self._load_beside(document) if isinstance(document.arrays_file, str) else {}

    def load(self, where: str, value: Stored) -> Any:
        """Return an array, a list of them, or None."""
        if isinstance(value, list):
            return [self._load(f"{where}.{index}", entry) for index, entry in enumerate(value)]
        return None if value is None else self._load(where, value)

    def _load(self, label: str, array: StoredArray) -> Any:
        loaded = self._beside[array.key] if isinstance(array.key, str) else self._from_values(label, array)
        if not isinstance(array.layout, Unset):
            loaded = lay_out(loaded, _layout(array))
            if loaded is None:
                got, because = f"{label}.layout", "its entries share addresses and differ"
                raise bad_case_file(self.path, got, "a layout for these entries", because)
        return loaded

    def _check_sizes(self, document: Document) -> None:
        held = spread = 0
        for label, array in document.stored_arrays():
            if array.dtype not in CODES:
                got = f"{label}.dtype {array.dtype}"
                raise bad_case_file(self.path, got, f"one of {sorted(CODES)}", "only these are kept")
            if len(array.shape) > MOST_AXES or any(size < 0 for size in array.shape):
                got = f"{label}.shape {list(array.shape)}"
                raise bad_case_file(self.path, got, f"at most {MOST_AXES} sizes", "arrays have no others")
            itemsize = np.dtype(array.dtype).itemsize
            # NOTE: without entries the other sizes are bounded all the same, because NumPy multiplies them.
            num_bytes = itemsize * math.prod(size for size in array.shape if size)
            held += num_bytes
            if held > MOST_BYTES:
                got = f"{label}.shape {list(array.shape)}"
                raise bad_case_file(self.path, got, f"at most {MOST_BYTES:,} bytes in all", "a case fits in memory")
            if isinstance(array.layout, Unset):
                continue
            wrong = _layout(array).why_wrong(array.shape, itemsize) if all(array.shape) else "of no entries"
            spread += array.layout.size * itemsize
            if wrong or spread > MOST_SPREAD:
                got = f"{label}.layout {wrong or f'of {spread:,} bytes in all'}"
                expected = f"strides, offset and size of a block, of at most {MOST_SPREAD:,} bytes in all"
                raise bad_case_file(self.path, got, expected, "the array is a view of it")

    def _check_keys(self, document: Document) -> None:
        name = document.arrays_file
        if isinstance(name, str) and not FILE_NAME.fullmatch(name):
            because = "large arrays stand beside the document"
            raise bad_case_file(self.path, f"arrays_file {name!r}", "a plain file name", because)
        keys: set[str] = set()
        for label, array in document.stored_arrays():
            if isinstance(array.key, Unset) == isinstance(array.values, Unset):
                got = f"{label} with {'neither values nor' if isinstance(array.key, Unset) else 'both values and'} key"
                raise bad_case_file(self.path, got, "one of them", "the entries stand in one place")
            if isinstance(array.key, str):
                if array.key in keys:
                    raise bad_case_file(self.path, f"{label}.key {array.key}", "a key of its own", "it is named twice")
                if isinstance(name, Unset):
                    because = "an array has a key"
                    raise bad_case_file(self.path, "without arrays_file", "the name of a file", because)
                keys.add(array.key)
        if isinstance(name, str) and not keys:
            raise bad_case_file(self.path, f"arrays_file {name}", "absent", "no array has a key")

    def _load_beside(self, document: Document) -> dict[str, Any]:
        """Read the file beside, which holds what the document declares and nothing else.

        Its header is compared with the document, and with its size, before memory is taken for any array.
        """
        declared = {array.key: array for _, array in document.stored_arrays() if isinstance(array.key, str)}
        forms = {key: (np.dtype(array.dtype), array.shape) for key, array in declared.items()}
        num_bytes = sum(dtype.itemsize * math.prod(shape) for dtype, shape in forms.values())
        path = self.path.parent / str(document.arrays_file)
        with open_plain_file(path) as (file, size):
            if size > num_bytes + MOST_OF_HEADER:
                raise bad_case_file(
                    path, f"{size:,} bytes", f"at most {num_bytes + MOST_OF_HEADER:,}", "the document declares no more"
                )
            if size < num_bytes:
                raise bad_case_file(path, f"{size:,} bytes", f"at least {num_bytes:,}", "the document declares them")
            places = self._places(path, file, size, forms)
            arrays = {}
            for key, (dtype, shape) in forms.items():
                file.seek(places[key])
                entries = bytearray(dtype.itemsize * math.prod(shape))
                if file.readinto(entries) != len(entries):
                    raise bad_case_file(path, "another size than before", "a file", "it is read")
                arrays[key] = self._from_bytes(path, key, entries, dtype).reshape(shape)
        return arrays

    def _places(
        self, path: Path, file: BufferedReader, size: int, forms: Mapping[str, tuple[np.dtype[Any], tuple[int, ...]]]
    ) -> dict[str, int]:
        """Return where the entries of each array begin in the file beside, by its header."""
        (length,) = LENGTH.unpack(file.read(LENGTH.size).ljust(LENGTH.size, b"\0"))
        if not 0 < length <= min(MOST_OF_HEADER, size - LENGTH.size):
            got = f"a header of {length:,} bytes"
            raise bad_case_file(path, got, "a safetensors file", "the case names it")
        try:
            header = parse_json(path, file.read(length))
            found = {key: msgspec.convert(entry, _Entry) for key, entry in header.items() if key != METADATA}
        except (SpecRejection, msgspec.MsgspecError, AttributeError) as error:
            raise bad_case_file(
                path, f"a header of which {error}", "a safetensors file", "the case names it"
            ) from error
        for key in found.keys() - forms.keys():
            raise bad_case_file(path, f"a file with {key}", f"one of {sorted(forms)} alone", "the case names these")
        begin, places = LENGTH.size + length, {}
        spans = []
        for key, (dtype, shape) in forms.items():
            entry = found.get(key)
            if entry is None or (entry.dtype, entry.shape) != (CODES[dtype.name], shape):
                got = "nothing" if entry is None else f"{entry.dtype} {list(entry.shape)}"
                because = f"the document declares {dtype.name} {list(shape)}"
                raise bad_case_file(path, f"{got} under the key {key}", "that array", because)
            first, last = entry.data_offsets
            if last - first != dtype.itemsize * math.prod(shape):
                got = f"{last - first:,} bytes under the key {key}"
                raise bad_case_file(path, got, "as many as its entries have", "it is a safetensors file")
            spans.append((first, last))
            places[key] = begin + first
        ends = [0, *(last for _, last in sorted(spans))]
        if [first for first, _ in sorted(spans)] != ends[:-1] or ends[-1] != size - begin:
            raise bad_case_file(path, "arrays with gaps", "one after another", "it is a safetensors file")
        return places

    def _from_bytes(self, path: Path, key: str, entries: bytearray, dtype: np.dtype[Any]) -> Any:
        if not entries:
            return np.zeros(0, dtype)
        if dtype == np.bool_ and np.frombuffer(entries, np.uint8).max() > 1:
            raise bad_case_file(path, f"a byte above 1 under the key {key}", "0 or 1", "truth values are")
        return np.frombuffer(entries, dtype)

    def _from_values(self, label: str, array: StoredArray) -> Any:
        """Return the entries as an array: as many as the shape says, each of them one of its element type."""
        level = [array.values]
        for axis, size in enumerate(array.shape):
            for nested in level:
                if not isinstance(nested, list) or len(nested) != size:
                    got = f"{len(nested)} entries" if isinstance(nested, list) else "no list"
                    got = f"{label}.values with {got} along axis {axis}"
                    raise bad_case_file(self.path, got, f"{size}", f"its shape is {list(array.shape)}")
            level = [entry for nested in level for entry in nested]
        dtype = np.dtype(array.dtype)
        entries = [_entry(entry, dtype) for entry in level]
        for given, entry in zip(level, entries, strict=True):
            if entry is None:
                words = f"a {type(given).__name__}" if isinstance(given, list | dict) else json.dumps(given)
                expected = f"{array.dtype} entries"
                raise bad_case_file(self.path, f"{label}.values with {words}", expected, "its dtype says so")
        with np.errstate(over="ignore"):
            loaded = np.array(entries, dtype=dtype).reshape(array.shape)
        return loaded


def _entry(value: Any, dtype: np.dtype[Any]) -> Any:
    """Return an entry as Python has it, or None where it is none of that element type."""
    kind = dtype.kind
    if kind == "b":
        return value if type(value) is bool else None
    if kind in "iu":
        bounds = np.iinfo(dtype)
        return value if type(value) is int and bounds.min <= value <= bounds.max else None
    if type(value) is str:
        return NUMBERS.get(value)
    if type(value) not in (int, float):
        return None
    largest = LARGEST[dtype.name]
    return float(value) if -largest <= value <= largest else None


def _layout(array: StoredArray) -> Layout:
    layout = array.layout
    return Layout((), 0, 0) if isinstance(layout, Unset) else Layout(layout.strides, layout.offset, layout.size)


def _jsonable(value: Any) -> Any:
    if isinstance(value, list):
        return [_jsonable(entry) for entry in value]
    if isinstance(value, float) and value - value != 0.0:
        return "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"
    return value
