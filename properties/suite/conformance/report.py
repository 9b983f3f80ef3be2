"""What a run of the suite found."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from specsim.conformance.brought import Brought
from specsim.conformance.cases import Case
from specsim.conformance.plain_text import named
from specsim.conformance.stored_laws import StoredLaw
from specsim.properties.property import Property
from specsim.properties.soak.drafters import WORKER_NAMES
from specsim.properties.suite.conformance.evidence import NO_EVIDENCE, Evidence
from specsim.simulation.drafted import is_vacuous

GROUP = "unpromised"
"""What a failure of ``--strict`` is called, before the name of its operation."""

NOTHING_DRAFTED = "nothing was drafted in its runs; more examples should do"

Verdict = Literal["conforms", "fails", "inconclusive", "nothing selected", "interrupted"]


@dataclass(frozen=True)
class OperationReport:
    """Examples and failures of the properties that name an operation; whether the implementation lacks it.

    ``is_called`` says whether one of these examples called it.
    """

    examples: int
    failures: int
    missing: bool
    is_called: bool = False


@dataclass(frozen=True)
class PropertyReport:
    """Examples of one property, whether it failed, and whether the implementation lacks one of its operations.

    ``margin_cases`` counts the examples in which outputs differed where rounding decides, and nowhere else.
    ``inconclusive`` says why a statistical property decided nothing, or is empty. ``reach`` counts what its examples
    met, by tag, where it says, ``tags`` the rare situations of single operations. ``left_out`` counts the examples
    that were not tried because the implementation declares that it does not take them, by what it declares. ``cut``
    says that its time was over before its examples were through, ``not_run`` why it got none at all, or is empty.
    ``is_borrowed`` says that the loop of its whole runs is the reference's: where that is cut, other properties have
    examined the operations. ``ran`` counts the runs of each worker of the implementation, and of its scheduler.
    ``not_compared`` counts the examples of which nothing could be compared: rounding decides everywhere, or a law had
    too few samples. ``uncalled`` names the functions of the implementation that the property is about and that no
    example called. ``seconds`` is how long the examples took, ``first_failed`` the number of the example that failed
    first, from 1, where one did. ``drafts`` counts what became of the drafts of its engines, those beside included; it
    is empty where no engine ran.
    """

    examples: int
    failed: bool
    missing: bool
    margin_cases: int = 0
    inconclusive: str = ""
    reach: dict[str, int] = field(default_factory=dict)
    left_out: dict[str, int] = field(default_factory=dict)
    cut: bool = False
    not_run: str = ""
    is_borrowed: bool = False
    ran: dict[str, int] = field(default_factory=dict)
    not_compared: int = 0
    uncalled: tuple[str, ...] = ()
    tags: dict[str, int] = field(default_factory=dict)
    seconds: float = field(default=0.0, compare=False)
    first_failed: int | None = None
    drafts: dict[str, int] = field(default_factory=dict)

    @property
    def is_vacuous(self) -> bool:
        """Whether engines ran that drafted nothing in any example, so that no draft was judged."""
        return not self.failed and is_vacuous(self.examples, self.drafts)

    @property
    def compared(self) -> int:
        """How many examples were compared with what they should give."""
        return self.examples - self.not_compared

    @property
    def is_excluded(self) -> bool:
        """Whether no example was tried, because of what the implementation declares."""
        return self.examples == 0 and bool(self.left_out)


@dataclass(frozen=True)
class Failure:
    """One broken property with its smallest case.

    ``case`` holds the arguments of ``operation``, or is None where the case is no call of one operation; ``operation``
    is empty where the case is a whole run. ``message`` is the assertion's, and ``error`` the traceback. ``fate`` says
    whether a law broke, ``FAILED``, or the process did: ``CRASHED`` or ``TIMED OUT``. ``kept`` is the case with what
    came of it, and ``difference`` where that differs first, if the process that ran it has found out. ``law`` is what
    a law was given that takes more than this call. ``without`` names operations that were taken from the reference.
    ``evidence`` says what the case shows, if the process that ran it has found out.
    """

    operation: str
    property: str
    message: str
    case: dict[str, Any] | None
    error: str
    fate: str = "FAILED"
    kept: Case | None = None
    law: StoredLaw | None = None
    difference: str = ""
    without: tuple[str, ...] = ()
    evidence: Evidence = NO_EVIDENCE


@dataclass(frozen=True)
class Behaviour:
    """What became of the calls of an operation that the contract refuses, and the implementation does not promise to.

    ``calls`` counts them, ``raised`` those that ended in an error. ``strayed`` says how one of them left the bounds of
    the operation, or is empty. ``not_run`` says why there are no calls, or is empty.
    """

    calls: int
    raised: int = 0
    strayed: str = ""
    not_run: str = ""


@dataclass(frozen=True)
class Report:
    """The verdict, and the counts by operation and by property.

    ``inconclusive_because`` has the reasons of the verdict ``inconclusive``, and is empty with any other. ``brings`` is
    what the implementation has, ``must_play`` which of its workers the run had to play, and ``must_reach`` whether
    properties have to meet all their tags. ``unpromised`` says what it does with input that it does not promise to
    refuse, by operation; where it ``is_strict``, that decides too.
    """

    implementation: str
    seed: int
    verdict: Verdict
    examples: int
    operations: dict[str, OperationReport]
    properties: dict[str, PropertyReport]
    failures: tuple[Failure, ...]
    margin_cases: int = 0
    inconclusive_because: tuple[str, ...] = ()
    brings: Brought = field(default_factory=Brought)
    must_play: tuple[str, ...] = ()
    must_reach: bool = False
    unpromised: dict[str, Behaviour] = field(default_factory=dict)
    is_strict: bool = False

    @property
    def strays(self) -> dict[str, str]:
        """How operations left their bounds, by what such a failure is called, where that is one."""
        found = {f"{GROUP}.{name}": one.strayed for name, one in self.unpromised.items() if one.strayed}
        return found if self.is_strict else {}

    @property
    def ran(self) -> Counter[str]:
        """Count the examples of each operation that was called, the runs of each worker and of the scheduler."""
        ran = Counter({name: entry.examples for name, entry in self.operations.items() if entry.is_called})
        for one in self.properties.values():
            ran.update(one.ran)
        return ran


def assemble(
    implementation: str,
    seed: int,
    chosen: Sequence[Property],
    reports: Mapping[str, PropertyReport],
    failures: Mapping[str, Failure],
    reported: Mapping[str, bool],
    is_interrupted: bool = False,
    **others: Any,
) -> Report:
    """Put the reports of properties together.

    Parameters
    ----------
    reported : mapping
        Whether the implementation has each name that is listed.
    others : mapping
        Further fields of a ``Report``.
    """
    by_operation = {
        name: _operation_report(name, has, [reports[one.name] for one in chosen if has and name in one.operations])
        for name, has in reported.items()
    }
    examples = sum(report.examples for report in reports.values())
    report = Report(
        implementation=implementation,
        seed=seed,
        verdict="interrupted" if is_interrupted else "conforms",
        examples=examples,
        operations=by_operation,
        properties={one.name: _undecided_if_vacuous(reports[one.name]) for one in chosen},
        failures=tuple(failures[one.name] for one in chosen if one.name in failures),
        margin_cases=sum(report.margin_cases for report in reports.values()),
        **others,
    )
    return judged(report, is_failed=bool(failures))


def _undecided_if_vacuous(one: PropertyReport) -> PropertyReport:
    """Return the report of a property, inconclusive where nothing was drafted."""
    return replace(one, inconclusive=one.inconclusive or NOTHING_DRAFTED) if one.is_vacuous else one


def judged(report: Report, *, is_failed: bool) -> Report:
    """Return a report with its verdict: what failed first, then what decided too little; an interrupted one stays."""
    because: tuple[str, ...] = ()
    if report.verdict == "interrupted":
        verdict: Verdict = "interrupted"
    elif is_failed or report.strays:
        verdict = "fails"
    else:
        is_tried = report.examples > 0
        because = (
            *undecided(report.properties, are_borrowed_needed=not is_tried),
            *(unexamined(report.operations) if is_tried else ()),
            *unplayed(report),
            *untried(report),
            *unreached(report),
        )
        verdict = "inconclusive" if because else "nothing selected" if report.examples == 0 else "conforms"
    return replace(report, verdict=verdict, inconclusive_because=because)


def undecided(properties: Mapping[str, PropertyReport], *, are_borrowed_needed: bool) -> Iterator[str]:
    """Yield why properties that ran decided nothing, a reason each, and those that had no time for an example."""
    for name, one in properties.items():
        if one.inconclusive:
            yield f"{name}: {one.inconclusive}"
    vain = [name for name, one in properties.items() if one.examples and one.compared <= 0 and not one.inconclusive]
    if vain:
        yield f"no example was compared of {named(vain)}"
    cut = [
        name
        for name, one in properties.items()
        if one.cut and not one.examples and (are_borrowed_needed or not one.is_borrowed)
    ]
    if cut:
        yield f"{len(cut)} properties were cut before their first example was through: {named(cut)}"


def unexamined(operations: Mapping[str, OperationReport]) -> Iterator[str]:
    """Yield which operations are defined, but were called with no example."""
    without = [name for name, one in operations.items() if one.examples == 0 and not one.missing]
    if without:
        yield f"no example of {named(without)}"
    never = [name for name, one in operations.items() if one.examples > 0 and not one.is_called]
    if never:
        yield f"no example called {named(never)}"


def unplayed(report: Report) -> Iterator[str]:
    """Yield which workers an implementation brings that no property has played, and its scheduler likewise."""
    if report.must_play:
        refused = next((limit for one in report.properties.values() if one.is_excluded for limit in one.left_out), "")
        brings = replace(report.brings, functions=(), makes=report.must_play)
        yield from brings.reasons(brings.with_alike(report.ran), WORKER_NAMES, dict.fromkeys(brings.makes, refused))


def untried(report: Report) -> Iterator[str]:
    """Yield which operations were to get input that the contract refuses, and did not."""
    without = [name for name, one in report.unpromised.items() if one.not_run]
    if report.is_strict and without:
        yield f"no input that the contract refuses was tried with {named(without)}"


def unreached(report: Report) -> Iterator[str]:
    """Yield the tags that had to be met and were not, by property; one that left examples out has none."""
    for name, one in report.properties.items() if report.must_reach else ():
        missed = [tag for tag, count in one.tags.items() if not count]
        if missed and one.examples and not (one.left_out or one.cut):
            yield f"{name} never met {', '.join(missed)}"


def _operation_report(name: str, has: bool, named: Sequence[PropertyReport]) -> OperationReport:
    return OperationReport(
        examples=sum(report.examples for report in named),
        failures=sum(report.failed for report in named),
        missing=not has,
        is_called=any(report.examples > 0 and name not in report.uncalled for report in named),
    )
