"""One property against an implementation: what it came to, with the smallest case of its failure."""

import hashlib
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from hypothesis import Phase, given, reject
from hypothesis import seed as seeded
from hypothesis.errors import HypothesisException, Unsatisfiable

from specsim.conformance.backend import Backend
from specsim.conformance.isolation.heartbeat import Cut, begin_example, staying
from specsim.conformance.outside import OutsideLimits
from specsim.conformance.plain_text import LONGEST_TRACE, bounded, trace_of, words_of
from specsim.conformance.raised import Undefined
from specsim.contracts.contract import Contract
from specsim.operations import RECORDS
from specsim.properties.laws.frequencies import Inconclusive
from specsim.properties.operations.generated.margin_cases import counting
from specsim.properties.property import Property
from specsim.properties.quietly import quietly
from specsim.properties.reach.counting import counting_reach, require_reach
from specsim.properties.reach.sizes import is_interpreted
from specsim.properties.strategies.limits import drawing_within, leaves_out
from specsim.properties.strategies.scale import drawing_for_interpreter
from specsim.properties.suite.conformance.drafters import play_law
from specsim.properties.suite.conformance.evidence import evidence_of
from specsim.properties.suite.conformance.law_cases import law_case_of
from specsim.properties.suite.conformance.report import Failure, PropertyReport
from specsim.properties.suite.conformance.selection import is_runnable
from specsim.properties.suite.conformance.smaller import TRIES, Broken, smaller
from specsim.properties.unit_of_work import require_device
from specsim.rejection import WorkerRefusal
from specsim.simulation.drafted import counting_drafts, is_vacuous

MOST_LOOKS, EXAMPLES_OF_A_LOOK = 5, 2
"""Looks at more examples while they were vain, and examples of the first; each has one more than the one before, as
the first two that some releases of Hypothesis draw are small."""

OF_OTHERS = "a worker that the module does not bring"
"""What is left out of a law where a module has workers alone: examples that would try nothing of it."""


def run_property(
    one: Property, backend: Backend, seed: int | str, max_examples: int, must_reach: bool = True, is_shrunk: bool = True
) -> tuple[PropertyReport, Failure | None]:
    """Run one property; whatever it or the implementation raises becomes a failure with the smallest case.

    Entries are checked at every call, where the layer can: what no contract allows is named instead of read. A run
    that is cut has nothing that it must reach; ``must_reach`` says whether others have. Unless ``is_shrunk``,
    the case of a failure is the first that has one. Where a property holds, the report names the functions of the
    implementation that it is about and never called.
    """
    before = backend.uses.copy()
    report, failure = _run(one, backend, seed, max_examples, must_reach, is_shrunk)
    if report.examples and failure is None:
        has = [name for name in one.operations if backend.has(name)]
        report = replace(report, uncalled=tuple(name for name in has if backend.uses[name] == before[name]))
    return report, failure


def _run(
    one: Property, backend: Backend, seed: int | str, max_examples: int, must_reach: bool, is_shrunk: bool
) -> tuple[PropertyReport, Failure | None]:
    if max_examples < 1 or not is_runnable(one, backend):
        return PropertyReport(0, False, missing=not is_runnable(one, backend)), None
    excluded = leaves_out(one.name, backend.limits)
    if excluded:
        return PropertyReport(0, False, missing=False, left_out={excluded: max_examples}), None
    is_of_workers = bool(backend.makes) and not backend.functions
    examples = held = margin_cases = not_compared = 0
    first_failed: int | None = None
    undecided = ""
    left_out = Counter[str]()
    smallest: Any = None
    broken: Exception | None = None

    def law(case: Any) -> None:
        nonlocal examples, held, margin_cases, not_compared, smallest, undecided, broken, first_failed
        begin_example()
        examples += 1
        num_uses = backend.uses.total()
        try:
            with counting() as near, backend.arrays.debugging():
                call_law(one, backend, case)
        except Inconclusive as reason:
            undecided = str(reason)
            not_compared += 1
        except (OutsideLimits, WorkerRefusal) as outside:
            # NOTE: it is neither held nor broken.
            examples -= 1
            left_out[outside.limit if isinstance(outside, WorkerRefusal) else str(outside)] += 1
            reject()
        except Exception as error:
            require_device(backend)
            smallest, broken = case, error
            first_failed = first_failed or examples
            raise
        if is_of_workers and backend.uses.total() == num_uses:
            examples -= 1
            left_out[OF_OTHERS] += 1
            return
        held += 1
        margin_cases += near.calls > 0
        not_compared += near.empty_calls > 0

    def is_vain() -> bool:
        return one.is_slow and not left_out and is_vacuous(examples, drafts.public())

    reach: dict[str, int] = {}
    is_cut = False
    try:
        with (
            warnings.catch_warnings(),
            counting_reach() as counts,
            counting_drafts() as drafts,
            drawing_for_interpreter(is_interpreted(backend)),
        ):
            warnings.simplefilter("ignore")
            try:
                with drawing_within(backend.limits, one.operations):
                    try:
                        explore_further(one, law, seed, max_examples, is_shrunk and one.is_slow, is_vain)
                    except Exception as error:
                        may_shrink = is_shrunk and not one.is_slow and error is broken
                        if not may_shrink or isinstance(error, Undefined):
                            raise
                        found = smallest_failure(one, backend, seed, max_examples, Broken(smallest, error))
                        smallest, broken = found.case, found.error
                        raise broken from None
            except Cut:
                is_cut = True
                if broken is not None:
                    raise broken from None
        if one.must_reach is not None and must_reach and not is_cut and not left_out:
            reach = require_reach(one.must_reach(backend), counts)
    except Undefined as error:
        if held == 0:
            return PropertyReport(0, False, True), None
        report = PropertyReport(examples, True, False, margin_cases, first_failed=first_failed)
        return report, failure_of(one, backend, error, smallest)
    except Unsatisfiable:
        why = "" if left_out else "no example of it can be drawn"
        return PropertyReport(0, False, False, inconclusive=why, left_out=dict(left_out)), None
    except Exception as error:  # NOTE: an implementation under test may raise anything at all.
        report = PropertyReport(examples, True, False, margin_cases, first_failed=first_failed)
        return replace(report, drafts=drafts.public()), failure_of(one, backend, error, smallest)
    done = held if is_cut else examples
    report = PropertyReport(done, False, False, margin_cases, undecided, reach, dict(left_out), is_cut)
    tags = {tag: counts[tag] for tag in (one.tags(backend.limits) if one.tags is not None else ())}
    return replace(report, not_compared=not_compared, tags=tags, drafts=drafts.public()), None


