"""The smallest case that an implementation crashes or hangs on: every case is tried in a process that may die."""

import warnings
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from hypothesis.errors import HypothesisException

from specsim.conformance.backend import Backend
from specsim.conformance.cases import write_case
from specsim.conformance.isolation.heartbeat import Cut, begin_call, begin_example
from specsim.conformance.isolation.jobs import Fate, Lost
from specsim.conformance.isolation.trials import Death, try_apart
from specsim.conformance.limits import NO_LIMITS
from specsim.conformance.limits import Limits as DeclaredLimits
from specsim.conformance.outcomes import Observation
from specsim.conformance.stored import Provenance
from specsim.conformance.stored_laws import StoredLaw
from specsim.operations import RECORDS
from specsim.properties.property import Property
from specsim.properties.strategies.limits import drawing_at_most, drawing_within
from specsim.properties.strategies.scale import drawing_for_interpreter
from specsim.properties.suite.catalogue import property_named
from specsim.properties.suite.conformance.law_cases import stored_law_of
from specsim.properties.suite.conformance.report import Failure
from specsim.properties.suite.conformance.running import call_law, explore, is_call
from specsim.properties.suite.conformance.saving import case_that
from specsim.properties.suite.conformance.smaller import STRUCTURES, TRIES
from specsim.properties.suite.conformance.units import UnitLimits, loaded, tell, tell_without_case
from specsim.properties.unit_of_work import require_device

SHORTER = 0.1
"""Share of the time of a call after which a smaller case is taken to hang; the smallest one is given all of it."""

SHORTEST = 0.5

SECONDS_OF_THE_SMALL = 8.0
"""For the process that tries small structures one after another, beside those that one call may take."""


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
    """Draw small cases until one crashes, or else the examples of a run again, and shrink the one that does.

    Returns
    -------
    plain : dict or None
        The failure with its case as plain values; None where the case alone does not crash.
    """
    trials = Trials(implementation, property_named(name), search, limits, prepare)
    one = trials.one
    with warnings.catch_warnings(), drawing_for_interpreter(search.is_interpreted):
        warnings.simplefilter("ignore")
        with drawing_within(search.declared, one.operations):
            small = None if one.is_slow else trials.first_small()
            found = None if small is None else trials.smallest_from(small)
            found = found or trials.smallest_from(Start(search.seed, search.examples, search.first))
    if found is not None and search.fate == Fate.TIMED_OUT:
        confirmed = trials.try_case(found[0], search.call_seconds)
        found = None if confirmed is None else (found[0], confirmed)
    if found is None:
        return None
    case, death = found
    wants_report = one.is_slow or one.fills_missing or _is_the_call(death, case)
    given = None if wants_report else stored_law_of(one, case)
    return plain_crash(implementation, name, death, limits, given)


@dataclass(frozen=True)
class Start:
    """Which example of a seed a search begins with, and the largest sizes that it draws."""

    seed: int | str
    examples: int
    first: int
    sizes: Mapping[str, int] = field(default_factory=dict)


