"""Failures by their cause: what an operation shows by itself explains what others that call it show."""

from collections.abc import Sequence
from dataclasses import dataclass

from specsim.conformance.catalogue import CATALOGUE
from specsim.conformance.given import WITH_OUTPUTS
from specsim.properties.catalogue import all_properties
from specsim.properties.conformance.report import Failure
from specsim.properties.conformance.smaller import weigh

ASPECTS = {"strided": "layout", "mutation": "arguments", "rejection": "bad input", "anything": "bad input"}
ASPECTS |= {"apart": "memory"}
"""What groups of properties try that may be wrong while the values of the others are right."""

VALUES = "values"
EXPLAINS_NOTHING = frozenset(["bad input", "memory"])
"""What cannot be why a run of good calls goes wrong."""


@dataclass(frozen=True)
class Cause:
    """Failures that one fault may explain.

    Parameters
    ----------
    operation : str
        Where the fault shows by itself; empty where only whole runs do.
    first : Failure
        The smallest case of the operation's own.
    others : tuple of Failure
        The rest, in the order of the suite.
    """

    operation: str
    first: Failure
    others: tuple[Failure, ...] = ()


def causes_of(failures: Sequence[Failure]) -> tuple[Cause, ...]:
    """Return the failures by cause, those of operations in the order of the table and those of runs behind them.

    Failures of properties that call one operation belong together if they show alike: the same exception, or wrong
    values; what depends on strides, arguments that change and bad input count apart. A property of several operations
    is explained by the first of them that fails by itself.
    """
    operations = {one.name: () if one.fills_missing else one.operations for one in all_properties()}
    of_runs = {one.name: one.operations for one in all_properties()}
    own: dict[tuple[str, str], list[Failure]] = {}
    others: list[Failure] = []
    for failure in failures:
        called = [name for name in operations.get(failure.property, ()) if name not in WITH_OUTPUTS]
        if len(called) == 1:
            own.setdefault((called[0], _symptom(failure)), []).append(failure)
        else:
            others.append(failure)
    explained: dict[tuple[str, str], list[Failure]] = {key: [] for key in own}
    alone: list[list[Failure]] = []
    for failure in others:
        called = [name for name in of_runs.get(failure.property, ()) if name not in WITH_OUTPUTS]
        roots = sorted(
            (key for key in own if key[0] in called and key[1] not in EXPLAINS_NOTHING),
            key=lambda key: (key[1] != _symptom(failure), _place_of(key[0])),
        )
        if roots:
            explained[roots[0]].append(failure)
        else:
            alone.append([failure])
    ordered = sorted(own, key=lambda key: (_place_of(key[0]), key[1] != VALUES, key[1]))
    told = [_cause(key[0], own[key], explained[key]) for key in ordered]
    return (*told, *(_cause(of_one[0].operation, of_one, []) for of_one in alone))


def _cause(operation: str, own: Sequence[Failure], explained: Sequence[Failure]) -> Cause:
    first = min(own, key=lambda one: (one.case is None, not one.difference, 0 if one.case is None else weigh(one.case)))
    return Cause(operation, first, tuple(one for one in (*own, *explained) if one is not first))


def _symptom(failure: Failure) -> str:
    """Return how a failure shows: as the end of a process, an exception, or in one of the aspects."""
    if failure.fate != "FAILED":
        return failure.fate
    raised = _raised(failure.error)
    if raised not in ("", "AssertionError"):
        return raised
    return ASPECTS.get(failure.property.partition(".")[0], VALUES)


def _raised(error: str) -> str:
    """Return the type of the exception that a traceback ends with."""
    lines = error.splitlines()
    frames = [place for place, line in enumerate(lines) if line.startswith('  File "')]
    behind = lines[frames[-1] + 1 :] if frames else lines
    return next((line.partition(":")[0] for line in behind if line and not line.startswith(" ")), "")


def _place_of(operation: str) -> int:
    return list(CATALOGUE).index(operation) if operation in CATALOGUE else len(CATALOGUE)
