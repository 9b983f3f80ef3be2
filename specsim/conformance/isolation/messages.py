"""What a worker sends to the process that supervises it: data of a bounded length, read by its type and never run.

The module that is tried shares the worker's memory and descriptors, and can write anything there at any time. Jobs go
the other way and are pickled, because what the supervising process says is believed.
"""

import math
import pickle
import socket
import struct
import time
from collections.abc import Mapping
from typing import Any

import msgspec
import numpy as np

from specsim.conformance.layouts import Layout, lay_out, layout_of
from specsim.conformance.plain_text import LONGEST_TRACE, bounded, trace_of, words_of
from specsim.conformance.stored import LONGEST_NAME, MOST_BYTES, StoredLayout
from specsim.conformance.stored_arrays import MOST_AXES, is_storable, is_stored_type

MAGIC = b"spec"
FRAME = struct.Struct("<4sI")
MOST_BYTES_OF_A_CALL = 1 << 28
"""Of a call with its arguments; of a larger one the name alone is kept."""

SECONDS_HALFWAY = 10.0
"""How long a message, or a frame of a command, may stand still that has begun to arrive."""

CHUNK = 1 << 16


class NoMessage(Exception):
    """What arrived is no message."""


class Answered(msgspec.Struct, frozen=True, tag="answered"):
    """The job has ended; its answer is decoded by those who know its type."""

    answer: msgspec.Raw


class CutShort(msgspec.Struct, frozen=True, tag="cut"):
    """The job has ended because its time was over."""


class DeviceRefuses(msgspec.Struct, frozen=True, tag="poisoned"):
    """The device refuses every further call, and the process ends."""

    words: str


class Raised(msgspec.Struct, frozen=True, tag="raised"):
    """The job has raised something."""

    words: str
    trace: str


Message = Answered | CutShort | DeviceRefuses | Raised
_messages = msgspec.msgpack.Decoder(Message)


class SentArray(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An array as a case file stores it, its entries as bytes in C order."""

    dtype: str
    shape: tuple[int, ...]
    data: bytes
    layout: StoredLayout | None = None


Sent = bool | int | float | SentArray | list[bool | int | float | SentArray | None] | None


class SentCall(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A function that is called, and its arguments where they can be sent."""

    name: str
    arguments: dict[str, Sent] | None


_calls = msgspec.msgpack.Decoder(SentCall)
# NOTE: what is tried may put anything in the place of a module's names.
_encode, _loads = msgspec.msgpack.encode, pickle.loads


class Channel:
    """One end of a socket between two processes, as the supervising one uses it: nothing here waits."""

    def __init__(self, end: socket.socket) -> None:
        end.setblocking(False)
        self._end = end
        self._coming, self._going = bytearray(), bytearray()
        self._moved = 0.0
        self._is_closed = False

    def fileno(self) -> int:
        """Return the descriptor of the socket."""
        return self._end.fileno()

    def close(self) -> None:
        """Close the socket."""
        self._end.close()

    def send_job(self, function: str, arguments: tuple[Any, ...], seconds: float | None) -> None:
        """Send a job, as far as the other end takes it at once; ``receive`` sends the rest."""
        self._going += framed(pickle.dumps((function, arguments, seconds)))
        self._push()

    def receive(self) -> Message | None:
        """Return a message that has arrived as a whole.

        Raises
        ------
        NoMessage
            Something else arrives, or the rest of a message does not.
        """
        self._push()
        self._pull()
        if len(self._coming) < FRAME.size:
            return None
        magic, length = FRAME.unpack_from(self._coming)
        if magic != MAGIC or length > MOST_BYTES:
            raise NoMessage("wrote what is no message")
        if len(self._coming) < FRAME.size + length:
            if time.monotonic() - self._moved > SECONDS_HALFWAY:
                raise NoMessage("wrote half a message")
            return None
        content = bytes(self._coming[FRAME.size : FRAME.size + length])
        del self._coming[: FRAME.size + length]
        try:
            message: Message = _messages.decode(content)
            return message
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            raise NoMessage("wrote what is no message") from error

    def _pull(self) -> None:
        while not self._is_closed and len(self._coming) <= MOST_BYTES + FRAME.size:
            try:
                arrived = self._end.recv(CHUNK)
            except BlockingIOError:
                return
            except OSError:
                arrived = b""
            self._is_closed = not arrived
            self._coming += arrived
            self._moved = time.monotonic()

    def _push(self) -> None:
        try:
            while self._going:
                del self._going[: self._end.send(self._going)]
        except BlockingIOError:
            return
        except OSError:  # NOTE: a process that has died meanwhile is found dead at the next look.
            self._going.clear()


def framed(content: bytes) -> bytes:
    """Return a message with its length before it."""
    return FRAME.pack(MAGIC, len(content)) + content


def receive_job(end: socket.socket) -> tuple[str, tuple[Any, ...], float | None] | None:
    """Wait for a job: its function, its arguments, and the seconds after which it is cut; None where no more come.

    Raises
    ------
    ConnectionError
        Something else arrives: a fork of this process reads here as well.
    """
    header = _exactly(end, FRAME.size)
    if header is None:
        return None
    magic, length = FRAME.unpack(header)
    if magic != MAGIC:
        raise ConnectionError("what arrives is no job")
    content = _exactly(end, length)
    if content is None:
        return None
    try:
        function, arguments, seconds = _loads(content)
    except Exception as error:
        raise ConnectionError("what arrives is no job") from error
    return function, arguments, seconds


def send_message(end: socket.socket, message: Message) -> None:
    """Send a message, and wait until the other end has taken it."""
    end.sendall(framed(_encode(message)))


def answered(answer: object) -> Message:
    """Return the message of an answer, or that it is too long."""
    try:
        content = _encode(answer, enc_hook=_plain_value)
    except UnicodeEncodeError:
        content = _encode(_with_texts(msgspec.to_builtins(answer, enc_hook=_plain_value)))
    if len(content) > MOST_BYTES - CHUNK:
        return Raised(f"an answer of {len(content):,} bytes, but should be at most {MOST_BYTES - CHUNK:,}", "")
    return Answered(msgspec.Raw(content))


def raised(error: BaseException) -> Message:
    """Return the message of something that was raised."""
    words, trace = words_of(error) or type(error).__name__, trace_of(error)
    return Raised(_with_texts(bounded(words)), _with_texts(bounded(trace, LONGEST_TRACE)))


def decode_answer(answer: msgspec.Raw) -> Any:
    """Return an answer as plain values.

    Raises
    ------
    NoMessage
        It is none.
    """
    try:
        return msgspec.msgpack.decode(answer)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise NoMessage("answered what is no message") from error


def pack_call(name: str, arguments: Mapping[str, Any] | None) -> bytes:
    """Return a call as bytes, without its arguments where they cannot be sent."""
    try:
        sent = None if arguments is None else {each: _send(value) for each, value in arguments.items()}
        packed = _encode(SentCall(name, sent))
        if len(packed) <= MOST_BYTES_OF_A_CALL:
            return packed
    except Exception:  # NOTE: arguments may be anything at all, and the call is named whatever they are.
        pass
    return _encode(SentCall(bounded(name, LONGEST_NAME), None))


def unpack_call(packed: bytes) -> tuple[str, dict[str, Any] | None] | None:
    """Return the name and the arguments of a call, without those that cannot be; None where the bytes are no call."""
    try:
        call = _calls.decode(packed)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None
    if call.arguments is None:
        return bounded(call.name, LONGEST_NAME), None
    try:
        return bounded(call.name, LONGEST_NAME), {each: _receive(value) for each, value in call.arguments.items()}
    except ValueError:
        return bounded(call.name, LONGEST_NAME), None


def _exactly(end: socket.socket, length: int) -> bytes | None:
    content = bytearray()
    while len(content) < length:
        arrived = end.recv(min(length - len(content), CHUNK))
        if not arrived:
            return None
        content += arrived
    return bytes(content)


def _plain_value(value: Any) -> Any:
    """Return a number of NumPy's as one of Python's, and any mapping as a dictionary."""
    if isinstance(value, np.generic) and value.ndim == 0:
        return value.item()
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} is no plain value")


