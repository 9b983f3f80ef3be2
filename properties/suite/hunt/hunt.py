"""Show mutants to properties, the known killers first, and say which property killed at which example."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from specsim.conformance.backend import Backend, load
from specsim.conformance.given import WITH_OUTPUTS
from specsim.conformance.limits import NO_LIMITS, Limits
from specsim.properties.mutants.record import Mutant
from specsim.properties.property import Property
from specsim.properties.strategies.limits import drawing_within, leaves_out
from specsim.properties.suite.catalogue import GENERATED
from specsim.properties.suite.hunt.cases import Cases, find_breaking

SLOW_EXAMPLES = 8
"""Cases of a property that runs a whole engine."""

Killers = Mapping[str, Sequence[str]]
"""Names of the properties that are known to kill each mutant, the surest first."""


@dataclass(frozen=True)
class Kill:
    """A property that a mutant breaks, and the number of the example that showed it, from 1."""

    property: str
    example: int


BySeed = tuple[tuple[Kill, ...], ...]
"""The kills of one mutant, a tuple a seed."""


@dataclass(frozen=True)
class Options:
    """How a hunt goes.

    Parameters
    ----------
    max_examples : int
        Cases of each property; of one that runs a whole engine at most ``SLOW_EXAMPLES``.
    is_complete : bool
        Whether a mutant meets every property, those that run a whole engine only while it lives. Otherwise it meets
        properties until one kills it.
    known : Killers
        Whom a mutant meets first.
    victims : dict
        A mutant that each property is known to kill.
    limits : Limits
        What every mutant declares.
    """

    max_examples: int
    is_complete: bool
    known: Killers = field(default_factory=dict)
    victims: Mapping[str, str] = field(default_factory=dict)
    limits: Limits = NO_LIMITS


class Hunt:
    """Some mutants, the properties that may find them, and the cases of the seed that is being run."""

    def __init__(self, mutants: Sequence[Mutant], properties: Sequence[Property], options: Options) -> None:
        self.mutants = {mutant.id: mutant for mutant in mutants}
        touched = {mutant.operation for mutant in mutants}
        # NOTE: the reference returns its outputs, so no one can hand it any.
        there = (one for one in properties if WITH_OUTPUTS.keys().isdisjoint(one.operations))
        suite = [one for one in there if touched & set(one.operations)]
        self.properties = {one.name: one for one in sorted(suite, key=lambda one: one.is_slow)}
        self.options = options
        self._reference = replace(load("specsim.reference"), limits=options.limits)
        self._seed: int | None = None
        self._cases: dict[str, Cases] = {}

    def kills_of(self, mutant: str, seed: int) -> tuple[Kill, ...]:
        """Return the kills of a mutant with the cases of one seed; one at most unless the hunt is complete."""
        kills: list[Kill] = []
        for one in self._in_turn(mutant):
            if kills and (one.is_slow or not self.options.is_complete):
                break
            kill = self.show(mutant, one.name, seed)
            if kill is not None:
                kills.append(kill)
        return tuple(kills)

    def first_victim(self, name: str, seeds: Sequence[int]) -> tuple[str, int, Kill] | None:
        """Return the first mutant that a property kills, with the seed and the kill; those known as victims first."""
        operations = self.properties[name].operations
        concerned = [mutant.id for mutant in self.mutants.values() if mutant.operation in operations]
        victim = self.options.victims.get(name)
        concerned.sort(key=lambda mutant: (mutant != victim, name not in self.options.known.get(mutant, ())))
        for seed in seeds:
            for mutant in concerned:
                kill = self.show(mutant, name, seed)
                if kill is not None:
                    return mutant, seed, kill
        return None

    def show(self, mutant: str, name: str, seed: int) -> Kill | None:
        """Show a mutant to a property, in the order in which the cases of the seed were drawn."""
        if seed != self._seed:
            self._seed, self._cases = seed, {}
        one = self.properties[name]
        if name not in self._cases:
            most = min(self.options.max_examples, SLOW_EXAMPLES) if one.is_slow else self.options.max_examples
            count = max(1, most // one.weight)
            self._cases[name] = Cases(one, seed, count, self._reference)
        if leaves_out(one.name, self.options.limits):
            return None
        with drawing_within(self.options.limits, one.operations):
            cases = self._cases[name]
            place = find_breaking(one, self.faulty(mutant), cases)
            if place is None:
                return None
            cases.require_sound(place)
        return Kill(name, place + 1)

    def faulty(self, mutant: str) -> Backend:
        """Return the reference with the fault of a mutant."""
        return self.mutants[mutant].plant(self._reference)

    def _in_turn(self, mutant: str) -> list[Property]:
        """Return the properties that concern a mutant: killers, then quick ones, then those that run an engine."""
        operation = self.mutants[mutant].operation
        concerned = {one.name: one for one in self.properties.values() if operation in one.operations}
        known = [concerned.pop(name) for name in self.options.known.get(mutant, ()) if name in concerned]
        in_turn = [*known, *concerned.values()]
        return sorted(in_turn, key=lambda one: one.is_slow) if self.options.is_complete else in_turn


def first_example(kills: Iterable[Kill]) -> int | None:
    """Return the example at which a mutant died first; None if it lives."""
    return min((kill.example for kill in kills), default=None)


def is_law(name: str) -> bool:
    """Return whether a property is a law, and not generated from the table to compare with the reference."""
    return name.partition(".")[0] not in GENERATED
