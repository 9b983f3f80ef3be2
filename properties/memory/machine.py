"""A rule-based machine over an engine's memory alone: no model runs, tags say what the slots hold."""

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from specsim.assertion import require_present
from specsim.conformance.backend import Backend
from specsim.properties.memory.checks import check_memory
from specsim.properties.memory.play import empty, happen
from specsim.properties.memory.player import MemoryState
from specsim.properties.memory.strategy import Event, MemoryHistory, one_memory

COUNTS = st.tuples(st.integers(0, 6), st.integers(0, 6), st.integers(0, 6))
SCENES = (
    *(("join",), ("admit", "chunk"), ("step",), ("step", "step"), ("join",), ("step",)),
    *(("finish",), ("abort",), ("retract",), ("evict",), ("late",), ("resize",)),
)
"""What happens by one rule; who joins and decodes is drawn more often than who leaves."""


def memory_machine(backend: Backend) -> type[RuleBasedStateMachine]:
    """Return the machine of an implementation's parts, for ``run_state_machine_as_test``."""

    class MemoryMachine(RuleBasedStateMachine):
        """Requests join, decode and leave by every way; after each rule, everything has one owner and its text."""

        play: MemoryState | None = None

        @initialize(history=one_memory())
        def build(self, history: MemoryHistory) -> None:
            self.play = MemoryState(backend, history)

        @rule(scene=st.sampled_from(SCENES), counts=COUNTS)
        def let(self, scene: tuple[str, ...], counts: tuple[int, ...]) -> None:
            for what, numbers in zip(scene, (counts, counts[::-1]), strict=False):
                happen(require_present("a memory", self.play), Event(what, (), numbers))

        @invariant()
        def everything_has_one_owner(self) -> None:
            if self.play is not None:
                check_memory(self.play, "after a rule")

        def teardown(self) -> None:
            if self.play is not None:
                empty(self.play)

    return MemoryMachine
