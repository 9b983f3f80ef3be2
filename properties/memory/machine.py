"""A rule-based machine over what stands beside a part of an engine's memory: its events in any order, as rules."""

from collections.abc import Callable, Sequence
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from specsim.assertion import require_present
from specsim.properties.memory.beside import Beside
from specsim.properties.memory.strategy import BATCHES, Event

COUNTS = st.tuples(st.integers(0, 6), st.integers(0, 6), st.integers(0, 6))


def machine_beside(
    histories: st.SearchStrategy[Any], make: Callable[[Any], Beside], scenes: Sequence[Sequence[str]]
) -> type[RuleBasedStateMachine]:
    """Return a machine, for ``run_state_machine_as_test``.

    Parameters
    ----------
    histories : strategy
        What a run begins with; events of its own are not played.
    make : callable
        Returns what stands beside a part, from what was drawn.
    scenes : sequence of sequences of str
        The kinds of events that happen by one rule.
    """

    class Machine(RuleBasedStateMachine):
        """Whatever happens, a part has what stands beside it."""

        beside: Beside | None = None
        has_failed = False

        @initialize(history=histories)
        def build(self, history: Any) -> None:
            self.beside = make(history)

        @rule(scene=st.sampled_from(scenes), requests=st.sampled_from(BATCHES), counts=COUNTS)
        def let(self, scene: Sequence[str], requests: tuple[int, ...], counts: tuple[int, ...]) -> None:
            # NOTE: a part that failed cannot be brought to an end, and what that raised would be reported instead.
            self.has_failed = True
            for what, numbers in zip(scene, (counts, counts[::-1]), strict=False):
                require_present("a memory", self.beside).happen(Event(what, requests, numbers))
            self.has_failed = False

        @invariant()
        def nothing_differs(self) -> None:
            if self.beside is not None:
                self.beside.compare("after a rule")

        def teardown(self) -> None:
            if self.beside is not None and not self.has_failed:
                self.beside.end()
                self.beside.compare("at the end")

    return Machine
