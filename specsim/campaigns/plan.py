"""What a campaign runs: its arms, each a kind of unit with a name, and which unit an arm runs as its next."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import msgspec

from specsim.campaigns.units import Kind, Unit
from specsim.campaigns.workshop import Workshop
from specsim.properties.matrix.factors import all_cells
from specsim.properties.matrix.laws import law_cells
from specsim.properties.matrix.plan import PROFILES
from specsim.properties.matrix.run import MatrixRun
from specsim.properties.matrix.subjects import AS_IT_IS
from specsim.properties.mutants import all_mutants
from specsim.properties.property import Property
from specsim.properties.suite.catalogue import all_properties
from specsim.properties.suite.conformance.selection import Described as Promises
from specsim.properties.suite.conformance.selection import examples_of, is_runnable, is_selected
from specsim.properties.unit_of_work import BrokenUnit

SEEDS_OF_A_UNIT = 4
"""Seeds of a unit of a quick property, which takes milliseconds with one; one that runs whole engines gets one."""

MACHINES_OF_A_SEED = 16
PROFILE = "ci"
"""Which of the matrix's profiles chooses the cells."""


@dataclass(frozen=True)
class Described:
    """What an implementation is on a node, and which cells of the matrix, and laws of theirs, it is to run.

    ``broken`` says how it died when it was asked about cells, or is empty.
    """

    promises: Promises
    device: str
    cells: tuple[str, ...] = ()
    laws: tuple[str, ...] = ()
    broken: str = ""


def describe(workshop: Workshop, wants_cells: bool) -> Described:
    """Ask an implementation on this node what it is."""
    described = Described(workshop.prepared.described, workshop.prepared.device)
    if not wants_cells:
        return described
    terms = workshop.terms
    run = MatrixRun(workshop.supervisor, terms.implementation, (AS_IT_IS,), 0, terms.limits)
    plan = run.plan(PROFILES[PROFILE], all_cells(), is_whole=True)
    if isinstance(plan, BrokenUnit):
        return replace(described, broken=plan.error)
    laws = law_cells(plan.cells, plan.allowed)
    return replace(described, cells=tuple(cell.name for cell in plan.cells), laws=tuple(cell.name for cell in laws))


class Seeds(msgspec.Struct, frozen=True):
    """The seeds of a campaign: from ``first`` on, up to ``last``, which is among them; None for no end."""

    first: int
    last: int | None = None

    def among(self, start: int, number: int) -> tuple[int, ...]:
        """Return so many of them from a place on, as far as there are so many."""
        end = self.first + start + number
        return tuple(range(self.first + start, end if self.last is None else min(end, self.last + 1)))


@dataclass(frozen=True)
class Arm:
    """Units of a kind and a name, one after another, each with seeds that no other one has.

    Parameters
    ----------
    kind, name, mode : Kind, str, str
        Those of its units.
    seeds : Seeds
        Of the campaign.
    seeds_of_a_unit : int
        How many each unit gets.
    units_of_a_seed : int
        How many units share a seed, each with a number of its own.
    """

    kind: Kind
    name: str
    seeds: Seeds
    mode: str = ""
    seeds_of_a_unit: int = 1
    units_of_a_seed: int = 1

    def unit(self, place: int) -> Unit | None:
        """Return the unit of a place, from 0; None after the last."""
        if self.kind is Kind.LAW and place:
            return None
        turn, number = divmod(place, self.units_of_a_seed)
        seeds = self.seeds.among(turn * self.seeds_of_a_unit, self.seeds_of_a_unit)
        return Unit(self.kind, self.name, seeds, number, self.mode) if seeds else None

    def num_units(self) -> int | None:
        """Return how many units there are; None where seeds have no end."""
        if self.kind is Kind.LAW:
            return 1
        if self.seeds.last is None:
            return None
        num_seeds = self.seeds.last - self.seeds.first + 1
        return -(-num_seeds // self.seeds_of_a_unit) * self.units_of_a_seed


@dataclass(frozen=True)
class Wanted:
    """What a campaign is to run.

    Parameters
    ----------
    kinds : sequence of Kind
        Laws come with cells.
    seeds : Seeds
        Theirs.
    examples : int
        Of a property with a seed.
    names : sequence of str
        Only these properties, cells or mutants; all where there are none. Machines have no names.
    modes : sequence of str
        How workers run in cells.
    """

    kinds: Sequence[Kind]
    seeds: Seeds
    examples: int
    names: Sequence[str] = ()
    modes: Sequence[str] = (AS_IT_IS,)


def arms_of(wanted: Wanted, described: Described) -> list[Arm]:
    """Return the arms of a campaign, in the order of the suite, kind after kind."""
    names = set(wanted.names)
    arms = [arm for kind in wanted.kinds for arm in _arms(kind, wanted, described)]
    return [arm for arm in arms if not names or not arm.name or arm.name in names]


def _arms(kind: Kind, wanted: Wanted, described: Described) -> Iterator[Arm]:
    seeds = wanted.seeds
    if kind is Kind.PROPERTY:
        for one in all_properties():
            if _gets_examples(one, wanted.examples, described.promises):
                yield Arm(kind, one.name, seeds, seeds_of_a_unit=1 if one.is_slow else SEEDS_OF_A_UNIT)
    elif kind is Kind.MACHINE:
        yield Arm(kind, "", seeds, units_of_a_seed=MACHINES_OF_A_SEED)
    elif kind is Kind.MUTANT:
        yield from (Arm(kind, mutant.id, seeds) for mutant in all_mutants())
    else:
        chosen = described.cells if kind is Kind.CELL else described.laws
        yield from (Arm(kind, name, seeds, mode) for name in chosen for mode in wanted.modes)


def _gets_examples(one: Property, examples: int, promises: Promises) -> bool:
    return is_selected(one, promises) and is_runnable(one, promises) and examples_of(one, examples) > 0
