"""The case files of a check: where they are written, and what becomes of them where that is impossible."""

import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from specsim.cli.output import last_line, remark
from specsim.conformance.cases import Case, write_case

if TYPE_CHECKING:
    from specsim.properties.conformance.report import Failure, Report

VERSIONS_IN_A_CASE = ("specsim", "numpy", "torch", "triton", "hypothesis")


@dataclass
class CaseFolder:
    """Where cases go: ``folder``, and where that fails a temporary one; ``paths`` has them by property."""

    folder: Path
    paths: dict[str, Path] = field(default_factory=dict)

    def keep(self, failure: "Failure") -> Path | None:
        """Write the case of a failure, if it is a call of one operation, and return where."""
        if failure.kept is None:
            return None
        try:
            path = write_case(failure.kept, self.folder)
        except OSError as error:
            elsewhere = self._write_elsewhere(failure.kept, f"--cases-dir {self.folder}: {error.strerror}")
            if elsewhere is None:
                return None
            path, self.folder = elsewhere, elsewhere.parent
        self.paths[failure.property] = path
        return path

    def _write_elsewhere(self, case: Case, why: str) -> Path | None:
        try:
            path = write_case(case, Path(tempfile.mkdtemp(prefix="specsim-cases-")))
        except OSError as error:
            remark(f"{why}; {tempfile.gettempdir()}: {error.strerror}; the case of {case.property_name} is not written")
            return None
        remark(f"{why}; cases are in {path.parent}")
        return path


def summarise(report: "Report", verdict: str, cases: CaseFolder) -> str:
    """Return the verdict and what failed, in one line."""
    failed = [
        f"failed {failure.property}"
        + (f" ({cases.paths[failure.property]})" if failure.property in cases.paths else "")
        for failure in report.failures
    ]
    return "; ".join([conclude(report, verdict), *failed])


def conclude(report: "Report", verdict: str) -> str:
    """Return the last line of a check."""
    return last_line(verdict, f"{report.examples:,} examples, seed {report.seed}", report.inconclusive_because)


def in_one_line(failure: "Failure", path: Path | None, is_expected: bool) -> str:
    """Return what is said of a failure when it is found."""
    words = (failure.message.splitlines() or [""])[0]
    fate = f"known failure, {failure.fate.lower()}:" if is_expected else failure.fate
    return f"{fate} {failure.property}: {words}" + (f" ({path})" if path is not None else "")