def smallest_failure(one: Property, backend: Backend, seed: int | str, max_examples: int, found: Broken) -> Broken:
    """Return the failure of the smallest structure that has one, else the one that was found, shrunk as it is.

    Where time is up, that is the one that was found.
    """

    def broken_by(seed: int | str, max_examples: int) -> Broken | None:
        broken: Broken | None = None

        def law(case: Any) -> None:
            nonlocal broken
            begin_example()
            try:
                with backend.arrays.debugging():
                    call_law(one, backend, case)
            except (Inconclusive, OutsideLimits, WorkerRefusal):
                return
            except Exception as error:
                require_device(backend)
                broken = Broken(case, error)
                raise

        try:
            explore(one, law, seed, max_examples)
        except HypothesisException:
            return None
        except Exception:  # NOTE: an implementation under test may raise anything at all.
            return broken
        return None

    try:
        other = smaller(found, one.operations, lambda number: broken_by(f"{seed} {number}", TRIES))
        return other if other is not found else broken_by(seed, max_examples) or found
    except Cut:
        return found


def call_law(one: Property, backend: Backend, case: Any) -> None:
    """Call a law on a case; what an implementation raises becomes a plain error, no filter."""
    try:
        with staying(one.operations[0], but=(Inconclusive, OutsideLimits, Undefined, WorkerRefusal)):
            play_law(one, backend, case)
    except OutsideLimits as outside:
        if backend.limits.are_none:
            raise RuntimeError(f"{one.operations[0]} raises OutsideLimits: {outside}") from outside
        raise
    except WorkerRefusal as refusal:
        if not backend.workers:
            raise RuntimeError(f"{one.operations[0]} raises WorkerRefusal: {refusal.limit}") from refusal
        raise


def explore_further(
    one: Property,
    law: Callable[[Any], None],
    seed: int | str,
    max_examples: int,
    is_shrunk: bool,
    is_vain: Callable[[], bool],
) -> None:
    """Call a law on the examples of a seed, and on a few more as long as they were vain.

    The first example is the smallest: a request of it may end before anything is drafted.
    """
    explore(one, law, seed, max_examples, is_shrunk)
    for look in range(MOST_LOOKS):
        if not is_vain():
            return
        explore(one, law, f"{seed} look {look}", EXAMPLES_OF_A_LOOK + look, is_shrunk)


def explore(
    one: Property, law: Callable[[Any], None], seed: int | str, max_examples: int, is_shrunk: bool = True
) -> None:
    """Call a law on the examples of a seed, and where it fails on smaller ones, unless that is left to the caller."""
    phases = (Phase.generate, Phase.shrink) if is_shrunk else (Phase.generate,)
    how = quietly(max_examples=max_examples, derandomize=False, phases=phases)
    digest = hashlib.sha256(f"{seed} {one.name}".encode()).digest()
    seeded(int.from_bytes(digest[:8], "big"))(how(given(one.strategy())(law)))()


def failure_of(one: Property, backend: Backend, error: Exception, case: Any) -> Failure:
    """Return the failure of a property; with its case, where that is a call of an operation or can be stated as one."""
    operation, message = "" if one.fills_missing else one.operations[0], words_of(error) or type(error).__name__
    failure = Failure(operation, one.name, message, None, bounded(trace_of(error), LONGEST_TRACE))
    for name in one.operations:
        if name in RECORDS and is_call(RECORDS[name].contract, case):
            return replace(failure, operation=name, case=case, evidence=evidence_of(one, backend, case, case))
    if one.is_slow or one.fills_missing or case is None:
        return failure
    try:
        plain = law_case_of(one, backend, case)
    except Cut:
        return failure
    evidence = evidence_of(one, backend, case, None if plain is None else plain.arguments)
    if plain is not None:
        failure = replace(failure, operation=plain.operation, case=plain.arguments, law=plain.law)
    return replace(failure, evidence=evidence)


def is_call(contract: Contract, case: Any) -> bool:
    """Return whether what a law takes is a call of an operation."""
    return isinstance(case, dict) and case.keys() == {spec.name for spec in contract.parameters}
