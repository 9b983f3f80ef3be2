"""Signs of life: what is about to be called is written before every call, for the process that watches this one."""

import os
import struct
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from mmap import mmap
from typing import Any

from specsim.conformance.isolation.messages import MOST_BYTES_OF_A_CALL, pack_call, unpack_call
from specsim.conformance.isolation.process_limits import seconds_waited
from specsim.conformance.raised import as_failure

HEADER = struct.Struct("<QQQQ")
"""Beats, examples, whether a call is going on, and the length of the description of the last call."""
CALLING = struct.Struct("<QQQ")
BEATS = struct.Struct("<Q")
SMALLEST = 1 << 16


class Cut(BaseException):
    """Time is up: what runs ends at its next call. No ``Exception``, so that no one takes it for a failure."""


class Poisoned(BaseException):
    """The device refuses every further call of this process."""


class Heart:
    """Memory that a process shares with the one that watches it: counts of beats and examples, and the last call.

    The watcher reads the counts at any time, and the call once the process has been stopped.
    """

    def __init__(self, descriptor: int, folder: str = "") -> None:
        self._descriptor = descriptor
        self._folder = folder
        self._memory: mmap | None = None
        self._beats = self._examples = 0
        self._follows_compiler = False
        self._deadline: float | None = None
        self._seconds = self._began = self._computed = self._waited = 0.0

    @classmethod
    def new(cls) -> "Heart":
        """Return one in memory of its own."""
        descriptor = os.memfd_create("specsim-heart", os.MFD_CLOEXEC)
        os.ftruncate(descriptor, SMALLEST)
        return cls(descriptor)

    def fileno(self) -> int:
        """Return the descriptor, which another process may be handed."""
        return self._descriptor

    def close(self) -> None:
        """Give the memory back."""
        os.close(self._descriptor)

    def start(self, seconds: float | None) -> None:
        """Begin a job that is cut after so many seconds, without those in which it could run and others did."""
        self._examples = 0
        self._be_somewhere()
        self._began, self._computed, self._waited = time.monotonic(), time.process_time(), seconds_waited(os.getpid())
        self._deadline, self._seconds = None if seconds is None else self._began + seconds, seconds or 0.0
        self._write(b"")

    def example(self) -> None:
        """Say that an example begins."""
        self._check_deadline()
        self._examples += 1
        self._write(b"")

    def call(self, name: str, arguments: Mapping[str, Any] | None) -> None:
        """Say that a function is called, and with what, as far as that can be kept."""
        self._check_deadline()
        if not self._follows_compiler and "triton.knobs" in sys.modules:
            self._follow_compiler(sys.modules["triton.knobs"])
        self._write(pack_call(name, arguments), is_calling=True)

    def beat(self) -> None:
        """Say that whatever goes on makes progress: its time begins again."""
        self._beats += 1
        if self._memory is not None:
            BEATS.pack_into(self._memory, 0, self._beats)

    def returned(self) -> None:
        """Say that the call has returned; what it was is kept, because a device may answer later."""
        self._beats += 1
        if self._memory is not None:
            CALLING.pack_into(self._memory, 0, self._beats, self._examples, False)
        self._be_somewhere()

    def counts(self) -> tuple[int, int]:
        """Return the beats so far, and the examples of the job at hand that have begun."""
        beats, examples, _, _ = self._header()
        return beats, examples

    def is_calling(self) -> bool:
        """Return whether a call is going on; outside of one no one but us is slow."""
        return bool(self._header()[2])

    def last_call(self) -> tuple[str, dict[str, Any] | None] | None:
        """Return the name and the arguments of the call that began last in the example at hand."""
        _, _, _, length = self._header()
        # NOTE: what is tried can write anything here, a length of any number of bytes too.
        if not 0 < length <= min(MOST_BYTES_OF_A_CALL, os.fstat(self._descriptor).st_size):
            return None
        reported = os.pread(self._descriptor, length, HEADER.size)
        return unpack_call(reported) if len(reported) == length else None

    def _follow_compiler(self, knobs: Any) -> None:
        """Beat whenever Triton has compiled a kernel: a first call may compile a dozen, and none of them hangs."""
        self._follows_compiler = True
        following = knobs.runtime.jit_post_compile_hook

        def beat(**compiled: Any) -> Any:
            self.beat()
            return None if following is None else following(**compiled)

        knobs.runtime.jit_post_compile_hook = beat

    def _be_somewhere(self) -> None:
        """Leave a working directory that is gone: what is tried may have removed it, and Hypothesis asks for it."""
        try:
            os.getcwd()
        except OSError:
            with suppress(OSError):
                os.chdir(self._folder)

    def _check_deadline(self) -> None:
        if self._deadline is None or time.monotonic() <= self._deadline:
            return
        left = self._seconds - self._counted()
        self._deadline = time.monotonic() + left if left > 0 else None
        if self._deadline is None:
            raise Cut

    def _counted(self) -> float:
        """Return the seconds of the job: those in which this process computed or slept."""
        passed = time.monotonic() - self._began
        computed = time.process_time() - self._computed
        return min(passed, max(computed, passed - (seconds_waited(os.getpid()) - self._waited)))

    def _header(self) -> tuple[int, int, int, int]:
        header = os.pread(self._descriptor, HEADER.size, 0).ljust(HEADER.size, b"\0")
        beats, examples, is_calling, length = HEADER.unpack(header)
        return beats, examples, is_calling, length

    def _write(self, reported: bytes, is_calling: bool = False) -> None:
        needed = HEADER.size + len(reported)
        if self._memory is None or len(self._memory) < needed:
            size = max(SMALLEST, 1 << (needed - 1).bit_length())
            if os.fstat(self._descriptor).st_size < size:
                os.ftruncate(self._descriptor, size)
            self._memory = mmap(self._descriptor, size)
        self._beats += 1
        memory = self._memory
        memory[HEADER.size : needed] = reported
        HEADER.pack_into(memory, 0, self._beats, self._examples, is_calling, len(reported))


