"""Which unit is run next: arms share the time, and those whose units find something new get more of it."""

from collections import Counter, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from specsim.campaigns.plan import Arm
from specsim.campaigns.units import Kind, Outcome, Unit

REMEMBERED = 4
"""Units of an arm whose finds decide its share."""

BONUS = 7.0
"""How many times its share an arm gets on top of it whose last units all found something new."""

FIRST_GUESS = 1.0
"""Seconds that a unit is taken to need where none of its arm has ended."""


@dataclass
class _Standing:
    """Where an arm stands: the place of its next unit, and the time that it has had, by its share."""

    arm: Arm
    base: float
    place: int = 0
    had: float = 0.0
    seconds: float = 0.0
    num_ended: int = 0
    finds: deque[bool] = field(default_factory=lambda: deque(maxlen=REMEMBERED))

    @property
    def share(self) -> float:
        """How large its part of the time is."""
        return self.base * (1 + BONUS * sum(self.finds) / REMEMBERED)

    @property
    def guess(self) -> float:
        """Seconds that its next unit will take."""
        return self.seconds / self.num_ended if self.num_ended else FIRST_GUESS


@dataclass(frozen=True)
class _Begun:
    standing: _Standing
    charged: float
    share: float


class Chooser:
    """Chooses units by the time that their arms have had; the same outcomes in the same order make the same choices.

    The kinds have equal shares, and so have the arms of a kind: so much for what is known of none. An arm whose last
    units met tags that no unit of its kind had met, or failures that are new, has up to eight times its share. The arm
    that has had least of its share is next. So each arm gets its first unit before any gets its second.

    Parameters
    ----------
    arms : sequence of Arm
        In whose order ties are broken.
    """

    def __init__(self, arms: Sequence[Arm]) -> None:
        sizes = Counter(arm.kind for arm in arms)
        self._standings = [_Standing(arm, 1 / sizes[arm.kind]) for arm in arms]
        self._open = list(self._standings)
        self._of = {_key(one.arm.kind, one.arm.name, one.arm.mode): one for one in self._standings}
        self._begun: dict[str, _Begun] = {}
        self._met: set[tuple[Kind, str, str]] = set()
        self._done: set[str] = set()
        self.num_finds = 0

    @property
    def num_units(self) -> int | None:
        """How many units there are; None where there is no end of them."""
        numbers = [one.arm.num_units() for one in self._standings]
        return None if None in numbers else sum(number for number in numbers if number is not None)

    def next(self) -> Unit | None:
        """Return the unit that is run next, of those that were not given out; None where none is left."""
        while self._open:
            standing = min(self._open, key=lambda one: one.had)
            unit = standing.arm.unit(standing.place)
            if unit is None:
                self._open.remove(standing)
                continue
            standing.place += 1
            if unit.id not in self._done:
                share = standing.share
                self._begun[unit.id] = _Begun(standing, standing.guess, share)
                standing.had += standing.guess / share
                return unit
        return None

    def take(self, unit: Unit, outcome: Outcome) -> None:
        """Learn what a unit came to; of one from an earlier session, too, which is not given out any more."""
        standing = self._of.get(_key(unit.kind, unit.name, unit.mode))
        if standing is None:
            return
        begun = self._begun.pop(unit.id, None) or _Begun(standing, 0.0, standing.share)
        self._done.add(unit.id)
        standing.had += (outcome.seconds - begun.charged) / begun.share
        standing.seconds, standing.num_ended = standing.seconds + outcome.seconds, standing.num_ended + 1
        fresh = set(_met_by(unit, outcome)) - self._met
        self._met |= fresh
        self.num_finds += len(fresh)
        standing.finds.append(bool(fresh))


def _met_by(unit: Unit, outcome: Outcome) -> Iterator[tuple[Kind, str, str]]:
    """Yield what a unit met: tags of a property are its own, those of whole runs are the same for all of a kind."""
    of = unit.name if unit.kind in (Kind.PROPERTY, Kind.MUTANT) else ""
    yield from ((unit.kind, of, tag) for tag, count in outcome.reach.items() if count)
    yield from ((unit.kind, of, f"failure: {failure.sort}") for failure in outcome.failures)


def _key(kind: Kind, name: str, mode: str) -> tuple[Kind, str, str]:
    return kind, name, mode
