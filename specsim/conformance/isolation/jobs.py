"""What a supervisor is asked to do, and what becomes of it."""

import importlib
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


@dataclass(frozen=True)
class Limits:
    """Seconds that a call may take and that a job may; bytes that a process may hold. None: as many as it likes.

    ``start`` is how long a process may take until it is ready. ``turn`` is after how many seconds a job ends at its
    next call, because others want theirs: no call is too long for it.
    """

    call: float | None = 20.0
    job: float | None = None
    memory: int | None = None
    start: float | None = 120.0
    turn: float | None = None

    @property
    def longest_call(self) -> float | None:
        """Seconds after which a call is taken to hang: a job's, where a job may take less."""
        return _least(self.call, self.job)

    @property
    def longest_turn(self) -> float | None:
        """Seconds after which a job ends at its next call."""
        return _least(self.job, self.turn)


def _least(*seconds: float | None) -> float | None:
    return min((one for one in seconds if one is not None), default=None)


def as_it_came(answer: Any) -> Any:
    """Return plain values as they were sent."""
    return answer


@dataclass(frozen=True)
class Job:
    """A function by its name, ``package.module:function``, and the arguments that it is called with, which are pickled.

    ``key`` is whatever tells the jobs of a run apart. A job that ``is_apart`` gets a process of its own, which is not
    prepared and ends after it. ``read`` takes the plain values that the function returned, as the process that is
    tried sent them, and returns the answer, or raises ValueError, TypeError or LookupError if they make none.
    """

    key: Any
    function: str
    arguments: tuple[Any, ...] = ()
    limits: Limits = field(default_factory=Limits)
    is_apart: bool = False
    read: Callable[[Any], Any] = as_it_came


def run_function(function: str, arguments: tuple[Any, ...]) -> Any:
    """Call a function by its name."""
    module, _, name = function.partition(":")
    return vars(importlib.import_module(module))[name](*arguments)


class Fate(StrEnum):
    """How a job ends without an answer: RAISED leaves its process as it is, CUT is no one's fault."""

    CRASHED = "CRASHED"
    TIMED_OUT = "TIMED OUT"
    RAISED = "FAILED"
    CUT = "CUT"


@dataclass(frozen=True)
class Done:
    """A job and what its function returned."""

    job: Job
    answer: Any


@dataclass(frozen=True)
class Lost:
    """A job that came to no answer, or whose process died: why in words, and what it was doing.

    ``example`` counts examples that had begun. ``call`` is the name of the function that was called last in it, with
    its arguments where they could be kept. ``printed`` is the end of what the process wrote, or the traceback of what
    was raised.
    """

    job: Job
    fate: Fate
    words: str
    example: int = 0
    call: tuple[str, dict[str, Any] | None] | None = None
    printed: str = ""


@dataclass(frozen=True)
class Skipped:
    """A job that was taken back before it began, and why."""

    job: Job
    words: str


class CannotStart(RuntimeError):
    """No process becomes ready: what prepares it raises."""


class DiedAtStart(CannotStart):
    """No process becomes ready: it dies or hangs."""
