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

    def compare(self, when: str) -> None:
        """Raise AssertionError unless the part has what stands beside it."""

    def end(self) -> None:
        """Bring what was begun to its end."""


def play_beside(beside: Beside, events: Sequence[Event]) -> None:
    """Let everything happen, and compare before, after each event and at the end."""
    beside.compare("at the start")
    for event in events:
        beside.happen(event)
        beside.compare(f"after {event}")
    beside.end()
    beside.compare("at the end")


def require_all(seen: Iterable[tuple[str, Any, Any]], when: str) -> None:
    """Raise AssertionError unless everything that can be seen of a part, by name, is what it should be."""
    for what, got, expected in seen:
        require_same(f"{what} {when}", got, expected)


def require_refused(beside: Beside, reason: Reason, call: Callable[[], Any]) -> None:
    """Make a call that has to be refused, and find everything as it was."""
    refuses(reason, call)
    beside.compare(f"after a call that is refused for {reason.name}")
