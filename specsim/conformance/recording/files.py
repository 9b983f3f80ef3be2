"""The folder of a recording: case files of the kind ``observed``, bounded in bytes, under names of one process."""

import os
import secrets
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

import specsim
from specsim.conformance.cases import Case, write_case
from specsim.conformance.outcomes import Observation
from specsim.conformance.recording.kept import Kept, NotUnderstood
from specsim.conformance.stored import OBSERVED, Provenance
from specsim.conformance.stored_arrays import is_storable
from specsim.installation import versions_of

DISTRIBUTIONS = ("numpy", "torch", "triton")

Fetch = Callable[[Any], Any]


class Full(Exception):
    """The files of a recording have as many bytes as they may have."""


class Folder:
    """Where the calls of one process go.

    Parameters
    ----------
    path : Path
        The folder; other processes may write into it as well.
    implementation : str
        What is recorded.
    seed : int
        That of the samples.
    max_bytes : int
        What all files of this process may have.
    ties_are_free : bool
        Whether the implementation declares that ties may be broken in any way.
    """

    def __init__(self, path: Path, implementation: str, seed: int, max_bytes: int, ties_are_free: bool) -> None:
        self.path = path
        self._max_bytes = max_bytes
        self._provenance = Provenance(
            implementation, seed, {"specsim": specsim.__version__, **versions_of(DISTRIBUTIONS)}
        )
        self._ties_are_free = ties_are_free
        self._num_files = 0
        self.name_anew()

    def name_anew(self) -> None:
        """Choose the part of the names that tells this process, and this recording, from all others: none is there."""
        self.token = f"{os.getpid()}-{secrets.token_hex(4)}"
        self.num_bytes = 0

    def open(self) -> None:
        """Make the folder."""
        self.path.mkdir(parents=True, exist_ok=True)

    def write(self, kept: Kept, fetch: Fetch) -> None:
        """Write a call; its copies are let go.

        Raises
        ------
        Full
            There would be too many bytes; nothing of the call is left in the folder.
        NotUnderstood
            An array has entries that a case file does not keep.
        OSError
            As the folder says.
        """
        case = Case(
            operation=kept.operation,
            property_name=f"agreement.{kept.operation}",
            arguments={name: _on_host(value, fetch) for name, value in kept.arguments.items()},
            expected=Observation(),
            observed=Observation(
                {name: _on_host(value, fetch) for name, value in kept.outputs.items()}, kept.rejection, kept.error
            ),
            message="",
            provenance=self._provenance,
            kind=OBSERVED,
            ties_are_free=self._ties_are_free,
        )
        self._num_files += 1
        stem = f"{kept.operation}-{self.token}-{self._num_files:06d}"
        try:
            kept.path = write_case(case, self.path, stem)
            kept.num_written = sum(one.stat().st_size for one in _files_of(kept.path))
            if self.num_bytes + kept.num_written > self._max_bytes:
                raise Full(f"more than {self._max_bytes:,} bytes")
        except BaseException:
            _remove(self.path / f"{stem}.json")
            kept.path = None
            raise
        self.num_bytes += kept.num_written
        kept.arguments, kept.outputs = {}, {}

    def remove(self, kept: Kept) -> None:
        """Remove the files of a call whose place another one took."""
        if kept.path is not None:
            _remove(kept.path)
            self.num_bytes -= kept.num_written

    def tell(self, lines: list[str]) -> None:
        """Write in words what was recorded and what was not, beside the cases."""
        (self.path / f"recorded-{self.token}.txt").write_text("\n".join([*lines, ""]), encoding="utf-8")


def _on_host(value: Any, fetch: Fetch) -> Any:
    if isinstance(value, list):
        return [_on_host(one, fetch) for one in value]
    if value is None or isinstance(value, int):
        return value
    try:
        array = np.asarray(fetch(value))
    except TypeError as error:
        raise NotUnderstood(f"{error}") from error
    if not is_storable(array):
        raise NotUnderstood(f"no case file keeps {array.dtype.name}")
    return array


def _files_of(path: Path) -> list[Path]:
    return [one for one in (path, path.with_suffix(".safetensors")) if one.exists()]


def _remove(path: Path) -> None:
    for one in (path, path.with_name(f"{path.name}.part"), path.with_suffix(".safetensors")):
        with suppress(OSError):
            one.unlink(missing_ok=True)
