"""The machine of a soak for Hypothesis, which draws its setup and its actions, and makes a failing history small."""

from random import Random

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from specsim.properties.soak.drawing import DrawSetup, draw_setup
from specsim.properties.soak.history import finish
from specsim.properties.soak.machine import Machine
from specsim.properties.soak.rules import apply_action, draw_action
from specsim.properties.soak.subject import Subject


def engine_machine(subject: Subject, draw: DrawSetup = draw_setup) -> type[RuleBasedStateMachine]:
    """Return the machine around what is tried, for ``run_state_machine_as_test``.

    Parameters
    ----------
    subject : Subject
        An implementation, and who schedules.
    draw : callable
        Draws what machines are built of.
    """

    class EngineMachine(RuleBasedStateMachine):
        """Whatever a soak does to an engine, in any order; every action is checked, and in the end nothing is left."""

        machine: Machine | None = None

        @initialize(random=st.randoms(use_true_random=False))
        def build(self, random: Random) -> None:
            self.machine = Machine(subject, draw(random))

        @rule(random=st.randoms(use_true_random=False))
        def act(self, random: Random) -> None:
            # NOTE: a machine that has failed has no end to be checked.
            machine, self.machine = self.machine, None
            if machine is not None:
                apply_action(machine, draw_action(random, machine))
            self.machine = machine

        def teardown(self) -> None:
            if self.machine is not None:
                finish(self.machine)

    return EngineMachine
