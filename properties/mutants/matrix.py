"""The kill matrix: which mutant is found by which property, and which property finds none."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis.errors import UnsatisfiedAssumption

from specsim.conformance.backend import Backend, load
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
    is_complete: bool = True,
    on_progress: Callable[[str, int, int], None] | None = None,
) -> Matrix:
    """Run every property against every mutant of an operation that it calls.

    The cases of a property are drawn once, as they are needed, and shown to every mutant until one of them breaks it,
    those that broke it before first. A property that runs a whole engine is shown to a mutant only while one of the two
    has no kill yet.

    Parameters
    ----------
    seed, max_examples : int
        Of the draws.
    mutants, properties : sequence or None
        What to run; None for all.
    is_complete : bool
        Show a mutant to every property. Otherwise a property that has a kill is spared the mutants that a property of
        its kind, generated or law, has killed: enough to find survivors and powerless properties.
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
    generated = {one.name for one in suite if group_of(one) in GENERATED}
    cases: dict[str, Cases] = {}
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
            killers = kills[mutant.id]
            if one.is_slow or not is_complete:
                alike = [name for name in killers if one.is_slow or (name in generated) == (one.name in generated)]
                if alike and one.name not in powerless:
                    continue
            if one.name not in cases:
                count = min(max_examples, SLOW_EXAMPLES) if one.is_slow else max_examples
                cases[one.name] = Cases(one, seed, count, reference)
            case = find_breaking(one, faulty, cases[one.name])
            if case is not None:
                cases[one.name].move_to_front(case)
                kills[mutant.id].append(one.name)
                powerless.discard(one.name)
    if on_progress is not None:
        on_progress("", len(chosen), len(chosen))
    return Matrix(
        kills={mutant: tuple(names) for mutant, names in kills.items()},
        killed_by_laws={
            mutant: tuple(name for name in names if name not in generated) for mutant, names in kills.items()
        },
        powerless=tuple(one.name for one in suite if one.name in powerless),
    )


class Cases:
    """The cases of one property, drawn when they are first asked for, and tried on the reference at once."""

    def __init__(self, one: Property, number: int, max_examples: int, reference: Backend) -> None:
        self._property = one
        self._reference = reference
        self._drawn: list[Any] = []
        self._more = iterate_cases(one, number, max_examples)

    def __iter__(self) -> Iterator[Any]:
        yield from self._drawn
        for case in self._more:
            require_sound(self._property, self._reference, [case])
            self._drawn.append(case)
            yield case

    def move_to_front(self, place: int) -> None:
        """Let the next mutant see a case before the others."""
        self._drawn.insert(0, self._drawn.pop(place))


def iterate_cases(one: Property, number: int, max_examples: int) -> Iterator[Any]:
    """Draw the cases of a property; laws do not change them, so that they can be shown to many implementations.

    Hypothesis starts with the simplest case and then varies what it drew before. Many short runs, each of the simplest
    case and a fresh one, give more different cases than one long run.
    """
    first = _draw_two(one, number)[:max_examples]
    yield from first
    if len(first) == 2:
        for run in range(2, max_examples):
            yield from _draw_two(one, number * max_examples + run)[1:]


def draw_cases(one: Property, number: int, max_examples: int) -> list[Any]:
    """Return all of them in a list."""
    return list(iterate_cases(one, number, max_examples))


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


def find_breaking(one: Property, backend: Backend, cases: Iterable[Any]) -> int | None:
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
