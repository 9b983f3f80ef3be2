"""A failure as ``specsim check`` explains it: the smallest case drawn, what differs, and what else fails with it."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from specsim.cli.drawing import draw_requests, in_words
from specsim.cli.failures import CaseFolder
from specsim.cli.replayed_on import replay_line
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
    failure = cause.first
    fate = "" if failure.fate == "FAILED" else f" ! {failure.fate}"
    loss = f"{cause.loss}: " if cause.loss else ""
    lines = [f"FAILURE of {failure.operation or 'a whole run'}: {loss}{failure.property}{fate}"]
    lines.append(indented(failure.message or failure.error))
    if failure.case is not None:
        drawings = [] if failure.kept is None else draw_requests(failure.kept)
        lines += ["  smallest case:", *(indented(drawing, 4) for drawing in drawings)]
        lines += [f"    {name} = {in_words(value)}" for name, value in failure.case.items()]
        cell = "" if failure.kept is None or failure.kept.law is None else failure.kept.law.in_words()
        lines += [f"  {cell}"] if cell else []
    if failure.difference:
        lines.append(f"  first difference from the reference: {failure.difference}")
    lines.append(f"  {_line_that_replays(failure, report, cases, options)}")
    return [*lines, *_others(cause.others)]


def indented(message: str, by: int = 2) -> str:
    """Return text with each line moved to the right."""
    return "\n".join(f"{' ' * by}{line}" for line in message.splitlines())


def _others(others: Sequence["Failure"]) -> list[str]:
    if not others:
        return []
    names = named([failure.property for failure in others])
    count = "1 property fails" if len(others) == 1 else f"{len(others)} properties fail"
    return [f"  most likely for the same reason {count} too: {names}"]


def _line_that_replays(failure: "Failure", report: "Report", cases: CaseFolder, options: str) -> str:
    path = cases.paths.get(failure.property)
    if path is not None:
        return replay_line(path, report.implementation)
    left_out = "".join(f" --without {name}" for name in failure.without)
    return (
        f"specsim check {report.implementation} --seed {report.seed} {options}{left_out} --property {failure.property}"
    )