class Trials:
    """Cases of a property, tried in processes that may die; ``patience`` is for how long a smaller one is waited.

    What is tried is prepared first, in this process, unless each of the others loads it for itself.
    """

    def __init__(
        self, implementation: str, one: Property, search: Search, limits: UnitLimits, prepare: Callable[[str], object]
    ) -> None:
        if not search.loads_apart:
            prepare(implementation)
        self.one = one
        self._implementation, self._search, self._limits, self._prepare = implementation, search, limits, prepare
        self._spent = 0.0
        self.patience = search.call_seconds
        if search.fate == Fate.TIMED_OUT:
            self.patience = min(self.patience, max(SHORTEST, self.patience * SHORTER))

    def try_case(self, case: Any, seconds: float) -> Death | None:
        """Return how a process dies of a case, if it dies as that of the run did."""
        return self._try(lambda backend: self._call(backend, case), seconds)

    @property
    def is_time_up(self) -> bool:
        """Whether no more may be spent on smaller cases."""
        return self._spent > self._search.seconds

    def first_small(self) -> Start | None:
        """Let one process try cases of small structures, smallest first, and return the first that it dies of."""

        def climb(backend: Backend) -> None:
            def law(_: int, case: Any) -> None:
                begin_example()
                self._call(backend, case)

            for number, sizes in enumerate(STRUCTURES):
                self._draw(self._small(number, sizes), law)

        death = self._try(climb, self.patience + SECONDS_OF_THE_SMALL)
        # NOTE: the process itself is an example, before those that it draws.
        left = 0 if death is None else death.examples - 1
        for number, sizes in enumerate(STRUCTURES if left else ()):
            start = self._small(number, sizes)
            num_drawn = self._draw(start, lambda *_: None)
            if left <= num_drawn:
                return replace(start, first=left)
            left -= num_drawn
        return None

    def smallest_from(self, start: Start) -> tuple[Any, Death] | None:
        """Return the example that a search begins with, shrunk as long as there is time; None if nothing dies of it."""
        found: tuple[Any, Death] | None = None

        def law(number: int, case: Any) -> None:
            nonlocal found
            if number < start.first:
                return
            if found is not None and self.is_time_up:
                raise Cut
            death = self.try_case(case, self.patience)
            if death is not None:
                found = case, death
                raise RuntimeError(death.words)
            if found is None:
                raise Cut

        with suppress(Exception, Cut):  # NOTE: what a process dies of is kept in ``found``.
            self._draw(start, law, is_shrunk=True)
        return found

    def _try(self, action: Callable[[Backend], None], seconds: float) -> Death | None:
        def load_and_act() -> None:
            if self._search.loads_apart:
                self._prepare(self._implementation)
            action(loaded(self._implementation, self._limits))

        begin_call("")
        death, spent = try_apart(load_and_act, seconds, self._search.memory)
        self._spent += spent
        return death if death is not None and death.fate == self._search.fate else None

    def _call(self, backend: Backend, case: Any) -> None:
        try:
            with backend.arrays.debugging():
                call_law(self.one, backend, case)
        except Exception:  # NOTE: a case that fails is none that crashes, unless the device goes with it.
            require_device(backend)

    def _small(self, number: int, sizes: Mapping[str, int]) -> Start:
        return Start(f"{self._search.seed} {number}", TRIES, 1, sizes)

    def _draw(self, start: Start, law: Callable[[int, Any], None], *, is_shrunk: bool = False) -> int:
        """Call a law on the examples of a seed, numbered from 1, and return how many there were."""
        num_drawn = 0

        def counted(case: Any) -> None:
            nonlocal num_drawn
            num_drawn += 1
            law(num_drawn, case)

        with drawing_at_most(start.sizes), suppress(HypothesisException):  # NOTE: of some structures there is no case.
            explore(self.one, counted, start.seed, start.examples, is_shrunk=is_shrunk)
        return num_drawn


def _is_the_call(death: Death, case: Any) -> bool:
    """Return whether what a law was given is the call that it died in."""
    operation = "" if death.call is None else death.call[0]
    return operation not in RECORDS or is_call(RECORDS[operation].contract, case)


def plain_crash(
    implementation: str, name: str, end: Death | Lost, limits: UnitLimits, law: StoredLaw | None = None
) -> dict[str, Any]:
    """Return the failure of a process that died in a call, with the file of its case; nothing of it is called."""
    called, arguments = ("", None) if end.call is None else end.call
    printed = end.printed if isinstance(end, Lost) else ""
    operation = called if called in RECORDS or called in property_named(name).operations else ""
    who = operation or f"a whole run ({called})" if called else "a whole run"
    failure = Failure(operation, name, f"{who} {end.fate}: {end.words}", arguments, printed, str(end.fate), law=law)
    if arguments is None or operation not in RECORDS:
        return tell(failure, None)
    try:
        provenance = Provenance(implementation, limits.seed, limits.versions)
        case = case_that(failure, Observation(error=f"{end.fate}: {end.words}"), provenance)
        return tell(failure, write_case(case, Path(limits.folder) / name))
    except Exception as error:  # NOTE: of a call outside the domain not every argument can be written.
        return tell_without_case(failure, error)
