"""The smallest case that an implementation crashes or hangs on: every case is tried in a process that may die."""

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from specsim.conformance.cases import write_case
from specsim.conformance.isolation.beats import Cut, begin_call
from specsim.conformance.isolation.jobs import Fate, Lost
from specsim.conformance.isolation.trials import Death, try_apart
from specsim.conformance.limits import NO_LIMITS
from specsim.conformance.limits import Limits as DeclaredLimits
from specsim.conformance.outcomes import Observation
from specsim.conformance.stored import Provenance
from specsim.conformance.stored_laws import StoredLaw
from specsim.operations import RECORDS
from specsim.properties.catalogue import property_named
from specsim.properties.conformance.law_cases import stored_law_of
from specsim.properties.conformance.report import Failure
from specsim.properties.conformance.running import call_law, explore, is_call
from specsim.properties.conformance.saving import case_that
from specsim.properties.conformance.units import UnitLimits, loaded, tell, tell_without_case
from specsim.properties.strategies.limits import drawing_within
from specsim.properties.strategies.scale import drawing_for_interpreter
from specsim.properties.unit_of_work import require_device

SHORTER = 0.1
"""Share of the time of a call after which a smaller case is taken to hang; the smallest one is given all of it."""

SHORTEST = 0.5


@dataclass(frozen=True)
class Search:
    """Where a property crashed, and how much may be spent on smaller cases.

    Parameters
    ----------
    seed, examples : int or str, int
        Those of the run that crashed.
    first : int
        The example that it crashed on.
    fate : str
        How.
    call_seconds : float
        How long a call may take.
    seconds : float
        For everything.
    memory : int or None
        Bytes that a process may hold.
    is_interpreted : bool
        Whether cases are drawn for interpreted kernels.
    loads_apart : bool
        Whether each trial loads the implementation, because a fork of a process that uses a GPU cannot.
    declared : DeclaredLimits
        What the implementation does not take.
    """

    seed: int | str
    examples: int
    first: int
    fate: str
    call_seconds: float
    seconds: float
    memory: int | None
    is_interpreted: bool
    loads_apart: bool
    declared: DeclaredLimits = NO_LIMITS


def smallest_crash(
    implementation: str, name: str, search: Search, limits: UnitLimits, prepare: Callable[[str], object]
) -> dict[str, Any] | None:
    """Draw the examples of a run again, and shrink the one that it crashed on.

    Returns
    -------
    told : dict or None
        The failure with its case as plain values; None where the case alone does not crash.
    """
    spent = 0.0
    one = property_named(name)
    patience = search.call_seconds
    if search.fate == Fate.TIMED_OUT:
        patience = min(patience, max(SHORTEST, patience * SHORTER))
    if not search.loads_apart:
        prepare(implementation)
    num_drawn = 0
    found: tuple[Any, Death] | None = None

    def try_law(case: Any, seconds: float) -> Death | None:
        nonlocal spent

        def action() -> None:
            if search.loads_apart:
                prepare(implementation)
            backend = loaded(implementation, limits)
            try:
                with backend.arrays.debugging():
                    call_law(one, backend, case)
            except Exception:  # NOTE: a case that fails is none that crashes, unless the device goes with it.
                require_device(backend)

        begin_call("")
        began = time.monotonic()
        death = try_apart(action, seconds, search.memory)
        # NOTE: a trial that waits for its turn on a busy machine spends no more than one that does not.
        spent += min(time.monotonic() - began, seconds)
        return death if death is not None and death.fate == search.fate else None

    def law(case: Any) -> None:
        nonlocal num_drawn, found
        num_drawn += 1
        if num_drawn < search.first:
            return
        if spent > search.seconds:
            raise Cut
        death = try_law(case, patience)
        if death is not None:
            found = case, death
            raise RuntimeError(death.words)
        if found is None:
            raise Cut

    try:
        with warnings.catch_warnings(), drawing_for_interpreter(search.is_interpreted):
            warnings.simplefilter("ignore")
            with drawing_within(search.declared, one.operations):
                explore(one, law, search.seed, search.examples)
    except (Exception, Cut):  # NOTE: what a process dies of is kept in ``found``.
        pass
    if found is not None and search.fate == Fate.TIMED_OUT:
        confirmed = try_law(found[0], search.call_seconds)
        found = None if confirmed is None else (found[0], confirmed)
    if found is None:
        return None
    case, death = found
    is_told = one.is_slow or one.fills_missing or _is_the_call(death, case)
    given = None if is_told else stored_law_of(one, case)
    return told_crash(implementation, name, death.fate, death.words, death.call, limits, law=given)


def _is_the_call(death: Death, case: Any) -> bool:
    """Return whether what a law was given is the call that it died in."""
    operation = "" if death.call is None else death.call[0]
    return operation not in RECORDS or is_call(RECORDS[operation].contract, case)


def told_crash(
    implementation: str,
    name: str,
    fate: Fate,
    words: str,
    call: tuple[str, dict[str, Any] | None] | None,
    limits: UnitLimits,
    printed: str = "",
    law: StoredLaw | None = None,
) -> dict[str, Any]:
    """Return the failure of a process that died in a call, with the file of its case; nothing of it is called."""
    called, arguments = ("", None) if call is None else call
    operation = called if called in RECORDS or called in property_named(name).operations else ""
    who = operation or f"a whole run ({called})" if called else "a whole run"
    failure = Failure(operation, name, f"{who} {fate}: {words}", arguments, printed, str(fate), law=law)
    if arguments is None or operation not in RECORDS:
        return tell(failure, None)
    try:
        provenance = Provenance(implementation, limits.seed, limits.versions)
        case = case_that(failure, Observation(error=f"{fate}: {words}"), provenance)
        return tell(failure, write_case(case, Path(limits.folder) / name))
    except Exception as error:  # NOTE: of a call outside the domain not every argument can be written.
        return tell_without_case(failure, error)


def told_loss(lost: Lost, implementation: str, name: str, limits: UnitLimits) -> dict[str, Any]:
    """Return the failure of a job that was lost, with the call that it was lost in."""
    return told_crash(implementation, name, lost.fate, lost.words, lost.call, limits, lost.printed)
