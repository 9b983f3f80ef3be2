"""One machine from its setup to its end: drawn, and replayed."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextvars import ContextVar
from dataclasses import asdict, dataclass, field
from functools import partial
from random import Random
from typing import Any

from specsim.assertion import require
from specsim.conformance.isolation.heartbeat import begin_call, begin_example, staying
from specsim.conformance.plain_text import words_of
from specsim.properties.soak.aims import Aim
from specsim.properties.soak.drafters import EAGLE
from specsim.properties.soak.drawing import DrawSetup, draw_setup
from specsim.properties.soak.machine import Machine
from specsim.properties.soak.own import draw_machine
from specsim.properties.soak.rules import STEP, Action, apply_action, draw_action
from specsim.properties.soak.setups import Setup
from specsim.properties.soak.subject import Subject
from specsim.properties.soak.trace import Traces
from specsim.rejection import WorkerRefusal
from specsim.simulation.events import Tag
from specsim.simulation.models.frozen import accepting_unread_states
from specsim.simulation.turns.priorities import Coverage

NOTE: ContextVar[Callable[[Setup | Action], None]] = ContextVar("note", default=lambda _: None)
"""Is shown the setup of a history and each action, before these are begun."""

MOST_STEPS_TO_THE_END = 3000
"""Steps after the last action before a machine is taken to go on for ever; the longest that are drawn take a tenth."""


@dataclass(frozen=True)
class Failure:
    """A history that fails at its last action, or after it on the way to the end.

    ``kind`` is the class of what was raised.
    """

    setup: Setup
    actions: tuple[Action, ...]
    error: str
    kind: str

    def lines(self) -> list[str]:
        """Return the history as users read it, a line an action."""
        actions = [f"{place}. {action}" for place, action in enumerate(self.actions, 1)]
        return [str(self.setup), *actions, "then step until nothing is left to do, or until it fails"]

    def as_plain(self) -> dict[str, Any]:
        """Return the failure as plain values."""
        return {"error": self.error, "lines": self.lines()}


@dataclass
class Played:
    """What a machine found.

    ``untried`` has why a rule was not tried, by its name and the kind of worker. ``ran`` counts what of the
    implementation ran, by name; ``refused`` says why its workers take no machine that was drawn, if they take none.
    ``trace`` is the hash of what happened, in order, ``repeated`` has those of two runs if it ran twice, ``coverage``
    says how many schedules of a stated depth ran, ``drafts`` what became of the drafts of all engines.
    """

    num_steps: int = 0
    algorithm: str = EAGLE
    num_decodes: int = 0
    num_wide_decodes: int = 0
    num_leaked: int = 0
    reach: Counter[Tag] = field(default_factory=Counter)
    reused: Counter[str] = field(default_factory=Counter)
    untried: dict[str, str] = field(default_factory=dict)
    ran: dict[str, int] = field(default_factory=dict)
    refused: str = ""
    trace: str = ""
    repeated: Traces | None = None
    coverage: Coverage = field(default_factory=Coverage)
    drafts: dict[str, int] = field(default_factory=dict)
    failure: Failure | None = None

    def as_plain(self) -> dict[str, Any]:
        """Return everything as plain values."""
        reach = {tag.value: number for tag, number in self.reach.items()}
        failure = None if self.failure is None else self.failure.as_plain()
        repeated = None if self.repeated is None else asdict(self.repeated)
        plain = {"reach": reach, "reused": dict(self.reused), "failure": failure}
        return {**vars(self), **plain, "repeated": repeated, "coverage": asdict(self.coverage)}


@accepting_unread_states()
def play(subject: Subject, random: Random, draw: DrawSetup = draw_setup, aim: Aim | None = None) -> Played:
    """Draw a machine that aims at a condition, or at none, and its actions, and run it to its end."""
    try:
        setup = draw_machine(subject, random, draw, aim)
    except WorkerRefusal as refusal:
        return Played(refused=refusal.limit)
    before = subject.backend.uses.copy()
    course = run_course(subject, setup, partial(_draw_actions, random))
    machine = course.machine
    played = Played(course.num_steps, setup.drafting.drafter, failure=course.failure)
    if machine is not None:
        played.num_decodes, played.num_wide_decodes = machine.num_decodes, machine.num_wide_decodes
        played.num_leaked = machine.num_leaked
        played.trace, played.coverage = str(machine.trace), machine.coverage
        played.reach, played.reused = machine.reach.counts, machine.reuse.counts
        if machine.sides.untried is not None:
            played.untried[f"change engine ({'V1' if setup.is_v1 else 'V2'})"] = machine.sides.untried
        if machine.refused is not None:
            played.untried[f"requests of {setup.worker_name}"] = machine.refused
        if machine.num_decodes:
            played.ran = dict(subject.backend.uses - before)
    return played


def _draw_actions(random: Random, machine: Machine) -> Iterator[Action]:
    for _ in range(machine.setup.num_actions):
        yield draw_action(random, machine)


@dataclass
class Course:
    """What became of a machine: the actions that were applied to it, its steps, and what it failed with, if it did."""

    setup: Setup
    machine: Machine | None = None
    actions: list[Action] = field(default_factory=list)
    num_steps: int = 0
    error: Exception | None = None

    @property
    def failure(self) -> Failure | None:
        """The history, if it failed."""
        if self.error is None:
            return None
        return Failure(self.setup, tuple(self.actions), describe(self.error), type(self.error).__name__)


def run_course(subject: Subject, setup: Setup, choose: Callable[[Machine], Iterable[Action]]) -> Course:
    """Build a machine, apply the actions that are chosen for it, as far as they can be, and run it to its end.

    It reports to the supervisor of this process which worker it builds and what it does.
    """
    course, note = Course(setup), NOTE.get()
    try:
        with staying(setup.worker_name):
            note(setup)
            begin_call(setup.worker_name)
            course.machine = Machine(subject, setup)
            for action in choose(course.machine):
                note(action)
                course.actions.append(action)
                if not take_turn(course.machine, action):
                    course.actions.pop()
            course.num_steps = finish(course.machine)
    except Exception as caught:  # NOTE: an implementation may fail in any way, and a crash is a failure too.
        course.error = caught
    course.num_steps += len(course.actions)
    return course


def take_turn(machine: Machine, action: Action) -> bool:
    """Do something to a machine and check it, and report it to the supervisor of this process."""
    begin_example()
    begin_call(action.rule)
    machine.trace.note(action.rule)
    return apply_action(machine, action)


def finish(machine: Machine) -> int:
    """Step until nothing is left to do, and return how many steps that took."""
    num_applied = 0
    while machine.has_work:
        require(num_applied < MOST_STEPS_TO_THE_END, "steps to the end", num_applied, "a tenth of them")
        take_turn(machine, STEP)
        num_applied += 1
    machine.check_end()
    return num_applied


@accepting_unread_states()
def replay(subject: Subject, setup: Setup, actions: Sequence[Action]) -> Failure | None:
    """Run a history again; what cannot be applied is left out. Return where it fails, if it does."""
    course = run_course(subject, setup, lambda _: actions)
    return None if isinstance(course.error, WorkerRefusal) else course.failure


def describe(error: Exception) -> str:
    """Return what went wrong, and what kind of failure it is unless a law says so."""
    plain = " ".join(words_of(error).split())
    return plain if isinstance(error, AssertionError) else f"{type(error).__name__}: {plain}"
