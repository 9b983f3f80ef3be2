"""Which of several threads goes on: priorities that change at few points, which meet any race of small depth."""

import random
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeVar
from zlib import crc32

from specsim.rejection import Reason, check_range

Thread = TypeVar("Thread", bound=Hashable)

DEPTH = 3
"""Pairs of events that have to run in a certain order for a race of this depth to show."""

NUM_EVENTS = 24
"""Events of one schedule: three launches of an engine, with what they queue and their results, are about as many."""


@dataclass(frozen=True)
class Coverage:
    """How many schedules ran, and of which size.

    Parameters
    ----------
    depth, num_events : int
        A schedule changes ``depth - 1`` priorities within so many events.
    num_schedules : int
        Schedules that ran to their last event.
    num_threads : int
        The most that one schedule had.
    """

    depth: int = DEPTH
    num_events: int = NUM_EVENTS
    num_schedules: int = 0
    num_threads: int = 0

    def __add__(self, other: "Coverage") -> "Coverage":
        """Return the coverage of both together."""
        num_threads = max(self.num_threads, other.num_threads)
        return Coverage(self.depth, self.num_events, self.num_schedules + other.num_schedules, num_threads)

    def as_plain(self) -> dict[str, int | float | str]:
        """Return everything as plain values."""
        return {
            "depth": self.depth,
            "events": self.num_events,
            "threads": self.num_threads,
            "schedules": self.num_schedules,
            "bound": str(self.bound),
            "chance": round(self.chance, 4),
        }

    def __str__(self) -> str:
        if not self.num_schedules:
            return f"depth {self.depth}: no schedule of {self.num_events} events"
        each = f"{self.num_events} events and at most {self.num_threads} threads"
        return (
            f"depth {self.depth}: {self.num_schedules:,} schedules of {each}; one meets a race of this depth with a"
            f" chance of at least {self.bound.numerator}/{self.bound.denominator:,}, all together of {self.chance:.1%}"
        )

    @property
    def bound(self) -> Fraction:
        """The least chance with which a schedule meets a race of this depth among its events."""
        return Fraction(1, max(self.num_threads, 1) * self.num_events ** (self.depth - 1))

    @property
    def chance(self) -> float:
        """The least chance with which one of the schedules has met a race that each of them could have met."""
        return 1 - (1 - float(self.bound)) ** self.num_schedules


class Priorities:
    """Lets the thread of the highest priority go on, and lowers that of the running one at ``depth - 1`` events.

    After ``num_events`` events another schedule begins, with other priorities and other points. A race
    that shows where ``depth`` pairs of events of one schedule run in a certain order is met with a chance of at least
    ``1 / (n * k ** (depth - 1))``, with ``n`` threads and ``k`` events.

    Parameters
    ----------
    seed : int
        Draws priorities and points.

    Raises
    ------
    SpecRejection
        COUNT_OUT_OF_RANGE: a depth or a schedule without an event.

    Notes
    -----
    Source: Burckhardt, Kothari, Musuvathi and Nagarakatte, A Randomized Scheduler with Probabilistic Guarantees of
    Finding Bugs, 2010.
    """

    def __init__(self, seed: int, depth: int = DEPTH, num_events: int = NUM_EVENTS) -> None:
        check_range(Reason.COUNT_OUT_OF_RANGE, "depth", depth, "a race is an order of events", 1)
        check_range(Reason.COUNT_OUT_OF_RANGE, "num_events", num_events, "a schedule has events", 1)
        self._depth, self._num_events = depth, num_events
        self._random = random.Random(seed)
        self._num_schedules = 0
        self._num_threads = 0
        self.trail = 0
        self._begin()

    @property
    def coverage(self) -> Coverage:
        """How much ran."""
        return Coverage(self._depth, self._num_events, self._num_schedules, self._num_threads)

    def pick(self, threads: Sequence[Thread]) -> Thread:
        """Return which of the threads that can go on does, and count its event."""
        for thread in threads:
            if thread not in self._levels:
                self._levels[thread] = self._random.random()
        self._num_threads = max(self._num_threads, len(self._levels))
        chosen = max(threads, key=self._levels.__getitem__)
        self.trail = crc32(str(chosen).encode(), self.trail)
        if self._place in self._points:
            self._levels[chosen] = self._points[self._place]
        self._place += 1
        if self._place == self._num_events:
            self._num_schedules += 1
            self._begin()
        return chosen

    def _begin(self) -> None:
        """Draw the points of a schedule; threads get their priorities when they are first seen in it."""
        self._place = 0
        self._levels: dict[Hashable, float] = {}
        # NOTE: what a point sets lies below all that is drawn, and below what a point drawn later sets.
        self._points = {
            self._random.randrange(self._num_events): place - self._depth for place in range(1, self._depth)
        }
