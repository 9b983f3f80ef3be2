"""The cases of a property, drawn once and shown to many implementations."""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from hypothesis import Phase, given, seed
from hypothesis import strategies as st

from specsim.conformance.backend import Backend
from specsim.conformance.outside import OutsideLimits
from specsim.conformance.raised import Undefined
from specsim.properties.mutants.edits import DoesNotFitError
from specsim.properties.property import Property
from specsim.properties.quietly import quietly


class Cases:
    """The cases of one property, drawn when they are first asked for, and tried on the reference when one kills."""

    def __init__(self, one: Property, number: int, max_examples: int, reference: Backend) -> None:
        self._property = one
        self._reference = reference
        self._drawn: list[Any] = []
        self._sound: set[int] = set()
        self._more = iterate_cases(one, number, max_examples)

    def __iter__(self) -> Iterator[Any]:
        yield from self._drawn
        for case in self._more:
            self._drawn.append(case)
            yield case

    def require_sound(self, place: int) -> None:
        """Raise AssertionError if the reference itself breaks the property on one of the cases."""
        if place not in self._sound:
            require_sound(self._property, self._reference, [self._drawn[place]])
            self._sound.add(place)


def iterate_cases(one: Property, number: int, max_examples: int) -> Iterator[Any]:
    """Draw the cases of a property; laws do not change them, so that they can be shown to many implementations.

    Properties draw independently of each other, so that a mutant which one of them misses by chance meets other luck
    with the next. Hypothesis starts with the simplest case and then varies what it drew before. Many short runs, each
    of the simplest case and a fresh one, give more different cases than one long run.
    """
    draw_two = _drawing_two(one)
    first = draw_two(_seed_of(one, number, 0))[:max_examples]
    yield from first
    if len(first) == 2:
        for run in range(2, max_examples):
            yield from draw_two(_seed_of(one, number, run))[1:]


def draw_cases(one: Property, number: int, max_examples: int) -> list[Any]:
    """Return all of them in a list."""
    return list(iterate_cases(one, number, max_examples))


def _seed_of(one: Property, number: int, run: int) -> int:
    digest = hashlib.sha256(f"{one.name} {number} {run}".encode()).digest()
    return int.from_bytes(digest[:8], "big")


def _drawing_two(one: Property) -> Callable[[int], list[Any]]:
    """Return a function of a seed that draws the simplest case and a fresh one.

    Hypothesis looks a strategy over before it draws from it; what it found out is kept with the strategy. The second
    case differs from the first in the first choice, whatever that is: so one is made that has no meaning.
    """
    drawn: list[Any] = []

    @quietly(max_examples=2, phases=(Phase.explicit, Phase.generate))
    @given(st.integers(0, 2**64 - 1), one.strategy())
    def collect(_: int, case: Any) -> None:
        drawn.append(case)

    def draw_two(number: int) -> list[Any]:
        drawn.clear()
        try:
            seed(number)(collect)()
        except AssertionError as error:
            # NOTE: Hypothesis fails by an assertion of its own where it is interrupted before it draws.
            if isinstance(error.__context__, KeyboardInterrupt):
                raise error.__context__ from None
            raise
        return drawn.copy()

    return draw_two


def find_breaking(one: Property, backend: Backend, cases: Iterable[Any]) -> int | None:
    """Return the first case on which an implementation breaks a property, or None; any exception counts.

    Raises
    ------
    DoesNotFitError
        The fault could not be planted, so that there is nothing to break it.
    """
    for place, case in enumerate(cases):
        try:
            one.law(backend, case)
        except OutsideLimits:
            continue
        except Undefined:
            return None
        except DoesNotFitError:
            raise
        except Exception:  # NOTE: a mutant may crash in any way, and a crash is found too.
            return place
    return None


def require_sound(one: Property, reference: Backend, cases: Sequence[Any]) -> None:
    """Raise AssertionError if the reference itself breaks a property."""
    for case in cases:
        try:
            one.law(reference, case)
        except OutsideLimits:
            continue
        except Exception as error:
            raise AssertionError(f"{one.name} fails on the reference, but should hold: {error}") from error
