"""Which unit is run next: arms share the time, and those whose units find something new get more of it."""

from collections import deque
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
class _Part:
    """The time that an arm or a kind has had, by its part of it, which its last finds decide."""

    had: float = 0.0
    finds: deque[bool] = field(default_factory=lambda: deque(maxlen=REMEMBERED))

    @property
    def share(self) -> float:
        """How large its part of the time is."""
        return 1 + BONUS * sum(self.finds) / REMEMBERED


@dataclass
class _Standing:
    """Where an arm stands: the place of its next unit, and the seconds of those that ended."""

    arm: Arm
    part: _Part = field(default_factory=_Part)
    place: int = 0
    seconds: float = 0.0
    num_ended: int = 0

    @property
    def guess(self) -> float:
        """Seconds that its next unit will take."""
        return self.seconds / self.num_ended if self.num_ended else FIRST_GUESS


class Chooser:
    """Chooses units by the time that their arms have had; the same outcomes in the same order make the same choices.

    The kinds have equal parts of the time, and so have the arms of a kind: so much for what is known of none. A kind
    or an arm whose last units met tags that no unit of its kind had met, or failures that are new, gets up to eight
    times its part. The kind that has had least of its part is next, and of it the arm that has had least. So each arm
    of a kind gets its first unit before any gets its second.

    Parameters
    ----------
    arms : sequence of Arm
        In whose order ties are broken.
    """

    def __init__(self, arms: Sequence[Arm]) -> None:
        self._of = {_key(arm.kind, arm.name, arm.mode): _Standing(arm) for arm in arms}
        self._kinds: dict[Kind, _Part] = {arm.kind: _Part() for arm in arms}
        self._open = {kind: [one for one in self._of.values() if one.arm.kind is kind] for kind in self._kinds}
        self._begun: dict[str, list[tuple[_Part, float, float]]] = {}
        self._met: set[tuple[Kind, str, str]] = set()
        self._done: set[str] = set()
        self.num_finds = 0

    @property
    def num_units(self) -> int | None:
        """How many units there are; None where there is no end of them."""
        numbers = [one.arm.num_units() for one in self._of.values()]
        return None if None in numbers else sum(number for number in numbers if number is not None)

    def next(self) -> Unit | None:
        """Return the unit that is run next, of those that were not given out; None where none is left."""
        while self._open:
            kind = min(self._open, key=lambda one: self._kinds[one].had)
            standing = min(self._open[kind], key=lambda one: one.part.had)
            unit = standing.arm.unit(standing.place)
            standing.place += 1
            if unit is None:
                self._open[kind].remove(standing)
                if not self._open[kind]:
                    del self._open[kind]
            elif unit.id not in self._done:
                parts = standing.part, self._kinds[kind]
                self._begun[unit.id] = [(part, standing.guess, part.share) for part in parts]
                for part in parts:
                    part.had += standing.guess / part.share
                return unit
        return None

    def take(self, unit: Unit, outcome: Outcome) -> None:
        """Learn what a unit came to; of one from an earlier session, too, which is not given out any more."""
        standing = self._of.get(_key(unit.kind, unit.name, unit.mode))
        if standing is None:
            return
        parts = standing.part, self._kinds[unit.kind]
        # NOTE: what was guessed when the unit began is made good by what it took.
        for part, guess, share in self._begun.pop(unit.id, [(part, 0.0, part.share) for part in parts]):
            part.had += (outcome.seconds - guess) / share
        self._done.add(unit.id)
        standing.seconds, standing.num_ended = standing.seconds + outcome.seconds, standing.num_ended + 1
        fresh = set(_met_by(unit, outcome)) - self._met
        self._met |= fresh
        self.num_finds += len(fresh)
        for part in parts:
            part.finds.append(bool(fresh))


def _met_by(unit: Unit, outcome: Outcome) -> Iterator[tuple[Kind, str, str]]:
    """Yield what a unit met: tags of a property are its own, those of whole runs are the same for all of a kind."""
    of = unit.name if unit.kind in (Kind.PROPERTY, Kind.MUTANT) else ""
    yield from ((unit.kind, of, tag) for tag, count in outcome.reach.items() if count)
    yield from ((unit.kind, of, f"failure: {failure.sort}") for failure in outcome.failures)


def _key(kind: Kind, name: str, mode: str) -> tuple[Kind, str, str]:
    return kind, name, mode
