"""A campaign from its first unit to its last: units go out, what they come to is written, and what is lost goes again.

It knows of no cluster: an ``Executor`` runs units, wherever that is.
"""

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from specsim.campaigns.causes import Causes
from specsim.campaigns.ledger import Ledger, Row
from specsim.campaigns.novelty import Chooser
from specsim.campaigns.units import Ended, Kind, LostNode, Outcome, Unit

AHEAD = 2
"""Units that wait for a place, so that a node which is done need not wait for the next."""

MOST_RUNS = 4
"""How often a unit is begun: one whose nodes are lost so often is not run any more."""

LOOK = 0.5
"""Seconds between two looks at the clock."""

DRAIN = 60.0
"""Seconds that units which have begun get when the time of a campaign is over."""

MOST_IDLE = 120.0
"""Seconds without a place for any unit, after which a campaign ends: nodes may come back until then."""


class Executor(Protocol):
    """Runs units side by side."""

    def num_places(self) -> int:
        """Return how many units can run at once; 0 where no node is left."""

    def submit(self, unit: Unit, known: frozenset[str]) -> None:
        """Begin a unit, or let it wait for a place; ``known`` failures are not made smaller again."""

    def ended(self, seconds: float) -> list[tuple[Unit, Ended | LostNode]]:
        """Wait at most so long for units to end, and return what became of those that did."""


@dataclass
class Tally:
    """What units came to together."""

    units: int = 0
    examples: int = 0
    failures: int = 0
    seconds: float = 0.0
    busy_seconds: float = 0.0

    def add(self, outcome: Outcome) -> None:
        """Count a unit."""
        self.units += 1
        self.examples += outcome.examples
        self.failures += bool(outcome.failures)
        self.seconds += outcome.seconds
        self.busy_seconds += outcome.busy_seconds


@dataclass
class Campaign:
    """What a campaign came to, earlier sessions included.

    Parameters
    ----------
    causes : Causes
        The failures.
    total, by_node, by_arm : Tally, dict, dict
        All units, those of each node, and those of each property and of each other kind.
    undecided : dict of str to str
        Arms none of whose units decided anything, and why.
    num_lost, lost : int, dict of str to str
        Runs of units that were lost with their nodes; units that were lost with every node, and why.
    num_units : int or None
        How many there are; None where there is no end of them.
    """

    causes: Causes
    total: Tally = field(default_factory=Tally)
    by_node: dict[str, Tally] = field(default_factory=dict)
    by_arm: dict[str, Tally] = field(default_factory=dict)
    undecided: dict[str, str] = field(default_factory=dict)
    num_lost: int = 0
    lost: dict[str, str] = field(default_factory=dict)
    num_units: int | None = None
    num_resumed: int = 0
    num_finds: int = 0
    clock: float = 0.0
    stopped: str = ""
    is_interrupted: bool = False
    _decided: set[str] = field(default_factory=set)

    def add(self, row: Row) -> None:
        """Count a unit that ended."""
        name = arm_name(row.unit)
        self.total.add(row.outcome)
        self.by_node.setdefault(row.node, Tally()).add(row.outcome)
        self.by_arm.setdefault(name, Tally()).add(row.outcome)
        self.num_lost += row.runs - 1
        if not row.outcome.undecided:
            self._decided.add(name)
            self.undecided.pop(name, None)
        elif name not in self._decided:
            self.undecided.setdefault(name, row.outcome.undecided)
        for broken in row.outcome.failures:
            self.causes.add(row.unit, broken)

    @property
    def because(self) -> list[str]:
        """Why a campaign without a failure decides too little, a reason each."""
        lost = [f"{name} was not run: {why}" for name, why in self.lost.items()]
        return [
            *([self.stopped] if self.stopped else []),
            *lost,
            *(f"{name}: {why}" for name, why in self.undecided.items()),
        ]


