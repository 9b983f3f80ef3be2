"""A rule-based machine over an engine's memory alone: no model runs, tags say what the slots hold."""

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from specsim.conformance.backend import Backend
from specsim.properties.memory.checks import check_memory
from specsim.properties.memory.play import empty, happen
from specsim.properties.memory.player import MemoryState
from specsim.properties.memory.strategy import Event, MemoryHistory, one_memory

COUNTS = st.tuples(st.integers(0, 6), st.integers(0, 6), st.integers(0, 6))


def memory_machine(backend: Backend) -> type[RuleBasedStateMachine]:
    """Return the machine of an implementation's parts, for ``run_state_machine_as_test``."""

    class MemoryMachine(RuleBasedStateMachine):
        """Requests join, decode and leave by every way; after each rule, everything has one owner and its text."""

        play: MemoryState | None = None

        @initialize(history=one_memory())
        def build(self, history: MemoryHistory) -> None:
            self.play = MemoryState(backend, history)

        @rule(counts=COUNTS)
        def join(self, counts: tuple[int, ...]) -> None:
            self.let("join", counts)

        @rule(counts=COUNTS)
        def join_in_chunks(self, counts: tuple[int, ...]) -> None:
            self.let("admit", counts)
            self.let("chunk", counts)

        @rule(counts=COUNTS)
        def step(self, counts: tuple[int, ...]) -> None:
            self.let("step", counts)

        @rule(counts=COUNTS)
        def step_again(self, counts: tuple[int, ...]) -> None:
            self.let("step", counts)
            self.let("step", counts[::-1])

        @rule(what=st.sampled_from(["finish", "abort", "retract"]), counts=COUNTS)
        def leave(self, what: str, counts: tuple[int, ...]) -> None:
            self.let(what, counts)

        @rule(counts=COUNTS)
        def evict(self, counts: tuple[int, ...]) -> None:
            self.let("evict", counts)

        @rule(counts=COUNTS)
        def late_results(self, counts: tuple[int, ...]) -> None:
            self.let("late", counts)

        @rule(counts=COUNTS)
        def resize(self, counts: tuple[int, ...]) -> None:
            self.let("resize", counts)

        @invariant()
        def everything_has_one_owner(self) -> None:
            if self.play is not None:
                check_memory(self.play, "after a rule")

        def let(self, what: str, counts: tuple[int, ...]) -> None:
            if self.play is not None:
                happen(self.play, Event(what, (), counts))

        def teardown(self) -> None:
            if self.play is not None:
                empty(self.play)

    return MemoryMachine
