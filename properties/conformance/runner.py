"""Run properties against an implementation, count what ran, and keep the smallest case of each failure."""

import hashlib
import multiprocessing
import sys
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import cache
from typing import Any

from hypothesis import HealthCheck, Phase, Verbosity, given, settings
from hypothesis import seed as seeded
from hypothesis.errors import Unsatisfiable

from specsim.conformance.backend import Backend, load
from specsim.conformance.catalogue import CATALOGUE, Kind, names_of
from specsim.conformance.given import WITH_OUTPUTS
from specsim.conformance.outside import OutsideLimits
from specsim.contracts.contract import Contract
from specsim.operations import MODEL_TABLE, RECORDS
from specsim.operations.without_coins import WITHOUT_COINS
from specsim.properties.catalogue import GENERATED, OF_ITS_OWN_RULES, all_properties, group_of
from specsim.properties.conformance.excluded import leave_out, why_excluded
from specsim.properties.conformance.report import Failure, OperationReport, PropertyReport, Report, Verdict
from specsim.properties.generated.margin_cases import counting
from specsim.properties.laws.support.frequencies import Inconclusive
from specsim.properties.property import FEWEST_FOR_WEIGHTY, Property
from specsim.properties.reach.counting import counting_reach, require_reach
from specsim.properties.reach.sizes import is_interpreted
from specsim.properties.strategies.limits import drawing_within
from specsim.properties.strategies.scale import drawing_for_interpreter

SHARES = dict.fromkeys(("strided", "poison", "rejection", "anything"), 0.2)
SHARES |= {"agreement": 1.0, "empty": 0.1, "mutation": 0.1, "apart": 0.1}
LAW_SHARE = 0.2
SLOW_SHARE = 0.05


def check(
    backend: Backend,
    *,
    seed: int,
    max_examples: int,
    operations: Sequence[str] | None = None,
    slow_examples: int | None = None,
    jobs: int = 1,
    with_models: bool = False,
    on_progress: Callable[[str, int, int], None] | None = None,
) -> Report:
    """Run the suite.

    Parameters
    ----------
    backend : Backend
        The implementation.
    seed : int
        Decides every example; equal seeds run equal examples.
    max_examples : int
        Examples of each agreement property. The other properties get a share of it, at least one example.
    operations : sequence of str or None
        Run only properties that name one of these, and report only these.
    slow_examples : int or None
        Examples of each property that runs a whole engine; by default a share of ``max_examples``.
    jobs : int
        Processes; with more than one each of them imports the implementation by its name.
    with_models : bool
        Also run the operations of the toy models against an implementation that has none of them and no worker.
    on_progress : callable or None
        Called with the name of a property, how many are done, and how many there are.
    """
    chosen = [one for one in all_properties() if is_selected(one, backend, operations, with_models)]
    examples_by_name = {one.name: examples_of(one, max_examples, slow_examples) for one in chosen}
    found = {}
    finished = (
        run_in_processes(backend.name, seed, examples_by_name, jobs, ignores_limits=backend.limits.are_none)
        if jobs > 1
        else ((one.name, run_property(one, backend, seed, examples_by_name[one.name])) for one in chosen)
    )
    for done, (name, outcome) in enumerate(finished, 1):
        found[name] = outcome
        if on_progress is not None:
            on_progress(name, done, len(chosen))
    reports = {one.name: found[one.name][0] for one in chosen}
    failures = [found[one.name][1] for one in chosen if found[one.name][1] is not None]
    reported = _reported(backend, operations, with_models)
    by_operation = {name: _operation_report(name, backend, chosen, reports) for name in reported}
    examples = sum(report.examples for report in reports.values())
    return Report(
        implementation=backend.name,
        seed=seed,
        verdict=_verdict(examples, by_operation, bool(failures), any(one.inconclusive for one in reports.values())),
        examples=examples,
        operations=by_operation,
        properties=reports,
        failures=tuple(failure for failure in failures if failure is not None),
        margin_cases=sum(report.margin_cases for report in reports.values()),
    )


