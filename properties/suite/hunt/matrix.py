"""The kill matrix: which mutant is found by which property over some seeds, and which property finds none."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

from specsim.conformance.limits import NO_LIMITS, Limits
from specsim.properties.mutants import all_mutants
from specsim.properties.mutants.record import Mutant
from specsim.properties.property import Property
from specsim.properties.suite.catalogue import all_properties
from specsim.properties.suite.hunt.hunt import BySeed, Hunt, Kill, Options, first_example, is_law
from specsim.properties.suite.hunt.kills import Kills
from specsim.properties.suite.hunt.processes import sharing

TASKS_PER_JOB = 8
"""Pieces that the work of one process is cut into, so that none of them waits long for the last."""


@dataclass(frozen=True)
class Matrix:
    """Kills by mutant and seed, and what they say about the suite.

    Parameters
    ----------
    seeds : tuple of int
        The seeds that were run.
    by_seed : dict
        The kills of each mutant, one tuple a seed.
    powerless : tuple of str
        Properties that were run and that break no mutant with any of the seeds.
    inconclusive_because : tuple of str
        Why the run decides too little, if it does.
    """

    seeds: tuple[int, ...]
    by_seed: dict[str, BySeed]
    powerless: tuple[str, ...]
    inconclusive_because: tuple[str, ...] = ()
    is_interrupted: bool = False

    @cached_property
    def kills(self) -> dict[str, tuple[str, ...]]:
        """Names of the properties that each mutant breaks with some seed."""
        return {
            mutant: tuple(dict.fromkeys(kill.property for kills in rows for kill in kills))
            for mutant, rows in self.by_seed.items()
        }

    @property
    def killed_by_laws(self) -> dict[str, tuple[str, ...]]:
        """The same without the properties that the table generates, which compare with the reference."""
        return {mutant: tuple(name for name in names if is_law(name)) for mutant, names in self.kills.items()}

    @property
    def survived(self) -> tuple[tuple[str, int], ...]:
        """Each mutant and seed for which no property finds the mutant."""
        return tuple(
            (mutant, seed)
            for mutant, rows in self.by_seed.items()
            for seed, kills in zip(self.seeds, rows, strict=True)
            if not kills
        )

    @property
    def survivors(self) -> tuple[str, ...]:
        """Mutants that live through a seed."""
        return tuple(dict.fromkeys(mutant for mutant, _ in self.survived))

    def first_examples(self, mutant: str) -> tuple[int | None, ...]:
        """Return, for each seed, the example at which a mutant died first; None where it lives."""
        return tuple(first_example(kills) for kills in self.by_seed[mutant])


def kill_matrix(
    *,
    seeds: Sequence[int],
    max_examples: int,
    mutants: Sequence[Mutant] | None = None,
    properties: Sequence[Property] | None = None,
    is_complete: bool = False,
    judges_properties: bool = True,
    known: Kills | None = None,
    limits: Limits = NO_LIMITS,
    jobs: int = 1,
    on_progress: Callable[[str, int, int], None] | None = None,
) -> Matrix:
    """Show every mutant, once a seed, to the properties of its operation.

    The cases of a property are drawn once a seed, as they are needed, and shown to every mutant in the order in which
    they were drawn. A case on which a mutant breaks a property is tried on the reference, too. A property that has no
    kill then, over all seeds, is shown to one mutant after the other.

    Parameters
    ----------
    seeds, max_examples
        Of the draws.
    mutants, properties : sequence or None
        What to run; None for all.
    is_complete : bool
        Show a mutant to every property, those that run a whole engine only while it lives. Otherwise it first meets the
        properties that are known to kill it, then the others, until one does.
    judges_properties : bool
        Whether to look for a kill of each property; not useful with a few mutants of many.
    known : Kills or None
        Which properties are known to kill which mutant; None where nothing is known.
    limits : Limits
        What the reference and every mutant declare.
    jobs : int
        Processes; with more than one, mutants and properties are those of the catalogues.
    on_progress : callable or None
        Called with the id of a mutant or the name of a property, how many are done, and how many there are.

    Raises
    ------
    AssertionError
        A property fails on the reference itself, on a case on which it fails on a mutant.
    """
    chosen = all_mutants() if mutants is None else mutants
    suite = all_properties() if properties is None else properties
    known = known or Kills()
    hunt = Hunt(chosen, suite, Options(max_examples, is_complete, known.killers, known.victims, limits))
    tell = on_progress or (lambda name, done, total: None)
    found: dict[tuple[str, int], list[Kill]] = {}
    total = len(hunt.mutants) * len(seeds)
    powerless = set[str]()
    is_interrupted = False
    try:
        with sharing(hunt, jobs) as run:
            tell("", 0, total)
            for (seed, ids), rows in run(kills_of_some, _pieces(hunt, seeds, jobs)):
                found.update({(mutant, seed): list(kills) for mutant, kills in zip(ids, rows, strict=True)})
                tell(ids[-1], len(found), total)
            hit = {kill.property for kills in found.values() for kill in kills}
            idle = [(name, seeds) for name in hunt.properties if name not in hit and judges_properties]
            for done, ((name, _), victim) in enumerate(run(victim_of, idle), 1):
                tell(name, total + done, total + len(idle))
                if victim is None:
                    powerless.add(name)
                else:
                    mutant, seed, kill = victim
                    found[mutant, seed].append(kill)
    except KeyboardInterrupt:
        is_interrupted = True
    return Matrix(
        seeds=tuple(seeds),
        by_seed={
            mutant: tuple(tuple(found[mutant, seed]) for seed in seeds)
            for mutant in hunt.mutants
            if all((mutant, seed) in found for seed in seeds)
        },
        powerless=tuple(name for name in hunt.properties if name in powerless),
        is_interrupted=is_interrupted,
    )


def kills_of_some(hunt: Hunt, seed: int, ids: Sequence[str]) -> list[tuple[Kill, ...]]:
    """Return the kills of some mutants with one seed."""
    return [hunt.kills_of(mutant, seed) for mutant in ids]


def victim_of(hunt: Hunt, name: str, seeds: Sequence[int]) -> tuple[str, int, Kill] | None:
    """Return the first mutant that a property kills with one of the seeds."""
    return hunt.first_victim(name, seeds)


def _pieces(hunt: Hunt, seeds: Sequence[int], jobs: int) -> list[tuple[int, list[str]]]:
    """Cut the mutants of each seed into pieces: one by one in a single process, which says what it is doing."""
    ids = list(hunt.mutants)
    wanted = len(ids) if jobs == 1 else -(-TASKS_PER_JOB * jobs // len(seeds))
    size = max(1, -(-len(ids) // wanted))
    return [(seed, ids[start : start + size]) for seed in seeds for start in range(0, len(ids), size)]
