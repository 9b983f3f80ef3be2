"""The process of a command: it is started, sent a frame, and waited for until it has sent one back."""

import atexit
import os
import select
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress

from specsim.assertion import require_present
from specsim.conformance.isolation.messages import CHUNK, SECONDS_HALFWAY
from specsim.conformance.isolation.process_limits import describe_status
from specsim.conformance.piping.frames import LENGTHS, BadFrame, length_of, quoted
from specsim.conformance.plain_text import shown

SECONDS_TO_END = 1.0
"""How long a command may go on that has closed its stdout."""

TAIL, TAIL_LINES, TAIL_SHOWN = 4096, 3, 300
"""Bytes of its stderr that are kept, and lines and characters that a message shows of them."""


class Ended(Exception):
    """The command has ended: how, and whether it has left half a frame."""

    def __init__(self, words: str, is_halfway: bool) -> None:
        super().__init__(words)
        self.is_halfway = is_halfway


class Process:
    """A process that answers frames.

    Parameters
    ----------
    words : sequence of str
        The program and its arguments.
    seconds_halfway : float
        After which half a frame counts as such.

    Raises
    ------
    OSError, ValueError
        It cannot be started.
    """

    def __init__(self, words: Sequence[str], seconds_halfway: float = SECONDS_HALFWAY) -> None:
        self._process = subprocess.Popen(
            words, bufsize=0, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        ends = (self._process.stdin, self._process.stdout, self._process.stderr)
        self._files = [require_present("an end of a pipe", end) for end in ends]
        self._stdin, self._stdout, self._stderr = (file.fileno() for file in self._files)
        self._owner, self._halfway, self._tail = os.getpid(), seconds_halfway, b""
        self._has_answered = False
        for end in (self._stdin, self._stdout, self._stderr):
            os.set_blocking(end, False)
        atexit.register(self.close)

    @property
    def is_ours(self) -> bool:
        """Whether this process has started it: a fork of the one that did has to start its own."""
        return self._owner == os.getpid()

    def close(self) -> None:
        """End the process, where this one has started it."""
        atexit.unregister(self.close)
        if not self.is_ours:
            return
        self._process.kill()
        self._process.wait()
        for file in self._files:
            with suppress(OSError):
                file.close()

    def exchange(self, frame: bytes) -> bytearray:
        """Send a frame and return the one that comes back; what the process prints meanwhile is passed on.

        Raises
        ------
        BadFrame
            What comes back is no frame, or more than one.
        Ended
            The process has ended, or has been ended, because it goes on without its stdout or stops halfway.
        """
        early = _read(self._stdout) if self._has_answered else None
        if early:
            raise _too_much(early)
        going, coming, length, moved = memoryview(frame), bytearray(), None, time.monotonic()
        waiting = select.poll()
        for end, event in ((self._stdin, select.POLLOUT), (self._stdout, select.POLLIN), (self._stderr, select.POLLIN)):
            waiting.register(end, event)
        while length is None or len(coming) < length:
            left = self._halfway - (time.monotonic() - moved) if coming else None
            if left is not None and left <= 0:
                self.close()
                words = f"wrote {_halfway(coming, length)}, and then nothing for {self._halfway:g} seconds"
                raise Ended(words, is_halfway=True)
            ready = dict(waiting.poll(None if left is None else left * 1000))
            if self._stderr in ready and not self._pass_on():
                waiting.unregister(self._stderr)
            if self._stdin in ready:
                going = going[_write_some(self._stdin, going) :]
                if not going:
                    waiting.unregister(self._stdin)
            if self._stdout in ready:
                arrived = _read(self._stdout)
                if arrived == b"":
                    raise self._end(_halfway(coming, length) if coming else "")
                coming += arrived or b""
                moved = time.monotonic()
                length = length_of(coming)
        if going:
            raise BadFrame("an answer before it had read the call")
        if len(coming) > length:
            raise _too_much(coming[length:])
        self._has_answered = True
        return coming

    def _pass_on(self) -> bool:
        """Print what the process prints, and keep the end of it; return False where no more can come."""
        printed = _read(self._stderr)
        if printed:
            self._tail = (self._tail + printed)[-TAIL:]
            with suppress(Exception):  # NOTE: its reader may have gone.
                sys.stderr.write(printed.decode(errors="replace"))
        return printed != b""

    def _end(self, halfway: str) -> Ended:
        """Return how the process ended that has closed its stdout; one that goes on is killed."""
        until = time.monotonic() + SECONDS_TO_END
        while self._process.poll() is None and time.monotonic() < until:
            self._pass_on()
            time.sleep(0.001)
        self._pass_on()
        code = self._process.poll()
        self.close()
        how = "goes on without its stdout" if code is None else describe_status(-code if code < 0 else code << 8)
        lines = [line.strip() for line in self._tail.decode(errors="replace").split("\n") if line.strip()]
        tail = f"; its stderr ends: {shown(' / '.join(lines[-TAIL_LINES:])[-TAIL_SHOWN:])}" if lines else ""
        return Ended(f"{how} after {halfway}{tail}" if halfway else f"{how}{tail}", bool(halfway))


def _read(end: int) -> bytes | None:
    """Return what has arrived, no bytes where no more can come, and None where nothing has."""
    try:
        return os.read(end, CHUNK)
    except BlockingIOError:
        return None


def _write_some(end: int, going: memoryview) -> int:
    """Return how many bytes the other end is done with: all of them where it is gone, as reading then shows."""
    try:
        return os.write(end, going)
    except BlockingIOError:
        return 0
    except BrokenPipeError:
        return len(going)


def _halfway(coming: bytearray, length: int | None) -> str:
    return f"half a frame, {len(coming):,} of {length or LENGTHS.size:,} bytes"


def _too_much(beyond: bytes | bytearray) -> BadFrame:
    return BadFrame(f"{len(beyond):,} bytes more than its answer, {quoted(beyond)}")
