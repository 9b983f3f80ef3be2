"""A state machine around anybody's worker: Hypothesis chooses what happens, and makes a failing history small."""

from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any, ClassVar

from hypothesis import note, reject
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from specsim.conformance.backend import Backend
from specsim.properties.soak.drawing import DrawSetup, draw_setup
from specsim.properties.soak.history import finish
from specsim.properties.soak.machine import Machine
from specsim.properties.soak.rules import BY_NAME, MOST_REQUESTS, Action, apply_action
from specsim.properties.soak.setups import Setup
from specsim.properties.soak.subject import Subject
from specsim.properties.suite.harness.finding import loaded
from specsim.rejection import Reason, SpecRejection
from specsim.simulation.models.frozen import accepting_unread_states

MOST_SETUPS = 50
"""Setups that are drawn before one of them runs on a worker of the implementation."""

NUMBERS = st.integers(0, MOST_REQUESTS - 1)
SOURCES = st.randoms(use_true_random=False)


def can(name: str) -> Callable[["WorkerMachine"], bool]:
    """Return whether a rule of a soak can be applied to a machine."""
    return lambda self: self.machine is not None and BY_NAME[name].weight(self.machine) > 0


def rule_of(name: str, **drawn: Any) -> Any:
    """Return a rule of a soak as one of Hypothesis, whose argument is a number, or drawn from a source."""

    def apply(self: "WorkerMachine", source: Random | None = None, number: int | None = None) -> None:
        if source is None:
            self.let(Action(name, number))
        else:
            self.let_drawn(name, source)

    apply.__name__ = name.replace(" ", "_")
    decorate: Any = rule(**drawn)
    return precondition(can(name))(decorate(apply))


class WorkerMachine(RuleBasedStateMachine):
    """Requests join, decode and leave an engine in any order, and everything a soak checks is checked after each rule.

    Subclass it and name what is tried; rules and invariants of your own may be added, ``machine.engine`` is the engine.

    Attributes
    ----------
    implementation : str, Backend or None
        A module, as in an import, whose workers, operations, parts and scheduler take the place of the reference's.
    worker, worker_v1 : callable or None
        Classes of workers that take the place of the module's, built from a ``SpecConfig``, a model and ``PoolSizes``:
        one of V2, and one of V1. One that inherits nothing needs the methods of ``specsim.simulation.worker.Worker``.
    draw : callable
        Draws a setup from a source of random numbers; setups for which there is no worker are drawn again.
    machine : Machine or None
        The engine with everything that was asked of it; None before it is built, and after a failure.

    Raises
    ------
    SpecRejection
        MISSING_ARGUMENT: neither implementation nor worker is named.
    AssertionError
        Something does not hold that always does.
    """

    implementation: ClassVar[str | Backend | None] = None
    worker: ClassVar[Callable[..., Any] | None] = None
    worker_v1: ClassVar[Callable[..., Any] | None] = None
    draw: ClassVar[DrawSetup] = staticmethod(draw_setup)
    machine: Machine | None = None

    @classmethod
    def subject(cls) -> Subject:
        """Return what is tried."""
        if cls.implementation is None and cls.worker is None and cls.worker_v1 is None:
            what, expected = f"implementation of {cls.__name__}", "a module, or a worker in its place"
            because = "the machine would try the reference"
            raise SpecRejection(Reason.MISSING_ARGUMENT, what, "missing", expected, because)
        backend = loaded(cls.implementation or "specsim.reference")
        if cls.worker is None and cls.worker_v1 is None:
            return Subject(backend)
        name = f"{backend.name} with {cls.__name__}"
        return Subject(replace(backend, name=name, worker=cls.worker, worker_v1=cls.worker_v1, other_workers={}))

    @initialize(source=SOURCES)
    def build(self, source: Random) -> None:
        """Build an engine of a drawn setup."""
        subject = self.subject()
        for _ in range(MOST_SETUPS):
            setup = type(self).draw(source)
            if not subject.backend.workers or _runs(subject, setup):
                note(f"{setup}")
                self.machine = Machine(subject, setup)
                return
        reject()

    @precondition(can("step"))
    @rule(count=st.integers(1, 6))
    def step(self, count: int) -> None:
        """Take some turns."""
        for _ in range(count):
            self.let(Action("step"))

    admit = rule_of("admit", source=SOURCES)
    admit_a_crowd = rule_of("admit a crowd", source=SOURCES)
    admit_again = rule_of("admit again", number=NUMBERS)
    abort = rule_of("abort", number=NUMBERS)
    retract = rule_of("retract", number=NUMBERS)
    change_steps = rule_of("change steps", number=NUMBERS)
    change_engine = rule_of("change engine", number=NUMBERS)
    change_buckets = rule_of("change buckets", number=NUMBERS)
    admit_next_door = rule_of("admit next door", source=SOURCES)

    @precondition(can("idle batch"))
    @rule()
    def run_idle_batch(self) -> None:
        """Run an iteration without requests."""
        self.let(Action("idle batch"))

    def let_drawn(self, name: str, source: Random) -> None:
        """Apply a rule of a soak with an argument that is drawn."""
        if self.machine is not None:
            self.let(Action(name, BY_NAME[name].draw(source, self.machine)))

    def let(self, action: Action) -> None:
        """Apply a rule of a soak and check what always holds; nothing is done to a machine that has failed."""
        # NOTE: a machine that has failed has no end to be checked.
        machine, self.machine = self.machine, None
        if machine is None:
            return
        note(f"{action}")
        with accepting_unread_states():
            apply_action(machine, action)
        self.machine = machine

    def teardown(self) -> None:
        """Step until nothing is left to do, and check that nothing is left over."""
        if self.machine is not None:
            with accepting_unread_states():
                finish(self.machine)


def _runs(subject: Subject, setup: Setup) -> bool:
    """Return whether a worker of the implementation runs a setup: there is one, and it does not refuse the pages."""
    if not subject.has_own_worker(setup):
        return False
    try:
        subject.own_worker(setup)
    except SpecRejection as refusal:
        if refusal.reason is not Reason.BAD_CONFIGURATION:
            raise
        return False
    return True
