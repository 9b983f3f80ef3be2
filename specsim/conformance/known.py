"""Known failures of an implementation: a TOML file that its owner keeps, with versions, links and dates of expiry."""

import json
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from fnmatch import fnmatchcase
from importlib import metadata
from pathlib import Path
from types import ModuleType
from typing import Any

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import InvalidVersion, Version

from specsim.conformance.catalogue import CATALOGUE
from specsim.operations.derived.signature import nearest

FIELDS = ("operation", "property", "reason", "pattern", "versions", "device", "link", "expires", "seldom")
TYPES: Mapping[str, tuple[type, str]] = {
    "expires": (date, "a date, as in 2027-01-31"),
    "seldom": (bool, "true or false"),
}
"""Of the fields that are no texts, what they hold."""
DEVICES = ("", "cpu", "gpu")
NUMBER, ANY_NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e[-+]?\d+)?"), r"-?\d[-+.e\d]*"
LONGEST_CAUSE = 200
"""Characters of a message that a cause is read from."""

LASTS = timedelta(days=90)
"""How long an entry that is written holds."""


class BadKnownFailures(ValueError):
    """A file of known failures makes no sense."""


@dataclass(frozen=True)
class Subject:
    """What is tested: its version, if it says one, and whether its arrays lie on a GPU."""

    version: Version | None = None
    uses_gpu: bool = False


@dataclass(frozen=True)
class KnownFailure:
    """One expected failure.

    Parameters
    ----------
    operation : str
        What fails, or an empty string for a whole run.
    property : str
        The property that fails, or several by ``*`` as in ``sampling_chain_law.*``; an empty string for any.
    reason : str
        A part of the message.
    pattern : str
        A regular expression that a part of the message matches.
    versions : str
        Versions of the implementation that have it, as in ``>=0.5,<0.6``; empty for all.
    device : str
        Where it is met, ``cpu`` or ``gpu``; empty for both.
    link : str
        Where it is described.
    expires : date or None
        The last day on which it is expected.
    seldom : bool
        Whether it takes draws that not every run has, so that a run without it is as expected.
    """

    operation: str
    property: str = ""
    reason: str = ""
    pattern: str = ""
    versions: str = ""
    device: str = ""
    link: str = ""
    expires: date | None = None
    seldom: bool = False

    def matches(self, operation: str, name: str, message: str) -> bool:
        """Return whether a failure is this one."""
        return (
            (not self.operation or operation == self.operation)
            and self.names(name)
            and self.reason in message
            and (not self.pattern or re.search(self.pattern, message) is not None)
        )

    def names(self, name: str) -> bool:
        """Return whether a property is one of those that fail."""
        return not self.property or fnmatchcase(name, self.property)

    def concerns(self, subject: Subject) -> bool:
        """Return whether this version has it, where it runs."""
        version, device = subject.version, "gpu" if subject.uses_gpu else "cpu"
        has_it = not self.versions or (version is not None and SpecifierSet(self.versions).contains(version, True))
        return has_it and self.device in ("", device)

    def __str__(self) -> str:
        quoted = (json.dumps(text) if text else "" for text in (self.reason, self.pattern))
        return ", ".join(part for part in (self.operation, self.property, *quoted) if part)


def version_of(module: ModuleType) -> Version | None:
    """Return what a module says as its ``VERSION`` or ``__version__``, or the version of its distribution, if any."""
    said = vars(module).get("VERSION", vars(module).get("__version__"))
    if said is None:
        owners = metadata.packages_distributions().get(module.__name__.partition(".")[0], [])
        said = metadata.version(owners[0]) if owners else None
    try:
        return None if said is None else Version(str(said))
    except InvalidVersion:
        return None


