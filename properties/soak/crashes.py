"""The smallest history that a process dies of: found again and made smaller in processes of their own."""

import pickle
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import IO, Any

from specsim.conformance.isolation.jobs import Done, Fate, Job, Limits, run_function
from specsim.conformance.isolation.supervisor import Supervisor
from specsim.conformance.isolation.trials import try_apart
from specsim.properties.inside import having
from specsim.properties.soak.history import NOTE, Failure, replay
from specsim.properties.soak.rules import Action
from specsim.properties.soak.setups import Setup
from specsim.properties.soak.shrinking import shrink
from specsim.properties.unit_of_work import BrokenUnit, PlainFailure, answer_of, broken_from, checked, lost_in_words

SMALLEST_CRASH = "specsim.properties.soak.crashes:smallest_crash"
SECONDS = 20.0
"""How long a history may take where no call is bounded."""

Call = tuple[str, tuple[Any, ...]]
"""A function by its name, and its arguments."""


@dataclass(frozen=True)
class Crash:
    """A unit that a process died of, and how to load what is tried.

    Parameters
    ----------
    unit, load : Call
        The unit, whose history is noted, and what returns the subject that others are replayed on.
    limits : Limits
        What a history may take.
    replays : int
        Histories that are tried to find a shorter one.
    """

    unit: Call
    load: Call
    limits: Limits
    replays: int

    def job(self, key: Any) -> Job:
        """Return the search in a process of its own."""
        read = partial(checked, kind=PlainFailure | None)
        return Job(key, SMALLEST_CRASH, (self,), Limits(None, None, None), is_apart=True, read=read)


def smallest_crash(crash: Crash) -> dict[str, Any] | None:
    """Return a history that a process dies of, made smaller, as plain values; None where it dies of none again."""
    subject = run_function(*crash.load)
    seconds, memory = crash.limits.longest_call or SECONDS, crash.limits.memory

    def again(setup: Setup, actions: Sequence[Action]) -> Failure | None:
        death, _ = try_apart(lambda: _forget(replay(subject, setup, actions)), seconds, memory)
        if death is None or death.fate is not Fate.CRASHED:
            return None
        # NOTE: the process itself is an example, before the actions.
        num_begun = death.examples - 1
        words = lost_in_words(death.fate, death.words, death.call, num_begun)
        return Failure(setup, tuple(actions[:num_begun]), words, death.fate.value)

    with tempfile.TemporaryFile() as noted:
        try_apart(lambda: _run_noting(crash.unit, noted), seconds, memory)
        noted.seek(0)
        setup, *actions = [*_read(noted)] or [None]
    failure = None if setup is None else again(setup, actions)
    return None if failure is None else shrink(failure, again, crash.replays).as_plain()


def shortest_of(failure: BrokenUnit, supervisor: Supervisor, unit: Job, load: Call, replays: int) -> BrokenUnit | None:
    """Return the shortest history that a search finds, or a unit that runs again; None if there is none."""
    crash = Crash((unit.function, unit.arguments), load, unit.limits, replays)
    event = answer_of(supervisor, crash.job(unit.key) if failure.is_lost else unit)
    answer = event.answer if isinstance(event, Done) else None
    plain = {"failure": answer} if failure.is_lost or answer is None else answer
    found = broken_from(plain)
    return None if found is None else replace(found, is_lost=failure.is_lost)


def _run_noting(unit: Call, noted: IO[bytes]) -> None:
    """Run a unit, and keep the setup and each action of its history before it is begun."""

    def note(one: Setup | Action) -> None:
        pickle.dump(one, noted)
        noted.flush()

    with having(NOTE, note):
        run_function(*unit)


def _read(noted: IO[bytes]) -> Iterator[Any]:
    try:
        while True:
            yield pickle.load(noted)
    except EOFError:
        return


def _forget(failure: Failure | None) -> None:
    """Keep nothing of a history that fails without a crash."""
