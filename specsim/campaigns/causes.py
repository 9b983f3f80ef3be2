"""The failures of a campaign by cause, with the smallest case of each."""

import json
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from specsim.campaigns.ledger import CASES, CAUSES, write_whole
from specsim.campaigns.units import Broken, Kind, Unit
from specsim.properties.suite.conformance.causes import causes_of
from specsim.properties.suite.conformance.explained import replay_line
from specsim.properties.suite.conformance.report import Failure
from specsim.properties.suite.conformance.units import failure_from

LARGEST = 1 << 62
"""The weight of what has no smallest case."""

FAILED = "FAILED"


@dataclass(frozen=True)
class Found:
    """A cause as users read it.

    Parameters
    ----------
    operation : str
        Where the fault shows by itself; empty where only whole runs do.
    first : str
        The property, or the kind of unit, whose case is the smallest.
    names : tuple of str
        All that fail by it.
    num_units : int
        Units that found it.
    fate, message, error, difference : str
        Of the smallest case, as in a report.
    seed : int
        That of the unit.
    case : str or None
        The file of the smallest case.
    replay : str
        The command that runs it again.
    history : tuple of str
        The shortest history that was found, a line an action.
    """

    operation: str
    first: str
    names: tuple[str, ...]
    num_units: int
    fate: str
    message: str
    error: str
    difference: str
    seed: int
    case: str | None
    replay: str
    history: tuple[str, ...] = ()


@dataclass
class _Kept:
    """The smallest of the failures that look alike, and how many units found one of them."""

    unit: Unit
    broken: Broken
    failure: Failure | None
    units: set[str] = field(default_factory=set)

    @property
    def name(self) -> str:
        return self.unit.name if self.unit.kind is Kind.PROPERTY else str(self.unit.kind.value)


class Causes:
    """Failures as they come: of those that look alike the smallest is kept, and its case.

    Parameters
    ----------
    folder : Path
        That of the campaign.
    implementation : str
        Named by the lines that run a failure again.
    """

    def __init__(self, folder: Path, implementation: str) -> None:
        self._folder, self._implementation = folder, implementation
        self._kept: dict[Hashable, _Kept] = {}
        self._by_raw: dict[str, Hashable] = {}

    @property
    def known(self) -> frozenset[str]:
        """The sorts of failures of whole runs that were found, before shorter histories of them were."""
        return frozenset(self._by_raw)

    def __bool__(self) -> bool:
        return bool(self._kept)

    def add(self, unit: Unit, broken: Broken) -> None:
        """Count a failure; it takes the place of a larger one that looks alike, whose case is deleted."""
        key, before = self._key(unit, broken), None
        there = self._kept.get(key)
        if there is None or _weight(broken) < _weight(there.broken):
            before, there = there, _Kept(unit, broken, self._failure_of(broken), there.units if there else set())
            self._kept[key] = there
        else:
            before = _Kept(unit, broken, None)
        there.units.add(unit.id)
        if before is not None:
            self._delete(before.broken)

    def found(self) -> list[Found]:
        """Return the causes: those of operations first, as ``specsim check`` orders them, then those of whole runs."""
        return [*self._of_properties(), *(self._as_found(one, [one]) for one in self._kept.values() if _is_run(one))]

    def write(self) -> None:
        """Write the causes to their file."""
        plain = [vars(one) for one in self.found()]
        write_whole(self._folder / CAUSES, (json.dumps(plain, indent=2) + "\n").encode())

    def _of_properties(self) -> Iterator[Found]:
        by_failure = {id(one.failure): one for one in self._kept.values() if one.failure is not None}
        failures = [one.failure for one in by_failure.values() if one.failure is not None]
        for cause in causes_of(failures):
            together = [by_failure[id(failure)] for failure in (cause.first, *cause.others)]
            yield self._as_found(together[0], together, cause.operation)

    def _as_found(self, first: _Kept, together: list[_Kept], operation: str = "") -> Found:
        path, failure = self._case_of(first.broken), first.failure
        is_kept = path is not None and failure is not None and failure.kept is not None
        return Found(
            operation=operation,
            first=first.name,
            names=tuple(dict.fromkeys(one.name for one in together)),
            num_units=len(set().union(*(one.units for one in together))),
            fate=FAILED if failure is None else failure.fate,
            message=first.broken.message,
            error="" if failure is None else failure.error,
            difference="" if failure is None else failure.difference,
            seed=first.broken.seed,
            case=str(path) if is_kept else None,
            replay=replay_line(path, self._implementation) if is_kept and path is not None else first.broken.replay,
            history=first.broken.history,
        )

    def _key(self, unit: Unit, broken: Broken) -> Hashable:
        """Return what failures that look alike share; one that was not made smaller looks like the first of its sort.

        Whole runs that say the same are alike, whatever they ran.
        """
        if broken.plain is None:
            return self._by_raw.setdefault(broken.raw, broken.sort) if not broken.history else self._named(broken)
        shows = broken.plain["evidence"]
        wrong, needs = tuple(shows["wrong"]), tuple(shows["needs"])
        return unit.name, broken.plain["fate"], wrong, needs, "" if wrong else broken.sort

    def _named(self, broken: Broken) -> str:
        self._by_raw.setdefault(broken.raw, broken.sort)
        return broken.sort

    def _case_of(self, broken: Broken) -> Path | None:
        name = None if broken.plain is None else broken.plain["case"]
        return None if name is None else self._folder / CASES / name

    def _failure_of(self, broken: Broken) -> Failure | None:
        if broken.plain is None:
            return None
        path = self._case_of(broken)
        plain: dict[str, Any] = {**broken.plain, "case": None if path is None else str(path)}
        return failure_from(plain)

    def _delete(self, broken: Broken) -> None:
        """Delete the case of a failure, unless another one is the same."""
        path = self._case_of(broken)
        if path is not None and path not in [self._case_of(one.broken) for one in self._kept.values()]:
            for one in (path, path.with_suffix(".safetensors")):
                one.unlink(missing_ok=True)


def _is_run(one: _Kept) -> bool:
    return one.failure is None


def _weight(broken: Broken) -> int:
    return LARGEST if broken.weight is None else broken.weight
