"""Two engines on the same requests, each under a scheduler of its own: what has to agree whatever the schedules are.

Rows, slots, batches and the turn in which something happens are a scheduler's own. What a request outputs, how it ends,
what is reported to its user and what it counts are not, nor is what is free when all have ended.
"""

from dataclasses import dataclass

from specsim.simulation.comparing.history import Divergence
from specsim.simulation.comparing.reported_pairs import Pair, reported_lists
from specsim.simulation.engine import Engine
from specsim.simulation.memory import Memory
from specsim.simulation.models.description import ModelDescription
from specsim.simulation.requests import Request
from specsim.simulation.scheduler_protocol import SchedulerProtocol

MOST_IDLE_TURNS = 4
"""Turns in a row in which nothing happens to any request of an engine; each of ours does something."""

MOST_TIMES_AS_LONG, MOST_TURNS_MORE = 10, 100
"""How much longer a scheduler may take than ours: so many times as many turns, and so many more."""


@dataclass
class _Pair(Pair):
    was_aborted: bool = False

    @property
    def is_undisturbed(self) -> bool:
        return not (self.was_aborted or self.expected.num_retractions or self.got.num_retractions)


class RequestPairs:
    """Requests of an engine that is believed and of one that is tried.

    Parameters
    ----------
    description : ModelDescription
        The model of both, by which reports to users are rounded.
    is_independent : bool
        Whether the drafts of a request depend on nothing but its text: no steps that adapt to a batch, no sizes that
        change, no store that other texts fill. Then an undisturbed request counts the same, and a sampled one, whose
        coins depend on where its verifies begin, outputs the same.
    """

    def __init__(self, description: ModelDescription, is_independent: bool = True) -> None:
        self._lists = {"output": lambda one, other: bool(one == other), **reported_lists(description)}
        self._is_independent = is_independent
        self._pairs: dict[int, _Pair] = {}

    def add(self, expected: Request, got: Request) -> None:
        """Watch a request from its submission on."""
        self._pairs[expected.request_id] = _Pair(expected, got)

    def abort(self, request_id: int) -> None:
        """Note that a request was asked to end: either engine ends it where it is, or had ended it before."""
        if request_id in self._pairs:
            self._pairs[request_id].was_aborted = True

    def first_divergence(self, turn: int) -> Divergence | None:
        """Return the first difference in what either engine has of a request; forget requests that ended on both."""
        for number, pair in list(self._pairs.items()):
            divergence = self._difference(turn, pair)
            if divergence is not None:
                return divergence
            if pair.is_over:
                del self._pairs[number]
        return None

    def first_unfinished(self, turn: int) -> Divergence | None:
        """Return the first request that only one of the engines has ended, where neither has work."""
        for number, pair in self._pairs.items():
            ends = pair.expected.finish, pair.got.finish
            if not pair.is_over and ends != (None, None):
                return Divergence(turn, "Request", "finish", (number,), *ends)
        return None

    def _difference(self, turn: int, pair: _Pair) -> Divergence | None:
        is_repeatable = pair.is_undisturbed and self._is_independent
        if not (pair.expected.is_greedy or is_repeatable):
            return None
        is_whole = pair.is_over and not pair.was_aborted
        divergence = pair.difference(turn, self._lists, is_whole)
        if divergence is not None or not is_whole:
            return divergence
        for name in ("finish", *["counters"] * (is_repeatable and pair.expected.is_greedy)):
            one, other = vars(pair.expected)[name], vars(pair.got)[name]
            if one != other:
                return Divergence(turn, "Request", name, (pair.expected.request_id,), one, other)
        return None


class IdleTurns:
    """How many turns in a row an engine has requests, and nothing happens to any."""

    def __init__(self) -> None:
        self._seen: object = None
        self._num_idle = 0

    def note(self, engine: Engine) -> Divergence | None:
        """Count turns in which an engine makes no progress, and return a divergence if there are too many."""
        seen = _progress_of(engine)
        self._num_idle = self._num_idle + 1 if seen == self._seen and engine.has_work else 0
        self._seen = seen
        if self._num_idle <= MOST_IDLE_TURNS:
            return None
        waiting = [request.request_id for request in engine.scheduler.waiting]
        shown = f"{self._num_idle} while {waiting} wait"
        return Divergence(
            engine.num_iterations, "Engine", "turns without progress", (), f"at most {MOST_IDLE_TURNS}", shown
        )


def too_late(turn: int, num_turns: int) -> Divergence | None:
    """Return a divergence where an engine still has work long after the believed one, which took so many turns."""
    most = MOST_TIMES_AS_LONG * num_turns + MOST_TURNS_MORE
    return Divergence(turn, "Engine", "turns", (), f"at most {most}", turn) if turn > most else None


def difference_at_rest(turn: int, expected: SchedulerProtocol, got: SchedulerProtocol) -> Divergence | None:
    """Return the first difference in what is free, or cached and no one's, of two engines without requests."""
    one, other = free_at_rest(expected.memory), free_at_rest(got.memory)
    for name, number in one.items():
        if other[name] != number:
            return Divergence(turn, "Memory", name, (), number, other[name])
    return None


def free_at_rest(memory: Memory) -> dict[str, int]:
    """Return how many slots and rows are free where no request has any; what the prefix cache keeps counts as free."""
    cached, swa = [] if memory.cache is None else sorted(memory.cache.slots), memory.swa
    full = memory.allocator if swa is None else swa.full
    free = {"free slots": full.num_free + len(cached), "free rows": memory.rows.num_free}
    if swa is not None:
        free["free SWA slots"] = swa.swa.num_free + len(cached) - swa.swa_slots(cached).count(0)
    return free


def _progress_of(engine: Engine) -> object:
    scheduler = engine.scheduler
    live = [
        (one.request_id, one.row, one.num_committed, one.num_fill, one.num_retractions)
        for one in (*scheduler.holders, *scheduler.waiting)
    ]
    return live, engine.num_iterations, engine.num_in_flight, len(scheduler.finished)
