"""Queued work of a worker, run in an order that a seed draws among the legal ones."""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from specsim.assertion import require
from specsim.conformance.host_protocol import HostFunctions
from specsim.host.streams import StreamEvent
from specsim.simulation.turns.priorities import Priorities

LAUNCHES, RESOLVES = "launches", "resolves"
"""The threads of the host: what it queues, and what it does with results."""


@dataclass
class Ticket:
    """Queued work, and what it returned once it ran; ``thread`` is a number that work in one order shares."""

    event: StreamEvent
    run: Callable[[], Any]
    waits_for: list["Ticket"]
    is_done: bool = False
    value: Any = None
    thread: int = 0


class Streams:
    """The queues of a device.

    Parameters
    ----------
    operations : HostFunctions
        Say who waits for whom.
    seed : int or None
        Draws what runs while the host goes on; None runs everything when it is queued, as a host that waits sees it.
        With every second seed nothing runs before the host waits for it, so that all that may come late does.
    depth : int or None
        Lets priorities that the seed draws decide instead, which change ``depth - 1`` times a schedule: of the host,
        of what it does with results, and of each thread of queued work.
    """

    def __init__(self, operations: HostFunctions, seed: int | None = None, depth: int | None = None) -> None:
        self._operations = operations
        self._random = None if seed is None else random.Random(seed)
        self._is_busy = seed is not None and seed % 2 == 1
        self._queued: list[Ticket] = []
        self._last_of_thread: list[Ticket] = []
        self.priorities = None if seed is None or depth is None else Priorities(seed, depth)

    @property
    def num_queued(self) -> int:
        """How much has not run."""
        return len(self._queued)

    def enqueue(self, event: StreamEvent, run: Callable[[], Any]) -> Ticket:
        """Queue a piece of work; some of what is queued may run at once."""
        places = self._operations.stream_edges(event, [ticket.event for ticket in self._queued])
        ticket = Ticket(event, run, [self._queued[place] for place in places])
        self._queued.append(ticket)
        if self.priorities is not None:
            self._join_thread(ticket)
            self._run_until(self.priorities, lambda: (LAUNCHES,))
        elif self._random is None:
            self.wait(ticket)
        else:
            for _ in range(0 if self._is_busy else self._random.randrange(len(self._queued) + 1)):
                self._run(self._random.choice(self._ready()))
        return ticket

    def wait(self, ticket: Ticket) -> Any:
        """Let work run until a piece of it is done; return what that returned."""
        if self.priorities is not None:
            self._run_until(self.priorities, lambda: (RESOLVES,) if ticket.is_done else ())
        while not ticket.is_done:
            ready = self._ready()
            self._run(ready[0] if self._random is None else self._random.choice(ready))
        return ticket.value

    def resolves_first(self, ticket: Ticket) -> bool:
        """Return whether the host reads the result of a piece of work before it queues more; only priorities do."""
        if self.priorities is None:
            return False
        threads = (LAUNCHES, RESOLVES)
        return self._run_until(self.priorities, lambda: threads if ticket.is_done else threads[:1]) == RESOLVES

    def _run_until(self, priorities: Priorities, others: Callable[[], Sequence[str]]) -> str:
        """Run what is queued until a thread of the host goes on, and return which one does."""
        while True:
            of_host = others()
            ready = {ticket.thread: ticket for ticket in self._ready(is_required=not of_host)}
            threads: tuple[str | int, ...] = (*of_host, *ready)
            chosen = priorities.pick(threads)
            if isinstance(chosen, str):
                return chosen
            self._run(ready[chosen])

    def _ready(self, is_required: bool = True) -> list[Ticket]:
        """Return the queued work that waits for nothing."""
        ready = [ticket for ticket in self._queued if all(one.is_done for one in ticket.waits_for)]
        expected = "at least one, as nothing waits for what comes later"
        require(bool(ready) or not is_required, "queued work that can run", 0, expected)
        return ready

    def _run(self, ticket: Ticket) -> None:
        self._queued.remove(ticket)
        ticket.value = ticket.run()
        ticket.is_done = True
        ticket.waits_for = []

    def _join_thread(self, ticket: Ticket) -> None:
        """Give a piece of work the thread whose last piece it has to wait for, or has run; else one of its own."""
        lasts = self._last_of_thread
        follows = (last.is_done or any(one is last for one in ticket.waits_for) for last in lasts)
        ticket.thread = next((thread for thread, is_next in enumerate(follows) if is_next), len(lasts))
        lasts[ticket.thread : ticket.thread + 1] = [ticket]
