"""What a supervisor is asked to do, and what becomes of it."""

import importlib
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


@dataclass(frozen=True)
class Limits:
    """Seconds that a call may take and that a job may; bytes that a process may hold. None: as many as it likes.

    ``start`` is how long a process may take until it is ready.
    """

    call: float | None = 20.0
    job: float | None = None
    memory: int | None = None
    start: float | None = 120.0

    @property
    def longest_call(self) -> float | None:
        """Seconds after which a call is taken to hang: a job's, where a job may take less."""
        given = [seconds for seconds in (self.call, self.job) if seconds is not None]
        return min(given, default=None)


@dataclass(frozen=True)
class Job:
    """A function by its name, ``package.module:function``, and what it is called with; both sides can pickle it.

    ``key`` is whatever tells the jobs of a run apart. A job that ``is_apart`` gets a process of its own, which is not
    prepared and ends behind it.
    """

    key: Any
    function: str
    arguments: tuple[Any, ...] = ()
    limits: Limits = field(default_factory=Limits)
    is_apart: bool = False

    def run(self) -> Any:
        """Call the function."""
        module, _, name = self.function.partition(":")
        return vars(importlib.import_module(module))[name](*self.arguments)


class Fate(StrEnum):
    """How a job ends that comes to no answer."""

    CRASHED = "CRASHED"
    TIMED_OUT = "TIMED OUT"
    CUT = "CUT"


@dataclass(frozen=True)
class Done:
    """A job and what its function returned."""

    job: Job
    answer: Any


@dataclass(frozen=True)
class Lost:
    """A job whose process died or was killed: why in words, and what it was doing.

    ``example`` counts examples that had begun. ``call`` is the name of the function that was called last in it, with
    its arguments where they could be kept. ``printed`` is the end of what the process wrote.
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
