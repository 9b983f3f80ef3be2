"""Frames of a pipe, as ``docs/any-language.md`` describes them: two lengths, a JSON header, arrays as safetensors."""

import json
import struct
from collections.abc import Mapping
from typing import Any

import numpy as np
from safetensors import SafetensorError, deserialize
from safetensors.numpy import save

from specsim.conformance.plain_text import shown
from specsim.conformance.stored_arrays import CODES, MOST_OF_HEADER, form_of, is_storable

LENGTHS = struct.Struct("<II")
"""How a frame begins: bytes of its header, and bytes of its body."""

MOST_OF_BODY = 1 << 30
DTYPES = {code: name for name, code in CODES.items()}
MOST_SHOWN = 40
"""Bytes of what is no frame that a message shows."""


class BadFrame(ValueError):
    """What a command wrote is no frame, or not the one that was asked for."""


def framed(header: Mapping[str, Any], arrays: Mapping[str, Any]) -> bytes:
    """Return a frame.

    Raises
    ------
    ValueError
        It would be longer than a frame may be.
    """
    words = json.dumps(header).encode()
    body = pack(arrays) if arrays else b""
    if len(words) > MOST_OF_HEADER or len(body) > MOST_OF_BODY:
        got, most = f"{len(words):,} and {len(body):,} bytes", f"{MOST_OF_HEADER:,} and {MOST_OF_BODY:,}"
        raise ValueError(f"header and body of a call have {got}, but should have at most {most}")
    return LENGTHS.pack(len(words), len(body)) + words + body


def length_of(begun: bytes | bytearray) -> int | None:
    """Return how many bytes a frame has that has begun to arrive; None where too few are there to say it.

    Raises
    ------
    BadFrame
        It announces more than a frame may have.
    """
    if len(begun) < LENGTHS.size:
        return None
    header, body = LENGTHS.unpack_from(begun)
    for what, length, most in (("header", header, MOST_OF_HEADER), ("body", body, MOST_OF_BODY)):
        if length > most:
            got = f"no frame, {quoted(begun)}: its {what} would have {length:,} bytes"
            raise BadFrame(f"{got}, but should have at most {most:,}")
    return LENGTHS.size + int(header) + int(body)


def opened(frame: bytes | bytearray) -> tuple[bytes, dict[str, Any]]:
    """Return the header of a whole frame as it stands there, and its arrays by name.

    Raises
    ------
    BadFrame
        The body holds no arrays.
    """
    header, _ = LENGTHS.unpack_from(frame)
    begin = LENGTHS.size + header
    return bytes(frame[LENGTHS.size : begin]), unpack(bytes(frame[begin:])) if len(frame) > begin else {}


def pack(arrays: Mapping[str, Any]) -> bytes:
    """Return arrays as the bytes of a safetensors file."""
    for name, array in arrays.items():
        if not is_storable(array):
            raise TypeError(f"{name} is {form_of(array)}, but should be an array of numbers or truth values")
    # NOTE: ``ascontiguousarray`` gives an array without axes one.
    return bytes(save({name: np.asarray(array, order="C") for name, array in arrays.items()}))


def unpack(body: bytes) -> dict[str, Any]:
    """Return the arrays of a safetensors file by name.

    Raises
    ------
    BadFrame
        It is none, or holds entries of a type that no operation has.
    """
    try:
        entries = deserialize(body)  # type: ignore[no-untyped-call]
    except SafetensorError as error:
        raise BadFrame(f"a body that is no safetensors file: {error}") from error
    arrays = {}
    for name, entry in entries:
        if entry["dtype"] not in DTYPES:
            expected = ", ".join(DTYPES)
            raise BadFrame(f"an array {shown(name)} of type {entry['dtype']}, but should be one of {expected}")
        dtype = np.dtype(DTYPES[entry["dtype"]])
        flat = np.frombuffer(entry["data"], np.uint8)
        if dtype == np.bool_ and flat.size and flat.max() > 1:
            raise BadFrame(f"a truth value {flat.max()} in {shown(name)}, but should be 0 or 1")
        arrays[name] = flat.view(dtype).reshape(entry["shape"])
    return arrays


def quoted(text: bytes | bytearray) -> str:
    """Return the beginning of bytes as they are shown."""
    return repr(bytes(text[:MOST_SHOWN])) + (" …" if len(text) > MOST_SHOWN else "")