_heart: Heart | None = None


def listen(heart: Heart | None) -> None:
    """Let this process tell its signs of life from now on."""
    global _heart
    _heart = heart


def is_watched() -> bool:
    """Return whether somebody watches this process."""
    return _heart is not None


def begin_example() -> None:
    """Say that an example begins; nothing happens where no one watches."""
    if _heart is not None:
        _heart.example()


def begin_call(name: str, arguments: Mapping[str, Any] | None = None) -> None:
    """Say that a function is about to be called; nothing happens where no one watches."""
    if _heart is not None:
        _heart.call(name, arguments)


def end_call() -> None:
    """Say that what was called has returned; nothing happens where no one watches."""
    if _heart is not None:
        _heart.returned()


@contextmanager
def staying(name: str, but: tuple[type[Exception], ...] = ()) -> Iterator[None]:
    """Let whatever leaves, skips or filters be raised as a plain error that names it; see ``stay``.

    Parameters
    ----------
    but : tuple of exceptions
        What the block itself may raise.
    """
    try:
        yield
    except BaseException as error:
        failure = error if isinstance(error, (Cut, Poisoned, *but)) else _failure(error, name)
        if failure is error:
            raise
        raise failure from error


def stay(name: str, function: Callable[..., Any], arguments: Mapping[str, Any]) -> Any:
    """Call a function, in a third of the time that a ``with`` takes; what it raises becomes a plain error.

    A process that only the keyboard can interrupt is interrupted by it.
    """
    try:
        return function(**arguments)
    except (Cut, Poisoned):
        raise
    except BaseException as error:
        failure = _failure(error, name)
        if failure is error:
            raise
        raise failure from error


def _failure(error: BaseException, name: str) -> BaseException:
    return error if isinstance(error, KeyboardInterrupt) and not is_watched() else as_failure(error, name)
