"""Many machines, one after another or in several processes, until they have taken enough steps together.

Machine ``n`` of a seed is the same in every run, so that a run counts the same whatever the number of processes.
"""

import gc
import multiprocessing
import os
import resource
import sys
import time
from collections import Counter, deque
from collections.abc import Callable, Generator
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from random import Random

from specsim.conformance.backend import Backend, load
from specsim.properties.soak.history import Failure, Played, play
from specsim.properties.soak.subject import Subject
from specsim.simulation.events import Tag

MOST_FAILURES = 10
"""Machines that fail before a run stops: more of them tell nothing else."""

SETTLED = 5
"""A run's memory is measured after a share of 1 in so many of its steps, and at its end."""

OnProgress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Measured:
    """A machine by its number, what it came to, and the memory of the process that ran it."""

    number: int
    played: Played
    process: int
    rss_mib: float


Machines = Generator[Measured, None, None]


@dataclass
class Soaked:
    """What a run came to; ``failures`` by the number of the machine, ``rss_mib`` early and at the end.

    ``algorithms`` counts machines, ``untried`` has the rules that some machines could not try, and why.
    """

    seed: int
    num_steps: int = 0
    num_machines: int = 0
    num_decodes: int = 0
    num_wide_decodes: int = 0
    num_leaked: int = 0
    reach: Counter[Tag] = field(default_factory=Counter)
    reused: Counter[str] = field(default_factory=Counter)
    algorithms: Counter[str] = field(default_factory=Counter)
    untried: dict[str, str] = field(default_factory=dict)
    failures: dict[int, Failure] = field(default_factory=dict)
    rss_mib: tuple[float, float] = (0.0, 0.0)
    seconds: float = 0.0

    def add(self, number: int, played: Played) -> None:
        """Count a machine."""
        self.num_machines += 1
        self.algorithms[played.algorithm] += 1
        self.num_steps += played.num_steps
        self.num_decodes += played.num_decodes
        self.num_wide_decodes += played.num_wide_decodes
        self.num_leaked += played.num_leaked
        self.reach.update(played.reach)
        self.reused.update(played.reused)
        self.untried.update(played.untried)
        if played.failure is not None:
            self.failures[number] = played.failure


def soak(
    backend: Backend, implementation: str, seed: int, num_steps: int, jobs: int, on_progress: OnProgress | None = None
) -> Soaked:
    """Run machines 0, 1, 2, … of a seed until they have taken so many steps, or too many fail.

    Parameters
    ----------
    backend, implementation : Backend, str
        What is tried, and its name, by which other processes load it.
    """
    soaked = Soaked(seed)
    started = time.monotonic()
    memory: dict[int, float] = {}
    early: dict[int, float] = {}
    machines = in_processes(implementation, seed, jobs) if jobs > 1 else in_this_process(backend, seed)
    for measured in machines:
        soaked.add(measured.number, measured.played)
        memory[measured.process] = measured.rss_mib
        if not early and soaked.num_steps * SETTLED >= num_steps:
            early = dict(memory)
        if on_progress is not None:
            on_progress("steps", min(soaked.num_steps, num_steps), num_steps)
        if soaked.num_steps >= num_steps or len(soaked.failures) >= MOST_FAILURES:
            break
    machines.close()
    soaked.seconds = time.monotonic() - started
    soaked.rss_mib = sum(early.values()), sum(memory[process] for process in early)
    return soaked


def play_machine(subject: Subject, seed: int, number: int) -> Played:
    """Run one machine of a seed."""
    return play(subject, Random(f"{seed} {number}"))


def in_this_process(backend: Backend, seed: int) -> Machines:
    """Yield the machines of a seed."""
    subject = Subject(backend)
    for number in count():
        yield _measure(subject, seed, number)


def in_processes(implementation: str, seed: int, jobs: int) -> Machines:
    """Yield the machines of a seed in their order, run by several processes."""
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(jobs, context, _prepare, (sys.path, implementation))
    queued: deque[Future[Measured]] = deque()
    try:
        for number in count():
            queued.append(pool.submit(_run, seed, number))
            if len(queued) > jobs:
                yield queued.popleft().result()
    finally:
        pool.shutdown(cancel_futures=True)


def rss_mib() -> float:
    """Return the memory that this process holds; where the system does not tell, the most that it has held."""
    table = Path("/proc/self/statm")
    if table.exists():
        return int(table.read_text().split()[1]) * resource.getpagesize() / 2**20
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10


def _measure(subject: Subject, seed: int, number: int) -> Measured:
    played = play_machine(subject, seed, number)
    # NOTE: an engine is a cycle; what waits to be collected is not what the process holds.
    gc.collect()
    return Measured(number, played, os.getpid(), rss_mib())


def _prepare(path: list[str], implementation: str) -> None:
    """Load what is tried; stdout is the parent's."""
    global _SUBJECT
    sys.path[:] = path
    sys.stdout = sys.stderr
    _SUBJECT = Subject(load(implementation))


def _run(seed: int, number: int) -> Measured:
    if _SUBJECT is None:
        raise RuntimeError("the implementation of this process is missing, but should have been loaded")
    return _measure(_SUBJECT, seed, number)


_SUBJECT: Subject | None = None
