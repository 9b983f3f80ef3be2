"""Many machines, in processes that may die, until they have taken enough steps together.

Machine ``n`` of a seed is the same in every run, so that a run counts the same whatever the number of processes. One
whose process crashes or hangs has failed, and the others go on.
"""

import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from typing import Any

import msgspec

from specsim.conformance.brought import Brought
from specsim.conformance.isolation.jobs import CannotStart, Done, Job, Limits, Lost
from specsim.conformance.isolation.supervisor import Event, Supervisor
from specsim.properties.soak.crashes import shortest_of
from specsim.properties.soak.trace import Traces, joined
from specsim.properties.soak.units import ANY, PlainMachine, SoakLimits
from specsim.properties.unit_of_work import BrokenUnit, answer_of, broken_by, broken_from, checked, in_order, stopped_by
from specsim.simulation.events import Tag
from specsim.simulation.turns.priorities import Coverage

RUN_UNIT = "specsim.properties.soak.units:run_unit"
LOADED = "specsim.properties.soak.units:loaded"
MOST_FAILURES = 10
"""Machines that fail before a run stops: more of them tell nothing else."""

MOST_REFUSED = 5
"""Machines that the workers of a module refuse, before any that they take, until a run stops."""

SETTLED = 5
"""A run's memory is measured after a share of 1 in so many of its steps, and at its end."""

STEPS_OF_A_REFUSAL = 1
"""What a machine that no worker takes counts for, so that a run in which none is taken ends."""

ONE_REPEATED_IN = 64
"""Of so many machines one runs twice, to see that it does the same."""

OnProgress = Callable[[str, int, int], None]