def arm_name(unit: Unit) -> str:
    """Return what a unit is counted under: its property, or what kind of whole run it is."""
    return unit.name if unit.kind is Kind.PROPERTY else f"{unit.kind.value}s"


OnRow = Callable[["Campaign", float], None]
"""Called with what there is so far, and the seconds of this session, after each look."""


def drive(
    chooser: Chooser, executor: Executor, ledger: Ledger, causes: Causes, hours: float | None, on_look: OnRow
) -> Campaign:
    """Run a campaign until its units or its hours are over; also if that is interrupted.

    Parameters
    ----------
    chooser : Chooser
        Says which unit is next.
    ledger : Ledger
        Its rows are not run again.
    causes : Causes
        Written whenever a unit fails.
    hours : float or None
        Those of all sessions together; None for no end.
    """
    campaign = Campaign(causes, num_units=chooser.num_units, num_resumed=len(ledger.rows))
    for row in ledger.rows.values():
        chooser.take(row.unit, row.outcome)
        campaign.add(row)
    try:
        _Session(chooser, executor, ledger, campaign, on_look).run(None if hours is None else hours * 3600)
    except KeyboardInterrupt:
        campaign.is_interrupted = True
    campaign.num_finds = chooser.num_finds
    if causes:
        causes.write()
    return campaign


class _Session:
    """One run of the driver: which units are out, and how often each was begun."""

    def __init__(
        self, chooser: Chooser, executor: Executor, ledger: Ledger, campaign: Campaign, on_look: OnRow
    ) -> None:
        self._chooser, self._executor, self._ledger = chooser, executor, ledger
        self._campaign, self._on_look = campaign, on_look
        self._out: set[str] = set()
        self._runs: Counter[str] = Counter()
        self._started, self._before = time.monotonic(), ledger.clock
        self._had_place = self._started

    @property
    def _clock(self) -> float:
        return self._before + time.monotonic() - self._started

    def run(self, seconds: float | None) -> None:
        """Run units until none is left, or the seconds are over, and what has begun has ended."""
        is_open = True
        while True:
            is_open = is_open and (seconds is None or self._clock < seconds)
            places = self._executor.num_places()
            while is_open and places and len(self._out) < places + AHEAD:
                unit = self._chooser.next()
                if unit is None:
                    is_open = False
                else:
                    self._begin(unit)
            if not self._out and not (is_open and not places):
                break
            for unit, ended in self._executor.ended(LOOK):
                self._take(unit, ended)
            self._campaign.clock = self._clock
            self._on_look(self._campaign, time.monotonic() - self._started)
            if seconds is not None and self._clock > seconds + DRAIN:
                break
            if self._is_idle(places):
                self._campaign.stopped = f"no node of the cluster has had a place for {MOST_IDLE:.0f} seconds"
                break

    def _is_idle(self, places: int) -> bool:
        now = time.monotonic()
        self._had_place = now if places else self._had_place
        return now - self._had_place > MOST_IDLE

    def _begin(self, unit: Unit) -> None:
        self._out.add(unit.id)
        self._runs[unit.id] += 1
        self._executor.submit(unit, self._campaign.causes.known)

    def _take(self, unit: Unit, ended: Ended | LostNode) -> None:
        if unit.id not in self._out:
            return
        if isinstance(ended, LostNode):
            if self._runs[unit.id] < MOST_RUNS:
                self._begin(unit)
                return
            self._campaign.lost[f"{arm_name(unit)} {unit.id}"] = f"lost {MOST_RUNS} times, last: {ended.why}"
            self._out.discard(unit.id)
            return
        self._out.discard(unit.id)
        # NOTE: the case goes first: a row whose case is not there would be a failure that no one can run again.
        self._ledger.keep_case(ended.files)
        row = Row(unit.id, unit, ended.node, self._clock, self._runs[unit.id], ended.outcome)
        if self._ledger.add(row):
            self._chooser.take(unit, ended.outcome)
            self._campaign.add(row)
            if ended.outcome.failures:
                self._campaign.causes.write()
