"""One target: a number, what it asks for, who states it, and what of it nobody states."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from specsim.properties.property import Property

Status = Literal["stated", "in part", "open"]

GRAPHS = "graph runners"
REASONS = (GRAPHS,)
"""Why a part of a target may be open: what it would be stated of is not there."""


@dataclass(frozen=True)
class Target:
    """Something that the suite is meant to state.

    Parameters
    ----------
    number : str
        ``P`` and two digits for a kind of law, ``M.`` for a target of an operation, ``K.`` for a worked example.
    title : str
        What has to hold, in a few words.
    properties : tuple of str
        Names of properties that state it, beside those that carry its number; ``group.*`` is a whole group.
    tests : tuple of str
        Tests that state it, ``path::name`` below ``tests``.
    open : tuple of (str, str)
        The parts that nothing states, each with one of ``REASONS``.
    note : str
        What a reader who compares target and properties would otherwise take for a gap.
    """

    number: str
    title: str
    properties: tuple[str, ...] = ()
    tests: tuple[str, ...] = ()
    open: tuple[tuple[str, str], ...] = ()
    note: str = ""


@dataclass(frozen=True)
class Covered:
    """A target and the names of all properties that state it, those that carry its number first."""

    target: Target
    properties: tuple[str, ...]

    @property
    def status(self) -> Status:
        """Whether it is stated, open, or both in parts."""
        if not self.target.open:
            return "stated"
        return "in part" if self.properties or self.target.tests else "open"


def covered(target: Target, properties: Sequence[Property]) -> Covered:
    """Return a target with the names of all properties that state it.

    Raises
    ------
    ValueError
        A name is no property or names one twice, a reason is not among those that there are, or nothing is said.
    """
    names = [one.name for one in properties if one.catalogue == target.number]
    for name in target.properties:
        found = list(_named(name, properties))
        if not found:
            raise ValueError(f"{target.number} names {name}, but should name a property of the catalogue")
        repeated = [one for one in found if one in names]
        if repeated:
            raise ValueError(f"{target.number} names {repeated[0]} twice, but should name it once")
        names += [name] if name.endswith(".*") else found
    for test in target.tests:
        if target.tests.count(test) > 1:
            raise ValueError(f"{target.number} names {test} twice, but should name it once")
    for part, reason in target.open:
        if reason not in REASONS:
            raise ValueError(
                f"{target.number} leaves {part!r} open because of {reason!r}, but should say one of {REASONS}"
            )
    if not names and not target.tests and not target.open:
        raise ValueError(f"{target.number} has no property, no test and no reason, but should have one of them")
    return Covered(target, tuple(names))


def _named(name: str, properties: Iterable[Property]) -> Iterable[str]:
    group = name.removesuffix("*") if name.endswith(".*") else None
    return (one.name for one in properties if one.name == name or (group and one.name.startswith(group)))
