"""The properties of a check as tests of ``--junit`` and ``--summary``."""

from typing import TYPE_CHECKING

from specsim.cli.ci_files import Outcome, Tried
from specsim.cli.explained import causes_of, lines_of
from specsim.cli.failures import CaseFolder
from specsim.cli.known import Judged

if TYPE_CHECKING:
    from specsim.properties.conformance.report import PropertyReport, Report
    from specsim.properties.conformance.selection import Promises


def tests_of(
    report: "Report", cases: CaseFolder, options: str, backend: "Promises", judged: Judged
) -> tuple[Tried, ...]:
    """Return a test for each property, those that the module lacks an operation for included.

    The first failure of a cause is explained as on the terminal, the others name it. A failure that is known is
    skipped, and an entry of ``--known`` that holds no more fails.
    """
    from specsim.properties.catalogue import properties_by_name

    operations = {name: one.operations for name, one in properties_by_name().items()}
    known = {failure.property: entry.link for failure, entry in judged.expected}
    texts: dict[str, str] = {}
    for cause in causes_of(report):
        texts[cause.first.property] = "\n".join(lines_of(cause, report, cases, options))
        texts |= {one.property: f"most likely as {cause.first.property}" for one in cause.others}
    messages = {failure.property: failure.message for failure in report.failures}
    tests = []
    for name, one in report.properties.items():
        group = f"{report.implementation}.{(operations.get(name) or ('whole_runs',))[0]}"
        if name in known:
            words = "known failure" + (f", {known[name]}" if known[name] else "")
            tests.append(Tried(group, name, Outcome.SKIPPED, words))
        elif name in messages:
            tests.append(Tried(group, name, Outcome.FAILED, messages[name], texts[name]))
        else:
            lacking = [operation for operation in operations.get(name, ()) if not backend.has(operation)]
            tests.append(Tried(group, name, *_outcome_of(one, lacking)))
    tests += [Tried("known failures", complaint, Outcome.FAILED, complaint) for complaint in judged.complaints]
    return tuple(tests)


def _outcome_of(one: "PropertyReport", lacking: list[str]) -> tuple[Outcome, str]:
    """Return what became of a property that did not fail, and why it decided nothing."""
    if one.missing:
        return Outcome.SKIPPED, f"missing: {', '.join(lacking)}"
    if one.inconclusive:
        return Outcome.ERROR, one.inconclusive
    if one.examples:
        return Outcome.PASSED, ""
    if one.left_out:
        return Outcome.SKIPPED, f"excluded: {'; '.join(one.left_out)}"
    if one.cut:
        return Outcome.ERROR, one.not_run or "cut before its first example was through"
    return Outcome.SKIPPED, one.not_run or "no example"
