"""The kill matrix: which mutant is found by which property, and which property finds none."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis.errors import UnsatisfiedAssumption

from specsim.backend import Backend, load
from specsim.properties.catalogue import GENERATED, all_properties, group_of
from specsim.properties.mutants import all_mutants
from specsim.properties.mutants.record import Mutant
from specsim.properties.property import Property

SLOW_EXAMPLES = 8
"""Cases of a property that runs a whole engine."""


@dataclass(frozen=True)
class Matrix:
    """Kills by mutant, and what they say about the suite.

    Parameters
    ----------
    kills : dict
        Names of the properties that each mutant breaks.
    killed_by_laws : dict
        The same without the properties that the table generates, which compare with the reference.
    powerless : tuple of str
        Properties that were run and that no mutant breaks.
    """

    kills: dict[str, tuple[str, ...]]
    killed_by_laws: dict[str, tuple[str, ...]]
    powerless: tuple[str, ...]

    @property
    def survivors(self) -> tuple[str, ...]:
        """Mutants that no property finds."""
        return tuple(mutant for mutant, names in self.kills.items() if not names)


def kill_matrix(
    *,
    seed: int,
    max_examples: int,
    mutants: Sequence[Mutant] | None = None,
    properties: Sequence[Property] | None = None,
    on_progress: Callable[[str, int, int], None] | None = None,
) -> Matrix:
    """Run every property against every mutant of an operation that it calls.

    The cases of a property are drawn once and shown to every mutant until one of them breaks it, those that broke it
    before first. A property that runs a whole engine is shown to a mutant only while one of the two has no kill yet.

    Parameters
    ----------
    seed, max_examples : int
        Of the draws.
    mutants, properties : sequence or None
        What to run; None for all.
    on_progress : callable or None
        Called with the id of a mutant, the number of mutants done, and their total.

    Raises
    ------
    AssertionError
        A property fails on the reference itself.
    """
    chosen = list(all_mutants() if mutants is None else mutants)
    suite = sorted(all_properties() if properties is None else properties, key=lambda one: one.is_slow)
    reference = load("specsim.reference")
    touched = {mutant.operation for mutant in chosen}
    suite = [one for one in suite if touched & set(one.operations)]
    cases: dict[str, list[Any]] = {}
    kills: dict[str, list[str]] = {mutant.id: [] for mutant in chosen}
    powerless = {one.name for one in suite}
    for done, mutant in enumerate(chosen):
        if on_progress is not None:
            on_progress(mutant.id, done, len(chosen))
        correct = reference.functions[mutant.operation]
        faulty = reference.with_function(mutant.operation, mutant.inject(correct), mutant.id)
        for one in suite:
            if mutant.operation not in one.operations:
                continue
            if one.is_slow and kills[mutant.id] and one.name not in powerless:
                continue
            if one.name not in cases:
                cases[one.name] = draw_cases(
                    one, seed, min(max_examples, SLOW_EXAMPLES) if one.is_slow else max_examples
                )
                require_sound(one, reference, cases[one.name])
            case = find_breaking(one, faulty, cases[one.name])
            if case is not None:
                cases[one.name].insert(0, cases[one.name].pop(case))
                kills[mutant.id].append(one.name)
                powerless.discard(one.name)
    if on_progress is not None:
        on_progress("", len(chosen), len(chosen))
    generated = {one.name for one in suite if group_of(one) in GENERATED}
    return Matrix(
        kills={mutant: tuple(names) for mutant, names in kills.items()},
        killed_by_laws={
            mutant: tuple(name for name in names if name not in generated) for mutant, names in kills.items()
        },
        powerless=tuple(one.name for one in suite if one.name in powerless),
    )


def draw_cases(one: Property, number: int, max_examples: int) -> list[Any]:
    """Draw the cases of a property; laws do not change them, so that they can be shown to many implementations.

    Hypothesis starts with the simplest case and then varies what it drew before. Many short runs, each of the simplest
    case and a fresh one, give more different cases than one long run.
    """
    cases = _draw_two(one, number)
    for run in range(2, max_examples):
        if len(cases) < 2:
            break
        cases += _draw_two(one, number * max_examples + run)[1:]
    return cases[:max_examples]


def _draw_two(one: Property, number: int) -> list[Any]:
    drawn: list[Any] = []

    @seed(number)
    @settings(
        max_examples=2,
        phases=(Phase.explicit, Phase.generate),
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(one.strategy())
    def collect(case: Any) -> None:
        drawn.append(case)

    collect()
    return drawn


def find_breaking(one: Property, backend: Backend, cases: Sequence[Any]) -> int | None:
    """Return the first case on which an implementation breaks a property, or None; any exception counts."""
    for place, case in enumerate(cases):
        try:
            one.law(backend, case)
        except UnsatisfiedAssumption:
            continue
        except NotImplementedError:
            return None
        except Exception:  # NOTE: a mutant may crash in any way, and a crash is found too.
            return place
    return None


def require_sound(one: Property, reference: Backend, cases: Sequence[Any]) -> None:
    """Raise AssertionError if the reference itself breaks a property."""
    for case in cases:
        try:
            one.law(reference, case)
        except UnsatisfiedAssumption:
            continue
        except Exception as error:
            raise AssertionError(f"{one.name} fails on the reference, but should hold: {error}") from error
