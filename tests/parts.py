"""A part of what takes long: ``make test PART=2/4`` runs one of four, chosen by names; without it everything runs.

Parts are taken of the tests that ``long.txt`` names, case by case, and of the mutants that are hunted. All others run
in each part.
"""

import zlib
from dataclasses import dataclass
from pathlib import Path

import pytest

LONG = Path(__file__).with_name("long.txt")
"""Tests whose cases take three seconds of a processor or more: 219 of 3,400 take most of all the time.

What compares with files that are stored or generated is not among them: those are soon out of date.
"""


@dataclass(frozen=True)
class Part:
    """One of ``count`` parts, numbered from 1."""

    number: int
    count: int

    @classmethod
    def parse(cls, text: str) -> "Part":
        """Read NUMBER/COUNT."""
        number, _, count = text.partition("/")
        if not (number.isdigit() and count.isdigit() and 1 <= int(number) <= int(count)):
            raise pytest.UsageError(f"--part {text}: should be NUMBER/COUNT, as 2/4")
        return cls(int(number), int(count))

    def takes(self, name: str) -> bool:
        """Return whether what has this name belongs to the part: to one it does, whatever else there is."""
        return zlib.crc32(name.encode()) % self.count == self.number - 1


def in_other_parts(part: Part, items: list[pytest.Item]) -> list[pytest.Item]:
    """Return the tests that take long and belong to other parts."""
    long = set(LONG.read_text(encoding="utf-8").split())
    return [one for one in items if one.nodeid.partition("[")[0] in long and not part.takes(one.nodeid)]
