"""Files that others wrote: read whole or refused, and never followed to somewhere else."""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path

from specsim.conformance.plain_text import shown, shown_path
from specsim.rejection import Reason, SpecRejection


def bad_case_file(path: Path, got: object, expected: str, because: str) -> SpecRejection:
    """Return the rejection of a case file; what the file says is shown without control characters."""
    return SpecRejection(Reason.BAD_CASE_FILE, shown_path(path), shown(str(got)), shown(expected), shown(because))


def read_plain_file(path: Path, most: int, because: str) -> bytes:
    """Return the bytes of a file.

    Parameters
    ----------
    path : Path
        A link is not followed, a device or a pipe not read.
    most : int
        How many bytes it may have; of a longer one nothing is read.
    because : str
        Where that bound comes from.

    Raises
    ------
    SpecRejection
        BAD_CASE_FILE.
    """
    with open_plain_file(path) as (file, size):
        # One byte more than it has: a read takes memory for all that it is asked for.
        content = file.read(size + 1) if size <= most else b""
    if max(size, len(content)) > most:
        raise bad_case_file(path, f"{max(size, len(content)):,} bytes", f"at most {most:,}", because)
    return content


@contextmanager
def open_plain_file(path: Path) -> Iterator[tuple[BufferedReader, int]]:
    """Open a file as above, and yield it with its size in bytes.

    Raises
    ------
    SpecRejection
        BAD_CASE_FILE: it cannot be opened, or not be read within the block.
    """
    try:
        _require_file(path, os.lstat(path).st_mode)
        # NOTE: what stands here may be another thing by now, and opening a pipe would wait for somebody to write.
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
        with os.fdopen(descriptor, "rb") as file:
            about = os.fstat(descriptor)
            _require_file(path, about.st_mode)
            yield file, about.st_size
    except SpecRejection:
        raise
    except OSError as error:
        raise bad_case_file(path, error.strerror or "unreadable", "a file", "it cannot be opened") from error
    except (ValueError, UnicodeError) as error:
        raise bad_case_file(path, f"{error}", "a file", "it cannot be opened") from error


def _require_file(path: Path, mode: int) -> None:
    if stat.S_ISLNK(mode):
        raise bad_case_file(path, "a link", "a file", "links are not followed")
    if stat.S_ISDIR(mode):
        raise bad_case_file(path, "a directory", "a file", "files are named one by one")
    if not stat.S_ISREG(mode):
        raise bad_case_file(path, "a device or a pipe", "a file", "reading it might not end")
