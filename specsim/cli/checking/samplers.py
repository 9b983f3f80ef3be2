"""Samplers without coins in a check: they are selected by the name of their operation, and their power is stated."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from specsim.conformance.catalogue import CATALOGUE
from specsim.operations.without_coins import FORMS, SHORT_NAMES, UNSEEN

if TYPE_CHECKING:
    from specsim.properties.suite.conformance.report import Report
    from specsim.properties.suite.conformance.selection import Promises

CHOICES = (*CATALOGUE, *SHORT_NAMES)
"""What ``--operation`` takes."""


def with_forms(operations: Sequence[str], backend: "Promises") -> tuple[str, ...]:
    """Return the operations that are selected; one whose form without coins a module defines stands for that too."""
    named = [SHORT_NAMES.get(name, name) for name in operations]
    forms = [FORMS[name] for name in named if name in FORMS and backend.has(FORMS[name])]
    return tuple(dict.fromkeys([*named, *forms]))


def unseen(backend: "Promises", report: "Report") -> dict[str, list[str]]:
    """Return, of each sampler that was checked without coins only, what could not have been seen."""
    return {
        form: list(UNSEEN)
        for name, form in FORMS.items()
        if form in report.operations and backend.has(form) and not backend.has(name)
    }


def lines(backend: "Promises", report: "Report") -> Iterator[str]:
    """Yield a line for everything that could not have been seen."""
    for form, defects in unseen(backend, report).items():
        for defect in defects:
            yield f"not seen in {form}: {defect}"
