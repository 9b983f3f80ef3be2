"""What check, soak and matrix hand to processes that may die: units of work of one shape, and what became of them.

A unit is a plain function ``run_unit(implementation, name, seeds, limits)``: what is tried, what of it, the seeds of
its examples, and how much may be spent. It leaves nothing but files in the folder of its run, and returns values that
JSON can hold: ``duration`` in seconds, ``reach``, counts by name, ``failure``, None or what broke, and what else is
counted.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from specsim.conformance.backend import Backend
from specsim.conformance.cases import Replay
from specsim.conformance.isolation.heartbeat import Poisoned, is_watched
from specsim.conformance.isolation.jobs import CannotStart, Done, Fate, Job, Lost
from specsim.conformance.isolation.supervisor import Event, Supervisor

SIGNS = {Fate.TIMED_OUT: Replay.TIMED_OUT.value}
"""How the words of a lost unit begin, where it is not as those of a crash."""

MOST_LOSSES = 2
"""Crashes and hangs after which what would suffer from them again is not run."""


class PlainFailure(msgspec.Struct):
    """Of a failing history what a process sends: why, and its lines."""

    error: str
    lines: list[str]


class PlainOutcome(msgspec.Struct):
    """What every unit sends, by which the outcome of a process that is tried is checked; others add their counts.

    ``ran`` counts what of the implementation ran, ``drafts`` what became of the drafts of its engines.
    """

    duration: float
    reach: dict[str, int]
    ran: dict[str, int]
    drafts: dict[str, int]
    failure: PlainFailure | None


def checked(plain: Any, kind: Any) -> Any:
    """Return plain values that a process sent as they are, which make an object of some type.

    Raises
    ------
    ValueError
        They do not.
    """
    msgspec.convert(plain, kind)
    return plain


@dataclass(frozen=True)
class BrokenUnit:
    """Why a unit failed, and its history as users read it, a line each, where it came to an answer.

    ``is_lost`` says that its process crashed or hung.
    """

    error: str
    lines: tuple[str, ...] = ()
    is_lost: bool = False


def broken_from(outcome: Mapping[str, Any]) -> BrokenUnit | None:
    """Return the failure in the outcome of a unit."""
    failure = outcome["failure"]
    return None if failure is None else BrokenUnit(failure["error"], tuple(failure["lines"]))


def broken_by(lost: Lost) -> BrokenUnit:
    """Return the failure of a unit whose process crashed or hung."""
    return BrokenUnit(lost_in_words(lost.fate, lost.words, lost.call, lost.example), is_lost=True)


def lost_in_words(fate: Fate, words: str, call: tuple[str, Any] | None, example: int) -> str:
    """Return how a process crashed or hung, with the call and the action where they are known."""
    called = f" in {call[0]}" if call is not None and call[0] else ""
    place = f", action {example}" if example else ""
    return f"{SIGNS.get(fate, Replay.CRASHED.value)}{called}{place}: {' '.join(words.split())}"


def stopped_by(error: CannotStart) -> str:
    """Return why a run ended before its time."""
    return f"no process can be started any more: {error}"


def require_device(backend: Backend) -> None:
    """Leave a process whose device refuses every further call, where somebody watches who starts another."""
    if is_watched() and (error := backend.arrays.device_error()):
        raise Poisoned(error)


def in_order(supervisor: Supervisor, jobs: Iterable[Job], ahead: int) -> Iterator[Event]:
    """Run jobs, which may be without end, and yield what became of each in their order.

    Parameters
    ----------
    ahead : int
        Jobs that are begun at most before what became of the first of them is yielded.
    """
    coming, order = iter(jobs), deque[Job]()
    ended: dict[Any, Event] = {}

    def submit_some() -> None:
        while len(order) < ahead and (job := next(coming, None)) is not None:
            order.append(job)
            supervisor.submit(job)

    submit_some()
    for event in supervisor.events():
        ended[event.job.key] = event
        while order and order[0].key in ended:
            yield ended.pop(order.popleft().key)
            submit_some()


def answer_of(supervisor: Supervisor, job: Job) -> Done | Lost:
    """Run one job, and return what became of it."""
    supervisor.submit(job)
    (event,) = supervisor.events()
    if not isinstance(event, Done | Lost):
        raise RuntimeError(f"{job.function} = {event.words}, but should be run")
    return event
