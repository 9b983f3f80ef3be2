"""A failure as ``specsim check`` explains it: the smallest case drawn, what differs, and what else fails with it."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from specsim.cli.failures import CaseFolder
from specsim.conformance.plain_text import named

if TYPE_CHECKING:
    from specsim.properties.conformance.causes import Cause
    from specsim.properties.conformance.report import Failure, Report


def causes_of(report: "Report") -> tuple["Cause", ...]:
    """Return the failures of a report by cause."""
    from specsim.properties.conformance import causes

    return causes.causes_of(report.failures)


def lines_of(cause: "Cause", report: "Report", cases: CaseFolder, options: str) -> list[str]:
    """Return what is said of a cause: its first failure in full, and the others in one line.

    Parameters
    ----------
    options : str
        Those that decide what examples a property gets.
    """
    from specsim.properties.conformance.explained import explain

    failure = cause.first
    lines = [*explain(failure, cause.loss), f"  {_line_that_replays(failure, report, cases, options)}"]
    return [*lines, *_others(cause.others)]


def _others(others: Sequence["Failure"]) -> list[str]:
    if not others:
        return []
    names = named([failure.property for failure in others])
    count = "1 property fails" if len(others) == 1 else f"{len(others)} properties fail"
    return [f"  most likely for the same reason {count} too: {names}"]


def _line_that_replays(failure: "Failure", report: "Report", cases: CaseFolder, options: str) -> str:
    path = cases.paths.get(failure.property)
    if path is not None:
        from specsim.properties.conformance.explained import replay_line

        return replay_line(path, report.implementation)
    left_out = "".join(f" --without {name}" for name in failure.without)
    return (
        f"specsim check {report.implementation} --seed {report.seed} {options}{left_out} --property {failure.property}"
    )
