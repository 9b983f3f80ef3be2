"""The stream of results, stdout, and what becomes of a command when it cannot be written."""

import errno
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import TextIOBase
from typing import TextIO

CLOSED = (errno.EBADF, errno.EPIPE)
"""Failures of a stdout that somebody closed, as ``>&-`` and ``| head`` do, and that is not missed."""


class Results(TextIOBase):
    """A text stream that outlives its file: what cannot be written is dropped, and ``failure`` says why.

    So a command always comes to its end, and its verdict is told on stderr and by its exit code.
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
                self._stream.write(text)
            except OSError as error:
                self._fail(error)
        return len(text)

    def flush(self) -> None:
        """Bring what was written to the file, or drop it."""
        if self._stream is not None and self.failure is None:
            try:
                self._stream.flush()
            except OSError as error:
                self._fail(error)

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


@contextmanager
def results_on_stdout() -> Iterator[Results]:
    """Let everything that is printed while the block runs go through a stream of results."""
    _occupy_standard_descriptors()
    given = sys.stdout
    with suppress(AttributeError):  # NOTE: only a text file can be told what to do with what it cannot encode.
        given.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    results = Results(given)
    sys.stdout = results
    try:
        yield results
    finally:
        sys.stdout = given


def _occupy_standard_descriptors() -> None:
    """Keep files that are opened later from becoming a stdout that was closed."""
    while (opened := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(opened)