@dataclass
class Soaked:
    """What a run came to; ``failures`` by the number of the machine, ``rss_mib`` early and at the end.

    ``algorithms`` counts machines, ``drafts`` what became of the drafts of all their engines, ``untried`` has the rules
    that some machines could not try, and why. ``brings`` is what the implementation has, ``ran`` counts calls of its
    functions and machines of its workers, ``refused`` has why its workers took no machine, a line each. ``trace`` is
    the hash of what all machines did, ``repeated`` has those of machines that ran twice, ``coverage`` how many
    schedules of a stated depth ran. ``stopped`` says why a run ended before it was through, ``inconclusive_because``
    why one without a failure decides too little.
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
    drafts: Counter[str] = field(default_factory=Counter)
    untried: dict[str, str] = field(default_factory=dict)
    brings: Brought = field(default_factory=Brought)
    ran: Counter[str] = field(default_factory=Counter)
    refused: list[str] = field(default_factory=list)
    trace: str = ""
    repeated: list[Traces] = field(default_factory=list)
    coverage: Coverage = field(default_factory=Coverage)
    failures: dict[int, BrokenUnit] = field(default_factory=dict)
    rss_mib: tuple[float, float] = (0.0, 0.0)
    seconds: float = 0.0
    stopped: str = ""
    is_interrupted: bool = False
    inconclusive_because: list[str] = field(default_factory=list)

    def add(self, number: int, outcome: Mapping[str, Any]) -> None:
        """Count a machine by the outcome of its unit; one that no worker took is none, and takes a step."""
        self.brings = msgspec.convert(outcome["brings"], Brought)
        if outcome["refused"]:
            self.refused.append(outcome["refused"])
            self.num_steps += STEPS_OF_A_REFUSAL
            return
        for name, calls in outcome["ran"].items():
            self.ran[name] += 1 if name in self.brings.workers else calls
        self.num_machines += 1
        self.algorithms[outcome["algorithm"]] += 1
        self.drafts.update(outcome["drafts"])
        self.num_steps += outcome["num_steps"]
        self.num_decodes += outcome["num_decodes"]
        self.num_wide_decodes += outcome["num_wide_decodes"]
        self.num_leaked += outcome["num_leaked"]
        self.reach.update({Tag(name): number for name, number in outcome["reach"].items()})
        self.reused.update(outcome["reused"])
        self.trace = joined(self.trace, outcome["trace"])
        self.coverage += msgspec.convert(outcome["coverage"], Coverage)
        if outcome["repeated"] is not None:
            self.repeated.append(msgspec.convert(outcome["repeated"], Traces))
        self.untried.update(outcome["untried"])
        failure = broken_from(outcome)
        if failure is not None:
            self.failures[number] = failure

    def take(self, number: int, event: Event) -> None:
        """Count what became of a machine; of one whose process crashed or hung it is not known what it was."""
        if isinstance(event, Done):
            self.add(number, event.answer)
        elif isinstance(event, Lost):
            self.num_machines += 1
            self.failures[number] = broken_by(event)


@dataclass(frozen=True)
class Soak:
    """What is tried, by which seed, and what a call may take."""

    implementation: str
    seed: int
    limits: Limits = field(default_factory=Limits)

    def job(self, number: int, replays: int = 0) -> Job:
        """Return the unit of a machine."""
        is_repeated = number % ONE_REPEATED_IN == ONE_REPEATED_IN // 2
        arguments = (self.implementation, ANY, (f"{self.seed} {number}",), SoakLimits(replays, is_repeated))
        read = partial(checked, kind=PlainMachine)
        return Job((f"machine {number}", number), RUN_UNIT, arguments, self.limits, read=read)

    def run(self, supervisor: Supervisor, num_steps: int, jobs: int, on_progress: OnProgress | None = None) -> Soaked:
        """Run machines 0, 1, 2, … until they have taken so many steps, or too many fail; also if that is interrupted.

        Parameters
        ----------
        supervisor : Supervisor
            Its workers have loaded what is tried.
        jobs : int
            How many there are.
        """
        soaked, started = Soaked(self.seed), time.monotonic()
        try:
            self._run(supervisor, soaked, num_steps, jobs, on_progress)
        except KeyboardInterrupt:
            soaked.is_interrupted = True
        except CannotStart as error:
            soaked.stopped = stopped_by(error)
        soaked.seconds = time.monotonic() - started
        return soaked

    def _run(
        self, supervisor: Supervisor, soaked: Soaked, num_steps: int, jobs: int, on_progress: OnProgress | None
    ) -> None:
        memory: dict[int, float] = {}
        early: dict[int, float] = {}
        for number, event in enumerate(in_order(supervisor, map(self.job, count()), jobs + 1)):
            soaked.take(number, event)
            if isinstance(event, Done):
                memory[event.answer["process"]] = event.answer["rss_mib"]
            if not early and soaked.num_steps * SETTLED >= num_steps:
                early = dict(memory)
            soaked.rss_mib = sum(early.values()), sum(memory[process] for process in early)
            if on_progress is not None:
                on_progress("steps", min(soaked.num_steps, num_steps), num_steps)
            is_refused = len(soaked.refused) >= MOST_REFUSED and not soaked.num_machines
            if is_refused or soaked.num_steps >= num_steps or len(soaked.failures) >= MOST_FAILURES:
                break
        supervisor.abandon()

    def run_machine(self, supervisor: Supervisor, number: int) -> Soaked:
        """Run one machine."""
        soaked = Soaked(self.seed)
        soaked.take(number, answer_of(supervisor, self.job(number)))
        return soaked

    def shortest(self, supervisor: Supervisor, soaked: Soaked, replays: int) -> dict[int, BrokenUnit]:
        """Return the shortest history that was found of the first machine that failed, or else of one that crashed."""
        if not soaked.failures or soaked.is_interrupted or soaked.stopped:
            return {}
        number, failure = min(soaked.failures.items(), key=lambda failed: failed[1].is_lost)
        unit, load = self.job(number, replays), (LOADED, (self.implementation,))
        try:
            found = shortest_of(failure, supervisor, unit, load, replays)
        except KeyboardInterrupt:
            soaked.is_interrupted = True
            return {}
        return {} if found is None and failure.is_lost else {number: found or failure}
