"""Tasks of a hunt, here or in several processes, each of which has the hunt."""

import multiprocessing
import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import ExitStack, contextmanager
from types import TracebackType
from typing import Any, TypeVar

from specsim.conformance.isolation.process_limits import die_with_parent
from specsim.properties.mutants import all_mutants
from specsim.properties.suite.catalogue import properties_by_name
from specsim.properties.suite.hunt.hunt import Hunt, Options

SAFE_PATH = "PYTHONSAFEPATH"

Task = TypeVar("Task", bound=tuple[Any, ...])
Answer = TypeVar("Answer")


class Workers:
    """The processes that share a hunt; with one job, this one alone.

    Mutants and properties hold functions, which cannot be sent: another process finds them by name.
    """

    def __init__(self, hunt: Hunt, jobs: int) -> None:
        self._hunt = hunt
        self._pool = None
        self._kept = ExitStack()
        if jobs > 1:
            context = multiprocessing.get_context("spawn")
            given = (os.getpid(), sys.path, tuple(hunt.mutants), tuple(hunt.properties), hunt.options)
            self._kept.enter_context(starting_safely())
            self._pool = ProcessPoolExecutor(jobs, context, _prepare, given)

    def __enter__(self) -> "Workers":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._pool is not None:
            if kind is not None:
                # NOTE: what runs is of no use any more, and may take minutes.
                for process in list(self._pool._processes.values()):
                    process.kill()
            self._pool.shutdown(cancel_futures=True)
        self._kept.close()

    def run(self, function: Callable[..., Answer], tasks: Sequence[Task]) -> Iterator[tuple[Task, Answer]]:
        """Call ``function(hunt, *task)`` for each task, and yield the task with the answer as it comes."""
        if self._pool is None:
            for task in tasks:
                yield task, function(self._hunt, *task)
            return
        with without_interrupts():
            pending = {self._pool.submit(_call, function, task): task for task in tasks}
        for done in as_completed(pending):
            yield pending[done], done.result()


@contextmanager
def without_interrupts() -> Iterator[None]:
    """Start processes that ignore Ctrl-C: this process gets it once the block has ended."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def starting_safely() -> Iterator[None]:
    """Let processes that are started look for Python's own modules where these are, not in the working directory."""
    before = os.environ.get(SAFE_PATH)
    os.environ[SAFE_PATH] = "1"
    try:
        yield
    finally:
        del os.environ[SAFE_PATH]
        if before is not None:
            os.environ[SAFE_PATH] = before


def _prepare(parent: int, path: list[str], ids: tuple[str, ...], names: tuple[str, ...], options: Options) -> None:
    """Build the hunt of a process; it finds the modules that the parent finds, and leaves stdout to it."""
    global _HUNT
    die_with_parent(parent)
    sys.path[:] = path
    sys.stdout = sys.stderr
    mutants = [mutant for mutant in all_mutants() if mutant.id in ids]
    by_name = properties_by_name()
    properties = [by_name[name] for name in names]
    _HUNT = Hunt(mutants, properties, options)


def _call(function: Callable[..., Answer], task: tuple[Any, ...]) -> Answer:
    if _HUNT is None:
        raise RuntimeError("the hunt of this process is missing, but should have been prepared")
    return function(_HUNT, *task)


_HUNT: Hunt | None = None
