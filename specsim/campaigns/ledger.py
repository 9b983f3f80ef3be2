"""The folder of a campaign: what it is, a line for each unit that ended, and the smallest case of each failure."""

import fcntl
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any

import msgspec

from specsim.campaigns.units import Outcome, Unit
from specsim.rejection import Reason, SpecRejection

CAMPAIGN, UNITS, CAUSES, CASES = "campaign.json", "units.jsonl", "causes.json", "cases"
SCHEMA = "specsim.campaign/1"


class Row(msgspec.Struct, frozen=True):
    """A unit that ended: where, what it came to, and after how many seconds of the campaign.

    ``id`` is that of the unit, ``runs`` how often it was begun: more than once where its node was lost.
    """

    id: str
    unit: Unit
    node: str
    clock: float
    runs: int
    outcome: Outcome


class Ledger:
    """The rows of a campaign by the id of their unit; each is written once, as soon as it is there.

    Parameters
    ----------
    folder : Path
        Made if it is not there.
    described : mapping
        What the campaign is, as plain values. A folder that has another one is refused.

    Raises
    ------
    SpecRejection
        BAD_CONFIGURATION: the folder holds another campaign, or a process is running this one; BAD_CASE_FILE: its
        files are none of a campaign.
    """

    def __init__(self, folder: Path, described: Mapping[str, Any]) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        # NOTE: without a buffer a row is one write, so that a process that is killed cuts the last line at most.
        self._file = open(folder / UNITS, "ab+", buffering=0)  # noqa: SIM115
        try:
            self._lock()
            self._compare(described)
            self.rows = {row.id: row for row in self._read()}
        except BaseException:
            self._file.close()
            raise

    def __enter__(self) -> "Ledger":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        os.fsync(self._file.fileno())
        self._file.close()

    @property
    def clock(self) -> float:
        """The seconds that the campaign has run so far."""
        return max((row.clock for row in self.rows.values()), default=0.0)

    def add(self, row: Row) -> bool:
        """Write a row, unless its unit has one; return whether it had none."""
        if row.id in self.rows:
            return False
        self.rows[row.id] = row
        self._file.write(msgspec.json.encode(row) + b"\n")
        return True

    def keep_case(self, files: Mapping[str, bytes]) -> None:
        """Write the files of a case."""
        for name, content in files.items():
            write_whole(self.folder / CASES / name, content)

    def _lock(self) -> None:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            because = "two that write one ledger would count units twice"
            raise SpecRejection(
                Reason.BAD_CONFIGURATION, str(self.folder), "in use", "free", f"another process runs it, and {because}"
            ) from error

    def _compare(self, described: Mapping[str, Any]) -> None:
        path, wanted = self.folder / CAMPAIGN, {"schema": SCHEMA, **described}
        # NOTE: a campaign that came to nothing, for want of a module or a cluster, is no other one.
        if not path.exists() or not (self.folder / UNITS).stat().st_size:
            write_whole(path, msgspec.json.format(msgspec.json.encode(wanted)) + b"\n")
            return
        with _reading(path):
            there = msgspec.json.decode(path.read_bytes(), type=dict[str, Any])
        plain = msgspec.to_builtins(wanted)
        for name in plain.keys() | there.keys():
            if plain.get(name) != there.get(name):
                raise SpecRejection(
                    Reason.BAD_CONFIGURATION,
                    f"{name} of the campaign",
                    plain.get(name),
                    str(there.get(name)),
                    f"{path} says so, and a campaign is resumed as it began",
                )

    def _read(self) -> Iterator[Row]:
        """Yield the rows that are whole; what a process that was killed had begun to write is cut off."""
        self._file.seek(0)
        content = self._file.read()
        whole = content.rfind(b"\n") + 1
        if whole < len(content):
            self._file.truncate(whole)
        with _reading(self.folder / UNITS):
            for line in content[:whole].splitlines():
                yield msgspec.json.decode(line, type=Row)


def campaign_in(folder: Path) -> dict[str, Any] | None:
    """Return what the campaign of a folder is, or None where the folder has none.

    Raises
    ------
    SpecRejection
        BAD_CASE_FILE: the file is none of a campaign.
    """
    path = folder / CAMPAIGN
    if not path.exists():
        return None
    with _reading(path):
        return msgspec.json.decode(path.read_bytes(), type=dict[str, Any])


def write_whole(path: Path, content: bytes) -> None:
    """Write a file so that a reader finds all of it, or what was there before."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    beside.write_bytes(content)
    beside.replace(path)


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    try:
        yield
    except msgspec.DecodeError as error:
        because = "a campaign is resumed from it; another --folder begins a new one"
        raise SpecRejection(Reason.BAD_CASE_FILE, str(path), str(error), "a file of a campaign", because) from error
