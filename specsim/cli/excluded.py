"""What the declarations of an implementation leave out of a check: the option that ignores them, and the report."""

from collections import Counter
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import click

from specsim.conformance.backend import Backend

if TYPE_CHECKING:
    from specsim.properties.conformance.report import Report


def strict_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--strict``."""
    declared = "Ignore the limits that IMPL declares (LIMITS, EMPTY, CONTIGUOUS, TIES, …)."
    return click.option("--strict", "is_strict", is_flag=True, help=declared)(command)


def document(backend: Backend, report: "Report") -> dict[str, Any]:
    """Return what was left out for JSON: what is declared, and by property how many examples were not tried."""
    return {
        "declared": backend.limits.in_words(),
        "properties": {
            name: {"whole": one.is_excluded, "examples": one.left_out}
            for name, one in report.properties.items()
            if one.left_out
        },
    }


def lines(backend: Backend, report: "Report") -> Iterator[str]:
    """Yield what was left out: a line for everything that is declared, and one for each property that was not tried."""
    counts = Counter[str]()
    for one in report.properties.values():
        counts.update(one.left_out)
    for words in backend.limits.in_words():
        not_tried = f"; examples not tried: {counts[words]:,}" if counts[words] else ""
        yield f"excluded: {words}{not_tried}"
    for name, one in report.properties.items():
        if one.is_excluded:
            yield f"excluded: {name}, because of {'; '.join(one.left_out)}"
