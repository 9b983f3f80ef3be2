"""Cases of a strategy, drawn once for all the tests that look for one of them."""

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, Generic, TypeVar

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis.strategies import SearchStrategy

from specsim.properties import strategies

T = TypeVar("T")

ROUND = 20


class Pool(Generic[T]):
    """So many cases of a strategy at most, drawn in rounds when those before do not suffice."""

    def __init__(self, strategy: SearchStrategy[T], most: int, in_rounds_of: int = ROUND) -> None:
        self._strategy = strategy
        self._most = most
        self._round = in_rounds_of
        self._asked_for = 0
        self._drawn: list[T] = []

    def __iter__(self) -> Iterator[T]:
        place = 0
        while True:
            while place < len(self._drawn):
                yield self._drawn[place]
                place += 1
            if self._asked_for >= self._most:
                return
            self._drawn += drawn(self._strategy, self._round, number=self._asked_for)
            self._asked_for += self._round

    def first(self, predicate: Callable[[T], Any]) -> T:
        """Return the first case of which a predicate holds."""
        for case in self:
            if predicate(case):
                return case
        raise AssertionError(f"no such case among {self._most}")


def drawn(strategy: SearchStrategy[T], max_examples: int, number: int = 0) -> list[T]:
    """Draw so many cases."""
    cases: list[T] = []

    @seed(number)
    @settings(
        max_examples=max_examples,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
        phases=(Phase.generate,),
    )
    @given(strategy)
    def collect(case: T) -> None:
        cases.append(case)

    collect()
    return cases


@cache
def calls_of(operation: str) -> Pool[strategies.Arguments]:
    """Return the pool of calls of an operation."""
    return Pool(strategies.for_operation(operation), 3000)