def brings_models(backend: Backend) -> bool:
    """Return whether an implementation is checked with the operations of the toy models without being asked to."""
    return backend.has_worker or any(backend.has(name) for name in MODEL_TABLE)


def is_selected(
    one: Property, backend: Backend, operations: Sequence[str] | None = None, with_models: bool = False
) -> bool:
    """Return whether a property is run: it names a wanted operation, and the backend promises what it asks for.

    Where nothing in particular is wanted, operations of the toy models are wanted of an implementation that brings
    them or is asked for them; properties that call none, or get them from the reference, are wanted of all.
    """
    if group_of(one) in OF_ITS_OWN_RULES and not backend.rejects:
        return False
    if not all(backend.has(name) for name in (WITHOUT_COINS.keys() | WITH_OUTPUTS.keys()) & set(one.operations)):
        return False
    if operations is None:
        calls_models = not one.fills_missing and not MODEL_TABLE.keys().isdisjoint(one.operations)
        return not calls_models or with_models or brings_models(backend)
    wanted = set(operations) & set(one.operations)
    return any(backend.has(name) for name in wanted) if one.fills_missing else bool(wanted)


def is_runnable(one: Property, backend: Backend) -> bool:
    """Return whether the implementation has a worker that is enough, or operations that are, filled in or not."""
    enough = any if one.fills_missing else all
    return (one.runs_worker and backend.has_worker) or enough(backend.has(operation) for operation in one.operations)


