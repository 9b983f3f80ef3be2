"""What is checked and how much may be spent on it, and what a worker says of an implementation."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

import msgspec

from specsim.conformance.isolation.jobs import Limits
from specsim.conformance.limits import NO_LIMITS, limits_from
from specsim.conformance.limits import Limits as DeclaredLimits
from specsim.properties.suite.conformance.selection import Described


@dataclass(frozen=True)
class Wanted:
    """What is checked, and how much may be spent on it.

    Parameters
    ----------
    properties : tuple of str or None
        Run only these.
    without : tuple of str
        Operations that are taken away from the implementation: whole runs take them from the reference.
    budget : float or None
        Seconds of the whole run; ``spent`` of them are gone when it begins.
    most : mapping
        The largest numbers that are drawn of what ``specsim.conformance.limits.AXES_OF`` counts.
    nodes : int or None
        Nodes of the largest trees where nothing is drawn, and all small trees are tried.
    must_reach : bool
        Whether properties have to meet all their tags.
    """

    seed: int
    max_examples: int
    operations: tuple[str, ...] | None = None
    properties: tuple[str, ...] | None = None
    without: tuple[str, ...] = ()
    slow_examples: int | None = None
    with_models: bool = False
    jobs: int = 1
    limits: Limits = field(default_factory=Limits)
    budget: float | None = None
    spent: float = 0.0
    versions: dict[str, str] = field(default_factory=dict)
    is_strict: bool = False
    most: dict[str, int] = field(default_factory=dict)
    nodes: int | None = None
    must_reach: bool = False

    def seconds_left(self, spent: float) -> float | None:
        """Return how much of the budget is left after so many seconds."""
        return None if self.budget is None else max(0.0, self.budget - spent)

    def limits_of(self, prepared: "Prepared") -> DeclaredLimits:
        """Return the limits within which an implementation is tried."""
        return (NO_LIMITS if self.is_strict else prepared.declared).at_most(self.most)


@dataclass(frozen=True)
class Prepared:
    """What a worker says of an implementation once it has loaded it, and of the device it runs on."""

    described: Described
    device: str
    is_interpreted: bool
    uses_gpu: bool
    declared: DeclaredLimits = NO_LIMITS
    version: str = ""
    remarks: tuple[str, ...] = ()

    def as_plain(self) -> dict[str, Any]:
        """Return everything as plain values, which ``prepared_from`` reads."""
        return {**vars(self), "declared": self.declared.as_plain()}


@dataclass(frozen=True)
class Unprepared:
    """Why an implementation cannot be tried, and the exit code that says so."""

    words: str
    code: int

    def as_plain(self) -> dict[str, Any]:
        """Return everything as plain values, which ``prepared_from`` reads."""
        return vars(self)


_FORMS = ((one.name, dict[str, Any] if one.name == "declared" else one.type) for one in fields(Prepared))
_Plain = msgspec.defstruct("_Plain", _FORMS, forbid_unknown_fields=True)


def prepared_from(plain: Mapping[str, Any] | None) -> Prepared | Unprepared | None:
    """Return what a worker says of an implementation; None where it says that it is ready.

    Raises
    ------
    ValueError
        It is nothing of this kind.
    """
    if plain is None:
        return None
    if "code" in plain:
        return msgspec.convert(plain, Unprepared)
    read = msgspec.structs.asdict(msgspec.convert(plain, _Plain))
    return Prepared(**{**read, "declared": limits_from(read["declared"])})
