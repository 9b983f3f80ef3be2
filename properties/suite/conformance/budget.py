"""The time of a whole run: examples are spread over rounds, so that every property gets its turn."""

from collections.abc import Callable
from dataclasses import replace

from specsim.conformance.isolation.jobs import Job
from specsim.properties.property import Property

SHARES = (0.15, 0.35, 0.5)
"""Parts of the examples of a property in the rounds of a run that has a budget."""

FAIR = 4.0
"""How many times its part of the time that is left a unit may take."""

SPENT = "the budget is spent"
SHORTEST = 1.0
AT_THE_END = 2.0
"""Seconds that are kept for what is cut to end, and for the report."""


def rounds_of(one: Property, examples: int, is_spread: bool) -> tuple[int, ...]:
    """Return how many examples a property gets in each round, 0 in none; those that have to reach something get one."""
    if not is_spread or one.must_reach is not None or examples <= one.least_examples:
        return (examples,)
    rounds: list[int] = []
    for share in SHARES:
        left = examples - sum(rounds)
        rounds.append(min(left, max(one.least_examples, round(examples * share))))
    rounds[-1] += examples - sum(rounds)
    return tuple(number for number in rounds if number)


class Budget:
    """Says of each job how long it may take, or that the time of the run is over.

    Parameters
    ----------
    clock : callable
        Returns the seconds that counted for the run.
    """

    def __init__(
        self, seconds: float | None, spent: float, num_workers: int, num_jobs: int, clock: Callable[[], float]
    ) -> None:
        self._clock = clock
        self._until = None if seconds is None else clock() + seconds - spent
        self._num_workers = num_workers
        self._left = num_jobs

    @property
    def until(self) -> float | None:
        """When everything has to be through, on the clock of the run."""
        return None if self._until is None else self._until - AT_THE_END

    def dispatch(self, job: Job) -> Job | str:
        """Return a job with its turn, or say that there is no time left."""
        if self.until is None:
            return job
        left = self.until - self._clock()
        if left <= 0:
            return SPENT
        if job.is_apart:
            return job
        fair = FAIR * left * self._num_workers / max(self._left, 1)
        self._left -= 1
        return replace(job, limits=replace(job.limits, turn=max(fair, SHORTEST)))
