"""Runs of the reference that are kept: many implementations are compared with the same one."""

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from specsim.phases import Phase
from specsim.properties.runs.play import Play
from specsim.properties.runs.scenario import Scenario
from specsim.simulation.engine import Engine
from specsim.simulation.requests import Request
from specsim.simulation.worker import Iteration

MOST_BYTES = 1 << 25
"""Arrays that kept runs have together, about; all runs of one tour have less."""

POOLS = ("target_kv", "draft_kv")
"""What is compared of a worker's state, entry by entry of the committed slots."""

Entries = Mapping[str, tuple[NDArray[np.generic], ...]]
Action = tuple[str, int]
T = TypeVar("T")


@dataclass(frozen=True)
class Left:
    """What a turn left of an engine, as far as it is compared; no array can be written.

    ``slots`` are the committed ones of all that run, ``entries`` what the pools have there, component by component.
    Phases are those of the iteration, none without one.
    """

    has_work: bool
    iteration: Iteration | None
    phases: tuple[Phase, ...]
    slots: tuple[int, ...]
    entries: Entries

    @property
    def num_bytes(self) -> int:
        """Bytes of all arrays."""
        owners = (vars(one) for one in (self.iteration, *self.phases) if one is not None)
        values = (value for owner in owners for value in owner.values())
        entries = (entry for pool in self.entries.values() for entry in pool)
        return sum(one.nbytes for one in (*values, *entries) if isinstance(one, np.ndarray))


def left_by(engine: Engine, iteration: Iteration | None) -> Left:
    """Return what a turn left of an engine that has just taken it."""
    slots = committed_slots(engine)
    return Left(
        has_work=engine.has_work,
        iteration=None if iteration is None else _unchanging(iteration),
        phases=() if iteration is None else tuple(map(_unchanging, engine.worker.phases())),
        slots=tuple(slots),
        entries=entries_of(engine, slots),
    )


def committed_slots(engine: Engine) -> list[int]:
    """Return the slots of all that is committed of the requests that run."""
    return [slot for request in engine.scheduler.running for slot in request.slots[: request.num_committed]]


def entries_of(engine: Engine, slots: list[int]) -> Entries:
    """Return copies of what the pools of an engine have in some slots."""
    state = engine.worker.state()
    return {pool: tuple(_unwritable(component[slots]) for component in state[pool]) for pool in POOLS}


@dataclass
class _Kept:
    """What was done with an engine, and what each of it left."""

    turns: list[tuple[Action, Left]]
    num_bytes: int = 0


# NOTE: an OrderedDict would hash a key, which is all of a run, whenever its value is only looked at.
_KEPT: dict[Hashable, _Kept] = {}


class BelievedEngine:
    """An engine of the reference, which runs only from where it is used otherwise than the engine before it was.

    What it leaves is kept for the next engine of the same run. One with which something else is done than with those
    before takes all turns again by itself, and is not kept.

    Parameters
    ----------
    run : Hashable
        All that requests and engine are made of.
    scenario : Scenario
        How to make an engine.
    """

    def __init__(self, run: Hashable, scenario: Scenario) -> None:
        self._scenario = scenario
        self._kept = _KEPT[run] = _KEPT.pop(run, _Kept([]))
        self._is_kept = True
        self._done: list[Callable[[Engine], Iteration | None]] = []
        self._engine: Engine | None = None
        self.left = Left(False, None, (), (), {})

    @property
    def has_work(self) -> bool:
        """Whether a request has not ended."""
        return self.left.has_work

    def submit(self, request: Request) -> None:
        """Queue a request."""
        self._do(("submit", request.request_id), lambda engine: engine.submit(request))

    def abort(self, number: int) -> None:
        """Ask a request to end."""
        self._do(("abort", number), lambda engine: engine.abort(number))

    def retract(self, number: int) -> None:
        """Take its memory from a request, if it runs."""
        self._do(("retract", number), lambda engine: retract(engine, number))

    def step(self) -> Iteration | None:
        """Take a turn."""
        self._do(("step", 0), lambda engine: engine.step())
        return self.left.iteration

    def _do(self, action: Action, effect: Callable[[Engine], Iteration | None]) -> None:
        place = len(self._done)
        self._done.append(effect)
        turns = self._kept.turns
        if self._is_kept and place < len(turns):
            self._is_kept = turns[place][0] == action
            if self._is_kept:
                self.left = turns[place][1]
                return
        if self._engine is None:
            self._engine = Play(self._scenario).engine
            for earlier in self._done[:-1]:
                earlier(self._engine)
        self.left = left_by(self._engine, effect(self._engine))
        if self._is_kept and place == len(turns):
            self._keep(action)

    def _keep(self, action: Action) -> None:
        """Keep what was left last, and forget the runs that have not been asked for the longest."""
        self._kept.turns.append((action, self.left))
        self._kept.num_bytes += self.left.num_bytes
        while len(_KEPT) > 1 and sum(kept.num_bytes for kept in _KEPT.values()) > MOST_BYTES:
            del _KEPT[next(iter(_KEPT))]


def retract(engine: Engine, number: int) -> None:
    """Take its memory from a request of an engine, if it runs."""
    for request in [one for one in engine.scheduler.running if one.request_id == number]:
        engine.scheduler.retract(request)


def _unchanging(value: T) -> T:
    """Return a record with copies of its arrays, which cannot be written."""
    record: Any = value
    arrays = {one.name: vars(record)[one.name] for one in fields(record)}
    copies = {name: _unwritable(one.copy()) for name, one in arrays.items() if isinstance(one, np.ndarray)}
    unchanging: T = replace(record, **copies)
    return unchanging


def _unwritable(array: NDArray[np.generic]) -> NDArray[np.generic]:
    array.flags.writeable = False
    return array
