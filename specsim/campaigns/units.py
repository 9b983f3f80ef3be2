"""Units of a campaign as plain values, and what one came to on its node."""

import hashlib
import json
import re
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import msgspec

NUMBER = re.compile(r"\d+(?:\.\d+)?")
MOST_HEX = 16
"""Digits of the name of a unit: two of a million units are named alike with a chance of one in 37 million."""


class Kind(StrEnum):
    """What a unit tries; ``specsim campaign --of`` takes the values."""

    PROPERTY = "property"
    MACHINE = "machine"
    CELL = "cell"
    LAW = "law"
    MUTANT = "mutant"


def sort_of(message: str) -> str:
    """Return the first line of a message without its numbers, by which failures of whole runs are compared."""
    return NUMBER.sub("N", message.partition("\n")[0])


class Unit(msgspec.Struct, frozen=True):
    """One unit: what of a campaign is tried, with which seeds.

    Parameters
    ----------
    kind : Kind
        What is tried.
    name : str
        A property, a cell or a mutant; empty for a machine.
    seeds : tuple of int
        One for anything but a property, which is run with each, until one finds a failure.
    number : int
        Of a machine, that of its seed.
    mode : str
        Of a cell and its law, how workers run.
    """

    kind: Kind
    name: str
    seeds: tuple[int, ...]
    number: int = 0
    mode: str = ""

    @property
    def id(self) -> str:
        """The name of the unit: a hash of what it is."""
        plain = json.dumps(msgspec.to_builtins(self), sort_keys=True)
        return hashlib.sha256(plain.encode()).hexdigest()[:MOST_HEX]


class Broken(msgspec.Struct, frozen=True):
    """A failure as the ledger keeps it.

    Parameters
    ----------
    message : str
        What is wrong.
    seed, number : int
        Those of the unit that failed.
    plain : dict or None
        Of a property, what ``properties.suite.conformance.units.failure_from`` reads; its case is a file's name.
    weight : int or None
        The size of the smallest case: entries of arrays, or lines of a history; None where none was found.
    history : tuple of str
        The shortest history that was found, a line an action.
    replay : str
        The command that runs it again, where no case is kept.
    raw : str
        Of a whole run, what sort of failure it was before a shorter history was looked for.
    """

    message: str
    seed: int
    number: int = 0
    plain: dict[str, Any] | None = None
    weight: int | None = None
    history: tuple[str, ...] = ()
    replay: str = ""
    raw: str = ""

    @property
    def sort(self) -> str:
        """What is wrong whatever the numbers are."""
        return sort_of(self.message)


class Outcome(msgspec.Struct, frozen=True):
    """What a unit came to.

    Parameters
    ----------
    seconds : float
        How long it took on its node.
    busy_seconds : float
        How much of that the process which is tried worked.
    examples : int
        Examples, machines, histories, laws or mutants.
    reach : dict of str to int
        What it met, by tag.
    failures : tuple of Broken
        What it found.
    undecided : str
        Why it decided nothing, or empty.
    """

    seconds: float = 0.0
    busy_seconds: float = 0.0
    examples: int = 0
    reach: dict[str, int] = {}
    failures: tuple[Broken, ...] = ()
    undecided: str = ""


@dataclass(frozen=True)
class Ended:
    """A unit that ended on a node; ``files`` are those of its cases, by name."""

    node: str
    outcome: Outcome
    files: dict[str, bytes] = field(default_factory=dict)


@dataclass(frozen=True)
class LostNode:
    """Why a unit came to no end: its node, or the process there that ran it, is gone."""

    why: str