def read_known(path: Path, properties: Iterable[str], version: Version | None) -> tuple[KnownFailure, ...]:
    """Read a file.

    Parameters
    ----------
    path : Path
        Its entries are tables ``[[failure]]``.
    properties : iterable of str
        The names that there are.
    version : Version or None
        That of the implementation.

    Raises
    ------
    BadKnownFailures
        One line says what is wrong.
    """
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise BadKnownFailures(f"{path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BadKnownFailures(f"{path} is no TOML: {error}") from error
    entries = document.pop("failure", [])
    if document or not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise BadKnownFailures(
            f"{path} holds {sorted(document) or 'a single failure'}, but should hold [[failure]] only"
        )
    known = frozenset(properties)
    return tuple(_read(f"{path}, failure {place}", entry, known, version) for place, entry in enumerate(entries, 1))


def write_known(path: Path, entries: Sequence[KnownFailure]) -> None:
    """Write a file."""
    blocks = []
    for entry in entries:
        reported = {name: vars(entry)[name] for name in FIELDS if vars(entry)[name] not in ("", None, False)}
        lines = [f"{name} = {_spelt(value)}" for name, value in reported.items()]
        blocks.append("\n".join(["[[failure]]", *lines]) + "\n")
    path.write_text("\n".join(blocks), encoding="utf-8")


def cause_of(message: str) -> str:
    """Return a regular expression of the first line of a message, whatever numbers stand in it."""
    first = (message.splitlines() or [""])[0][:LONGEST_CAUSE]
    return "^" + ANY_NUMBER.join(map(re.escape, NUMBER.split(first)))


def entry_of(operation: str, name: str, subject: Subject, today: date) -> KnownFailure:
    """Return the entry of a failure that is expected of one version, for some time."""
    versions = "" if subject.version is None else f"=={subject.version}"
    return KnownFailure(operation=operation, property=name, versions=versions, expires=today + LASTS)


def _read(where: str, entry: Mapping[str, Any], properties: frozenset[str], version: Version | None) -> KnownFailure:
    for name, value in entry.items():
        if name not in FIELDS:
            raise BadKnownFailures(f"{where} has {name!r}, but should have some of {', '.join(FIELDS)}")
        wanted, words = TYPES.get(name, (str, "a text"))
        # NOTE: a time of day is a date to Python, and cannot be compared with one.
        if not isinstance(value, wanted) or isinstance(value, datetime):
            raise BadKnownFailures(f"{where}: {name} is {value!r}, but should be {words}")
    found = KnownFailure(**{"operation": "", **entry})
    if not (found.property or found.reason or found.pattern):
        raise BadKnownFailures(f"{where} has no property, reason or pattern, but should have one of them")
    if "*" in found.property and not (found.reason or found.pattern):
        raise BadKnownFailures(f"{where} names several properties, but should say by which reason or pattern they fail")
    for what, name, there in (("operation", found.operation, CATALOGUE), ("property", found.property, properties)):
        if name and not any(fnmatchcase(one, name) for one in there):
            close = "".join(f"; did you mean {guess}?" for guess in nearest(name, there)[:1])
            raise BadKnownFailures(f"{where}: there is no {what} {name!r}{close}")
    try:
        re.compile(found.pattern)
    except re.error as error:
        raise BadKnownFailures(f"{where}: pattern is {found.pattern!r}, which is no regular expression") from error
    try:
        SpecifierSet(found.versions)
    except InvalidSpecifier as error:
        raise BadKnownFailures(f"{where}: versions is {found.versions!r}, but should be as in '>=0.5,<0.6'") from error
    if found.device not in DEVICES:
        raise BadKnownFailures(f"{where}: device is {found.device!r}, but should be {' or '.join(DEVICES[1:])}")
    if found.versions and version is None:
        raise BadKnownFailures(f"{where} names versions, but the implementation says no VERSION of its own")
    return found


def _spelt(value: Any) -> str:
    # NOTE: a string of JSON is one of TOML but for one control character.
    return value.isoformat() if isinstance(value, date) else json.dumps(value).replace("\x7f", "\\u007f")