def examples_of(one: Property, max_examples: int, slow_examples: int | None = None) -> int:
    """Return how many examples a property gets; one that is as long as many others gets none in a quick look."""
    if one.weight > 1 and max_examples < FEWEST_FOR_WEIGHTY:
        return 0
    if one.is_slow and slow_examples is not None:
        return -(-slow_examples // one.weight)
    share = SLOW_SHARE if one.is_slow else SHARES.get(group_of(one), LAW_SHARE)
    return max(one.least_examples, round(max_examples * share / one.weight))


def run_property(
    one: Property, backend: Backend, seed: int, max_examples: int
) -> tuple[PropertyReport, Failure | None]:
    """Run one property; whatever it or the implementation raises becomes a failure with the smallest case.

    Entries are checked at every call, where the layer can: what no contract allows is named instead of read.
    """
    if max_examples < 1 or not is_runnable(one, backend):
        return PropertyReport(0, False, missing=not is_runnable(one, backend)), None
    excluded = why_excluded(one, backend.limits)
    if excluded:
        return PropertyReport(0, False, missing=False, left_out={excluded: max_examples}), None
    examples = held = margin_cases = 0
    undecided = ""
    left_out = Counter[str]()
    smallest: Any = None

    def law(case: Any) -> None:
        nonlocal examples, held, margin_cases, smallest, undecided
        examples += 1
        try:
            with counting() as near, backend.arrays.debugging():
                one.law(backend, case)
        except Inconclusive as reason:
            undecided = str(reason)
        except OutsideLimits as outside:
            examples -= 1
            leave_out(left_out, outside)
        except Exception:
            smallest = case
            raise
        held += 1
        margin_cases += near.calls > 0

    reach: dict[str, int] = {}
    try:
        with warnings.catch_warnings(), counting_reach() as counts, drawing_for_interpreter(is_interpreted(backend)):
            warnings.simplefilter("ignore")
            with drawing_within(backend.limits, one.operations):
                _explore(one, law, seed, max_examples)
        if one.must_reach is not None:
            reach = require_reach(one.must_reach(backend), counts)
    except NotImplementedError as error:
        # NOTE: a stub lacks the operation; one that works on other cases has it, and does not cover its domain.
        if held == 0:
            return PropertyReport(0, False, True), None
        return PropertyReport(examples, True, False, margin_cases), _failure(one, error, smallest)
    except Unsatisfiable:
        return PropertyReport(0, False, False, left_out=dict(left_out)), None
    except Exception as error:  # NOTE: an implementation under test may raise anything at all.
        return PropertyReport(examples, True, False, margin_cases), _failure(one, error, smallest)
    return PropertyReport(examples, False, False, margin_cases, undecided, reach, dict(left_out)), None


def run_in_processes(
    implementation: str, seed: int, examples_by_name: dict[str, int], jobs: int, ignores_limits: bool = False
) -> Iterator[tuple[str, tuple[PropertyReport, Failure | None]]]:
    """Run properties in several processes, slow ones first, and yield each as it ends; limits may be ignored."""
    slow_first = sorted(examples_by_name, key=lambda name: not _property_named(name).is_slow)
    with ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn"), _start_process, (sys.path,)) as pool:
        tasks = {
            pool.submit(_run_named, name, implementation, ignores_limits, seed, examples_by_name[name]): name
            for name in slow_first
        }
        for task in as_completed(tasks):
            yield tasks[task], task.result()


def _start_process(path: list[str]) -> None:
    """Find the modules that the parent finds; what an implementation prints does not mix with a report."""
    sys.path[:] = path
    sys.stdout = sys.stderr


@cache
def _property_named(name: str) -> Property:
    return next(one for one in all_properties() if one.name == name)


@cache
def _loaded(implementation: str, ignores_limits: bool) -> Backend:
    backend = load(implementation)
    return backend.without_limits() if ignores_limits else backend


def _run_named(
    name: str, implementation: str, ignores_limits: bool, seed: int, examples: int
) -> tuple[PropertyReport, Failure | None]:
    return run_property(_property_named(name), _loaded(implementation, ignores_limits), seed, examples)


def _explore(one: Property, law: Callable[[Any], None], seed: int, max_examples: int) -> None:
    quietly = settings(
        max_examples=max_examples,
        database=None,
        deadline=None,
        derandomize=False,
        suppress_health_check=list(HealthCheck),
        print_blob=False,
        report_multiple_bugs=False,
        verbosity=Verbosity.quiet,
        phases=(Phase.generate, Phase.shrink),
    )
    digest = hashlib.sha256(f"{seed} {one.name}".encode()).digest()
    seeded(int.from_bytes(digest[:8], "big"))(quietly(given(one.strategy())(law)))()


def _reported(backend: Backend, operations: Sequence[str] | None, with_models: bool) -> list[str]:
    """Return the names that a report lists: operations even if they are missing, of the host what is there."""
    kinds = [Kind.OPERATION]
    if operations is not None or with_models or brings_models(backend):
        kinds.append(Kind.MODEL_OPERATION)
    kinds_of_some = (Kind.HOST_FUNCTION, Kind.PART, Kind.SAMPLER_WITHOUT_COINS)
    there = [name for name in names_of(*kinds_of_some) if backend.has(name)]
    listed = {*names_of(*kinds), *there}
    return [name for name in CATALOGUE if name in listed and (operations is None or name in operations)]


def _failure(one: Property, error: Exception, case: Any) -> Failure:
    operation = next(
        (name for name in one.operations if name in RECORDS and _is_call(RECORDS[name].contract, case)), None
    )
    return Failure(
        operation=operation or ("" if one.fills_missing else one.operations[0]),
        property=one.name,
        message=str(error) or type(error).__name__,
        case=None if operation is None else case,
        error="".join(traceback.format_exception(error)),
    )


def _is_call(contract: Contract, case: Any) -> bool:
    return isinstance(case, dict) and case.keys() == {spec.name for spec in contract.parameters}


def _operation_report(
    name: str, backend: Backend, chosen: Sequence[Property], reports: dict[str, PropertyReport]
) -> OperationReport:
    named = [reports[one.name] for one in chosen if name in one.operations and backend.has(name)]
    return OperationReport(
        examples=sum(report.examples for report in named),
        failures=sum(report.failed for report in named),
        missing=not backend.has(name),
    )


def _verdict(examples: int, operations: dict[str, OperationReport], failed: bool, undecided: bool) -> Verdict:
    if failed:
        return "fails"
    if examples == 0:
        return "nothing selected"
    if undecided or any(report.examples == 0 and not report.missing for report in operations.values()):
        return "inconclusive"
    return "conforms"


__all__ = ["GENERATED", "Failure", "OperationReport", "PropertyReport", "Report"]
__all__ += ["brings_models", "check", "examples_of", "is_selected", "run_property"]
