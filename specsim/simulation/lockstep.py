"""Run the same requests through two workers and stop at the first phase in which they differ."""

from collections.abc import Callable, Sequence

from specsim.phases import Phase
from specsim.simulation.engine import Engine
from specsim.simulation.history import Divergence, first_divergence
from specsim.simulation.requests import Request
from specsim.simulation.schedule import IN_TURN, Schedule
from specsim.simulation.worker import Worker

Phases = tuple[Phase, ...]


def find_divergence(
    expected: Worker,
    got: Worker,
    requests: Sequence[Request],
    *,
    max_batch: int,
    shuffle_seed: int | None = 0,
    on_step: Callable[[int, int], None] | None = None,
    compare: Callable[[int, Phases, Phases], Divergence | None] = first_divergence,
    schedule: Schedule = IN_TURN,
) -> Divergence | None:
    """Return the first difference between two workers, or None if every phase of every iteration agrees.

    Parameters
    ----------
    expected, got : Worker
        Workers of one configuration, model and pool sizes; ``expected`` is the one that is believed.
    requests : sequence of Request
        Fresh requests; they are copied.
    on_step : callable or None
        Called after every iteration with the requests that have finished and their total.
    compare : callable
        Takes the number of an iteration and what its phases handed over in both workers.
    schedule : Schedule
        How both are scheduled; not overlapped, so that a step ends with the iteration that it began.
    """
    engines = [Engine(worker, max_batch, shuffle_seed, schedule=schedule) for worker in (expected, got)]
    for request in requests:
        for engine in engines:
            engine.submit(request.fresh())
    left, right = engines
    while left.has_work:
        number = left.num_iterations
        ran = left.step() is not None
        if ran != (right.step() is not None):
            return Divergence(number, "Engine", "step", (), ran, not ran)
        if ran:
            divergence = compare(number, expected.phases(), got.phases())
            if divergence is not None:
                return divergence
        if on_step is not None:
            on_step(len(left.scheduler.finished), len(requests))
    return None
