"""What a check says of input that a module does not promise to refuse: a line for each operation that got some."""

from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING

from specsim.cli.ci_files import Outcome, Tried

if TYPE_CHECKING:
    from specsim.properties.suite.conformance.report import Behaviour, Report


def document(report: "Report") -> dict[str, dict[str, object]]:
    """Return for JSON what became of such input, by operation."""
    return {name: asdict(one) for name, one in report.unpromised.items()}


def lines(report: "Report") -> Iterator[str]:
    """Yield a line for each operation that was to get such input; a failure where that is one."""
    for name, one in report.unpromised.items():
        sign = "FAILED " if report.strays and one.strayed else ""
        yield f"{sign}unpromised: {name}, {_in_words(one)}"


def failed(report: "Report") -> list[str]:
    """Return the failures among them, in a few words each."""
    return [f"failed {name}" for name in report.strays]


def tests_of(report: "Report") -> tuple[Tried, ...]:
    """Return a test for each operation, where the check is strict."""
    if not report.is_strict:
        return ()
    found = []
    for name, one in report.unpromised.items():
        outcome = Outcome.FAILED if one.strayed else Outcome.ERROR if one.not_run else Outcome.PASSED
        found.append(
            Tried(f"{report.implementation}.{name}", f"unpromised.{name}", outcome, one.strayed or one.not_run)
        )
    return tuple(found)


def _in_words(one: "Behaviour") -> str:
    if one.not_run:
        return f"not tried: {one.not_run}"
    if not one.calls:
        return "no input that the contract refuses"
    calls = "1 call" if one.calls == 1 else f"{one.calls:,} calls"
    counted = f"{calls} that the contract refuses, {one.raised:,} raised"
    return f"{counted}; {one.strayed}" if one.strayed else f"{counted}, none left its bounds"
