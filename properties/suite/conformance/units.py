"""The unit of work: one property with some seeds, and what it came to as plain values that JSON can hold."""

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from difflib import get_close_matches
from functools import cache
from itertools import accumulate
from pathlib import Path
from typing import Any

import msgspec

from specsim.conformance.backend import Backend, load
from specsim.conformance.cases import read_case, write_case
from specsim.conformance.stored import Provenance
from specsim.operations import RECORDS
from specsim.properties.suite.catalogue import properties_by_name, property_named
from specsim.properties.suite.conformance.evidence import Evidence
from specsim.properties.suite.conformance.report import Failure, PropertyReport
from specsim.properties.suite.conformance.running import run_property
from specsim.properties.suite.conformance.saving import case_of
from specsim.properties.suite.conformance.small_trees import run_small_trees
from specsim.properties.unit_of_work import checked
from specsim.rejection import Reason, SpecRejection

WORDS = ("operation", "property", "message", "error", "fate", "difference")
"""The fields of a failure that are texts."""

NOT_KEPT = "its case is not kept"


@dataclass(frozen=True)
class UnitLimits:
    """How much of a property is run, and where its cases are left.

    Parameters
    ----------
    examples : tuple of int
        How many with each seed.
    folder : str
        Where the case of a failure is written; a folder of the run.
    seed : int
        That of the run, which cases name.
    versions : mapping
        What cases say is installed.
    must_reach : bool
        Whether a property has to meet what it says; not where its examples are spread over several units.
    without : tuple of str
        Operations that are taken away from the implementation.
    is_strict : bool
        Whether what the implementation declares not to take is ignored.
    most : mapping
        The largest numbers that are drawn of what ``specsim.conformance.limits.AXES_OF`` counts.
    nodes : int or None
        Nodes of the largest trees where nothing is drawn, and all small trees are tried.
    """

    examples: tuple[int, ...]
    folder: str
    seed: int
    versions: dict[str, str] = field(default_factory=dict)
    must_reach: bool = True
    without: tuple[str, ...] = ()
    is_strict: bool = False
    most: dict[str, int] = field(default_factory=dict)
    nodes: int | None = None


def check_names(names: Sequence[str]) -> None:
    """Refuse names that no property has.

    Raises
    ------
    SpecRejection
        UNKNOWN_NAME.
    """
    known = list(properties_by_name())
    for name in names:
        if name not in known:
            close = get_close_matches(name, known, 3)
            expected = f"a property, such as {', '.join(close or known[:3])}"
            because = "the report of a run names them"
            raise SpecRejection(Reason.UNKNOWN_NAME, what="property", got=name, expected=expected, because=because)


def loaded(implementation: str, limits: UnitLimits) -> Backend:
    """Return an implementation as a unit tries it."""
    backend = _loaded(implementation)
    if limits.is_strict:
        backend = backend.without_limits()
    backend = replace(backend, limits=backend.limits.at_most(limits.most))
    kept = {name: function for name, function in backend.functions.items() if name not in limits.without}
    return replace(backend, functions=kept) if limits.without else backend


@cache
def _loaded(implementation: str) -> Backend:
    return load(implementation)


def run_unit(implementation: str, name: str, seeds: Sequence[int | str], limits: UnitLimits) -> dict[str, Any]:
    """Run a property with some seeds, until one finds a failure; what is returned is plain values.

    Parameters
    ----------
    implementation, name : str
        The module, and the property.
    seeds : sequence of int or str
        Each decides the examples of a run of its own.

    Returns
    -------
    outcome : dict
        The fields of a ``PropertyReport``, ``duration`` in seconds, and ``failure``, None or what ``failure_from``
        reads.
    """
    started = time.monotonic()
    backend, one = loaded(implementation, limits), property_named(name)
    before = backend.uses.copy()
    reports: list[PropertyReport] = []
    failure: Failure | None = None
    for seed, examples in zip(seeds, limits.examples, strict=True):
        begun = time.monotonic()
        if limits.nodes is None:
            report, failure = run_property(one, backend, seed, examples, limits.must_reach)
        else:
            report, failure = run_small_trees(one, backend, limits.nodes)
        reports.append(replace(report, seconds=time.monotonic() - begun))
        if failure is not None or report.cut:
            break
    came_to = together(reports)
    if came_to.examples:
        came_to = replace(came_to, ran={name: backend.uses[name] - before[name] for name in backend.makes})
    plain = None if failure is None else _tell(failure, backend, limits)
    return {**asdict(came_to), "duration": time.monotonic() - started, "failure": plain}


