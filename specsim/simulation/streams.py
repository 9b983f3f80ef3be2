"""Queued work of a worker, run in an order that a seed draws among the legal ones."""

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from specsim.assertion import require
from specsim.conformance.host_protocol import HostFunctions
from specsim.host.streams import StreamEvent


@dataclass
class Ticket:
    """Queued work, and what it returned once it ran."""

    event: StreamEvent
    run: Callable[[], Any]
    waits_for: list["Ticket"]
    is_done: bool = False
    value: Any = None


class Streams:
    """The queues of a device.

    Parameters
    ----------
    operations : HostFunctions
        Say who waits for whom.
    seed : int or None
        Draws what runs while the host goes on; None runs everything when it is queued, as a host that waits sees it.
        With every second seed nothing runs before the host waits for it, so that all that may come late does.
    """

    def __init__(self, operations: HostFunctions, seed: int | None = None) -> None:
        self._operations = operations
        self._random = None if seed is None else random.Random(seed)
        self._is_busy = seed is not None and seed % 2 == 1
        self._queued: list[Ticket] = []

    @property
    def num_queued(self) -> int:
        """How much has not run."""
        return len(self._queued)

    def enqueue(self, event: StreamEvent, run: Callable[[], Any]) -> Ticket:
        """Queue a piece of work; some of what is queued may run at once."""
        places = self._operations.stream_edges(event, [ticket.event for ticket in self._queued])
        ticket = Ticket(event, run, [self._queued[place] for place in places])
        self._queued.append(ticket)
        if self._random is None:
            self.wait(ticket)
        else:
            for _ in range(0 if self._is_busy else self._random.randrange(len(self._queued) + 1)):
                self._run_one()
        return ticket

    def wait(self, ticket: Ticket) -> Any:
        """Let work run until a piece of it is done; return what that returned."""
        while not ticket.is_done:
            self._run_one()
        return ticket.value

    def _run_one(self) -> None:
        """Run one piece of work that waits for nothing, if anything is queued."""
        ready = [ticket for ticket in self._queued if all(one.is_done for one in ticket.waits_for)]
        if not self._queued:
            return
        require(bool(ready), "queued work that can run", 0, "at least one, as nothing waits for what comes later")
        ticket = ready[0] if self._random is None else self._random.choice(ready)
        self._queued.remove(ticket)
        ticket.value = ticket.run()
        ticket.is_done = True
        ticket.waits_for = []
