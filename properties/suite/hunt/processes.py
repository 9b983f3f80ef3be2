"""Processes that show mutants to properties, each with the hunt that it has prepared for itself."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, get_type_hints

import msgspec

from specsim.conformance.isolation.heartbeat import listen
from specsim.conformance.isolation.jobs import Done, Job, Limits, run_function
from specsim.conformance.isolation.supervisor import Supervisor
from specsim.properties.mutants import all_mutants
from specsim.properties.suite.catalogue import properties_by_name
from specsim.properties.suite.hunt.hunt import Hunt, Options

PREPARE, CALL = "specsim.properties.suite.hunt.processes:prepare", "specsim.properties.suite.hunt.processes:call"
PRELOAD = ("specsim.properties.suite.conformance.preload",)
WITHOUT_LIMITS = Limits(None, None, None, None)

Run = Callable[[Callable[..., Any], Sequence[tuple[Any, ...]]], Iterator[tuple[Any, Any]]]
"""Calls ``function(hunt, *task)`` for each task, and yields the task with the answer as it comes."""


@contextmanager
def sharing(hunt: Hunt, jobs: int) -> Iterator[Run]:
    """Share a hunt among processes; with one job, this one alone.

    Mutants and properties hold functions, which cannot be sent: another process finds them by name.
    """
    if jobs == 1:
        yield lambda function, tasks: ((task, function(hunt, *task)) for task in tasks)
        return
    prepare = Job("hunt", PREPARE, (tuple(hunt.mutants), tuple(hunt.properties), hunt.options), WITHOUT_LIMITS)
    with Supervisor(jobs, prepare, PRELOAD) as supervisor:
        yield partial(_run, supervisor)


def _run(
    supervisor: Supervisor, function: Callable[..., Any], tasks: Sequence[tuple[Any, ...]]
) -> Iterator[tuple[Any, Any]]:
    read = partial(msgspec.convert, type=get_type_hints(function)["return"])
    for task in tasks:
        arguments = f"{function.__module__}:{function.__name__}", task
        supervisor.submit(Job(task, CALL, arguments, WITHOUT_LIMITS, read=read))
    for event in supervisor.events():
        if not isinstance(event, Done):
            raise AssertionError(event.words)
        yield event.job.key, event.answer


def prepare(ids: tuple[str, ...], names: tuple[str, ...], options: Options) -> None:
    """Make a hunt in this process, of which no one wants to know what it calls."""
    global _HUNT
    listen(None)
    mutants = [mutant for mutant in all_mutants() if mutant.id in ids]
    _HUNT = Hunt(mutants, [properties_by_name()[name] for name in names], options)


def call(function: str, task: tuple[Any, ...]) -> Any:
    """Call a function of the hunt of this process by its name."""
    return run_function(function, (_HUNT, *task))


_HUNT: Hunt | None = None
