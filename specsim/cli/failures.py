"""The case files of a check: where they are written, and what becomes of them where that is impossible."""

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from specsim.cli.env import versions_of
from specsim.cli.output import remark
from specsim.conformance.backend import Backend, load
from specsim.conformance.cases import Case, case_arguments, write_case
from specsim.conformance.outcomes import observe
from specsim.conformance.stored import Provenance
from specsim.operations import RECORDS

if TYPE_CHECKING:
    from specsim.properties.conformance.report import Failure, Report

VERSIONS_IN_A_CASE = ("specsim", "numpy", "torch", "triton", "hypothesis")
Written = list[tuple[Path | None, str]]
"""For each failure the path of its case, if it has one, and where its outputs differ first from the reference's."""


def write_failures(report: "Report", backend: Backend, cases_dir: Path) -> Written:
    """Write the case of each failure that is a call of one operation; where ``cases_dir`` fails, a temporary folder."""
    written: Written = []
    folder = cases_dir
    for failure in report.failures:
        path, difference = None, ""
        if failure.case is not None and failure.operation in RECORDS:
            case, difference = _case_of(failure, backend, report.seed)
            try:
                path = write_case(case, folder)
            except OSError as error:
                path = _write_elsewhere(case, f"--cases-dir {cases_dir}: {error.strerror}")
                folder = folder if path is None else path.parent
        written.append((path, difference))
    return written


def summarise(report: "Report", verdict: str, written: Written) -> str:
    """Return the verdict and what failed, in one line."""
    failed = [
        f"failed {failure.property}" + (f" ({path})" if path is not None else "")
        for failure, (path, _) in zip(report.failures, written, strict=True)
    ]
    return "; ".join([f"{verdict}: {report.examples:,} examples, seed {report.seed}", *failed])


def _case_of(failure: "Failure", backend: Backend, seed: int) -> tuple[Case, str]:
    from specsim.properties.generated.margin_cases import difference_beyond_margins

    arguments = case_arguments(failure.operation, failure.case or {})
    with backend.arrays.debugging():
        observed = observe(backend, failure.operation, arguments)
    case = Case(
        operation=failure.operation,
        property_name=failure.property,
        arguments=arguments,
        expected=observe(load("specsim.reference"), failure.operation, arguments),
        observed=observed,
        message=failure.message,
        provenance=Provenance(backend.name, seed, versions_of(VERSIONS_IN_A_CASE)),
    )
    return case, difference_beyond_margins(failure.operation, arguments, case.expected, case.observed) or ""


def _write_elsewhere(case: Case, why: str) -> Path | None:
    try:
        path = write_case(case, Path(tempfile.mkdtemp(prefix="specsim-cases-")))
    except OSError as error:
        remark(f"{why}; {tempfile.gettempdir()}: {error.strerror}; the case of {case.property_name} is not written")
        return None
    remark(f"{why}; cases are in {path.parent}")
    return path