def together(reports: Sequence[PropertyReport]) -> PropertyReport:
    """Return what several runs of a property came to."""
    of = {one.name: [getattr(report, one.name) for report in reports] for one in fields(PropertyReport)}
    added: dict[str, Any] = {name: sum(of[name]) for name in ("examples", "margin_cases", "not_compared", "seconds")}
    added |= {name: any(of[name]) for name in ("failed", "missing", "cut")}
    for name in ("reach", "tags", "left_out", "ran", "drafts"):
        counts = Counter[str]()
        for more in of[name]:
            counts.update(more)
        added[name] = dict(counts)
    before = accumulate(of["examples"], initial=0)
    failed = (count + first for count, first in zip(before, of["first_failed"], strict=False) if first is not None)
    uncalled = [set(report.uncalled) for report in reports if report.examples]
    return PropertyReport(
        **added,
        inconclusive=next(filter(None, of["inconclusive"]), ""),
        uncalled=tuple(sorted(set.intersection(*uncalled))) if uncalled else (),
        not_run="" if added["examples"] else next(filter(None, of["not_run"]), ""),
        first_failed=next(failed, None),
    )


class PlainCase(msgspec.Struct):
    """Of a failure of a property what a process sends: texts, and the file of its case."""

    operation: str
    property: str
    message: str
    error: str
    fate: str
    difference: str
    case: str | None


class _PlainUnit(msgspec.Struct):
    duration: float
    failure: PlainCase | None


def outcome_from(plain: Any) -> Any:
    """Return the outcome of a unit as it was sent.

    Raises
    ------
    ValueError
        It is none.
    """
    report_from(plain)
    return checked(plain, _PlainUnit)


def report_from(outcome: Mapping[str, Any]) -> PropertyReport:
    """Return the report in the outcome of a unit.

    Raises
    ------
    ValueError
        It is none.
    """
    return msgspec.convert(outcome, PropertyReport)


def failure_from(plain: Mapping[str, Any]) -> Failure:
    """Return the failure in the outcome of a unit, with its case."""
    words = {name: plain[name] for name in WORDS}
    try:
        kept = read_case(Path(plain["case"])) if plain["case"] else None
    except SpecRejection as refusal:
        kept, words["error"] = None, f"{plain['error']}\n{NOT_KEPT}: {refusal}"
    evidence = Evidence(**{name: tuple(names) for name, names in plain["evidence"].items()})
    return Failure(case=None if kept is None else kept.arguments, kept=kept, evidence=evidence, **words)


def tell(failure: Failure, path: Path | None) -> dict[str, Any]:
    """Return a failure as plain values, with the file of its case."""
    words = {name: vars(failure)[name] for name in WORDS}
    return {**words, "case": None if path is None else str(path), "evidence": asdict(failure.evidence)}


def tell_without_case(failure: Failure, why: Exception) -> dict[str, Any]:
    """Return a failure whose case cannot be kept as plain values."""
    return tell(replace(failure, error=f"{failure.error}\n{NOT_KEPT}: {why}"), None)


def _tell(failure: Failure, backend: Backend, limits: UnitLimits) -> dict[str, Any]:
    if failure.case is None or failure.operation not in RECORDS:
        return tell(failure, None)
    try:
        case, difference = case_of(failure, backend, Provenance(backend.name, limits.seed, limits.versions))
        path = write_case(case, Path(limits.folder) / failure.property)
    except (SpecRejection, OSError) as error:  # NOTE: of a call outside the domain not every argument can be written.
        return tell_without_case(failure, error)
    return tell(replace(failure, difference=difference), path)