def _with_texts(value: Any) -> Any:
    """Return plain values in which halves of characters are escaped, which no encoding knows."""
    if isinstance(value, str):
        return value.encode(errors="backslashreplace").decode()
    if isinstance(value, dict):
        return {_with_texts(name): _with_texts(one) for name, one in value.items()}
    return [_with_texts(one) for one in value] if isinstance(value, list | tuple) else value


def _send(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_send(entry) for entry in value]
    if isinstance(value, np.ndarray):
        if type(value) is not np.ndarray or not is_storable(value):
            raise TypeError("no array that a case file holds")
        layout = layout_of(value)
        stored = None if layout is None else StoredLayout(layout.strides, layout.offset, layout.size)
        entries: Any = np.ascontiguousarray(value).reshape(-1).view(np.uint8)
        return SentArray(value.dtype.name, value.shape, entries.data, stored)
    if isinstance(value, np.generic):
        return value.item()
    if value is None or isinstance(value, int | float):
        return value
    raise TypeError("no value that a case file holds")


def _receive(value: Any) -> Any:
    if isinstance(value, list):
        return [_receive(entry) for entry in value]
    return _array_of(value) if isinstance(value, SentArray) else value


def _array_of(sent: SentArray) -> Any:
    """Return an array that was sent.

    Raises
    ------
    ValueError
        It is none.
    """
    if not is_stored_type(sent.dtype) or len(sent.shape) > MOST_AXES or any(size < 0 for size in sent.shape):
        raise ValueError("no array that a case file holds")
    dtype = np.dtype(sent.dtype)
    if math.prod(sent.shape) * dtype.itemsize != len(sent.data):
        raise ValueError("another number of entries than the shape has")
    entries = np.frombuffer(sent.data, np.uint8)
    if dtype == np.bool_ and entries.size and entries.max() > 1:
        raise ValueError("a truth value that is neither 0 nor 1")
    array = entries.view(dtype).reshape(sent.shape).copy()
    if sent.layout is None:
        return array
    layout = Layout(sent.layout.strides, sent.layout.offset, sent.layout.size)
    if not array.size or layout.why_wrong(array.shape, dtype.itemsize):
        raise ValueError("no layout of this array")
    view = lay_out(array, layout)
    return array if view is None else view
