"""A part of an engine's memory beside lists or a dictionary that follow its rules; every event compares the two."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

from specsim.properties.laws.checks import refuses, require_same
from specsim.properties.memory.strategy import Event
from specsim.rejection import Reason


class Beside(Protocol):
    """A part, what stands beside it, and what can happen to both."""

    def happen(self, event: Event) -> None:
        """Do what an event says to both, and compare what they return."""

    def seen(self) -> Iterable[tuple[str, Any, Any]]:
        """Yield what can be seen of the part, each with its name and what it should be."""

    def end(self) -> None:
        """Bring what was begun to its end."""


def play_beside(beside: Beside, events: Sequence[Event]) -> None:
    """Let everything happen, and compare before, after each event and at the end."""
    compare(beside, "at the start")
    for event in events:
        beside.happen(event)
        compare(beside, f"after {event}")
    beside.end()
    compare(beside, "at the end")


def compare(beside: Beside, when: str) -> None:
    """Raise AssertionError unless a part has what stands beside it."""
    for what, got, expected in beside.seen():
        require_same(f"{what} {when}", got, expected)


def require_refused(beside: Beside, reason: Reason, call: Callable[[], Any]) -> None:
    """Make a call that has to be refused, and find everything as it was."""
    refuses(reason, call)
    compare(beside, f"after a call that is refused for {reason.name}")
