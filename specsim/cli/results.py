"""The stream of results, stdout, and what becomes of a command when it cannot be written."""

import errno
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import TextIOBase
from typing import TextIO

from specsim.conformance.plain_text import printable

COLOURS = re.compile(r"(\x1b\[[0-9;]*m)")
ON_A_TERMINAL = re.compile(r"(\x1b\[[0-9;?]*[A-Za-z]|\r)")
CLOSED = (errno.EBADF, errno.EPIPE)
"""Failures of a stdout that somebody closed, as ``>&-`` and ``| head`` do, and that is not missed."""


class Results(TextIOBase):
    """A text stream that outlives its file: what cannot be written is dropped, and ``failure`` says why.

    So a command always ends, and reports its verdict on stderr and by its exit code. Characters that others
    wrote and that would control a terminal are written as in a literal of Python.
    """

    def __init__(self, stream: TextIO | None) -> None:
        self.failure: OSError | None = None
        self.summary = ""
        self._stream = stream
        if stream is None:
            self.failure = OSError(errno.EBADF, "closed")

    @property
    def encoding(self) -> str:  # type: ignore[override]
        """The encoding of the file."""
        return "utf-8" if self._stream is None else self._stream.encoding

    def writable(self) -> bool:
        """Return True, whatever became of the file."""
        return True

    def isatty(self) -> bool:
        """Return whether the file is a terminal."""
        return self._stream is not None and self._stream.isatty()

    def fileno(self) -> int:
        """Return the descriptor of the file, or raise OSError if it has none."""
        return super().fileno() if self._stream is None else self._stream.fileno()

    def write(self, text: str) -> int:
        """Write text, or drop it."""
        if self._stream is not None and self.failure is None:
            try:
                self._stream.write(_tamed(text, self._stream.isatty()))
            except OSError as error:
                self._fail(error)
        return len(text)

    def flush(self) -> None:
        """Bring what was written to the file, or drop it."""
        if self._stream is not None and self.failure is None:
            try:
                self._stream.flush()
            except (OSError, ValueError) as error:
                self._fail(error if isinstance(error, OSError) else OSError(errno.EBADF, "closed"))

    @property
    def is_missed(self) -> bool:
        """Whether results were lost that somebody waits for."""
        return self.failure is not None and self.failure.errno not in CLOSED

    def _fail(self, error: OSError) -> None:
        self.failure = error
        # NOTE: the interpreter flushes the file once more when it ends, and would leave with a code of its own.
        with suppress(OSError):
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self.fileno())
            os.close(nowhere)


def _tamed(text: str, is_terminal: bool) -> str:
    """Return text without control characters but those that colour it, and on a terminal those of progress bars."""
    if text.replace("\n", "").isprintable():
        return text
    kept = ON_A_TERMINAL if is_terminal else COLOURS
    parts = kept.split(text)
    return "".join(part if place % 2 else printable(part) for place, part in enumerate(parts))


@contextmanager
def results_on_stdout() -> Iterator[Results]:
    """Let everything that is printed while the block runs go through a stream of results, and remarks through another.

    Nothing but the remarks themselves is lost where stderr is closed.
    """
    with _remarks_on_stderr(), _results_on_stdout() as results:
        yield results


@contextmanager
def _remarks_on_stderr() -> Iterator[None]:
    _occupy_standard_descriptors()
    given = sys.stderr
    sys.stderr = Results(given)
    try:
        yield
    finally:
        sys.stderr.flush()
        sys.stderr = given


@contextmanager
def _results_on_stdout() -> Iterator[Results]:
    given = sys.stdout
    with suppress(AttributeError):  # NOTE: only a text file can choose what to do with what it cannot encode.
        given.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    results = Results(given)
    sys.stdout = results
    try:
        yield results
    finally:
        sys.stdout = given


def _occupy_standard_descriptors() -> None:
    """Keep files that are opened later, also in a process that is started, from becoming a stdout that was closed."""
    while (opened := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(opened, True)
    os.close(opened)
