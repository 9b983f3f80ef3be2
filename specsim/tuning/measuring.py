"""Measure what iterations of a model cost on the device at hand, and how far the sum of the parts is from the whole."""

from collections.abc import Callable
from typing import Any

import msgspec

from specsim.config import SpecConfig
from specsim.tuning.costs import CostFile, IterationTimes, Shape, parse_costs

OnProgress = Callable[[str, int, int], None]


def measured_costs(model: Any, probes: Any = None, on_progress: OnProgress | None = None) -> CostFile:
    """Return the costs of a model that fits the protocol, with the largest error of a few whole iterations.

    Parameters
    ----------
    model : Model
        Target and draft, on torch tensors.
    probes : Probes, optional
        Sizes, of ``specsim.gpu.bench.costs``.
    """
    from specsim.gpu.bench import costs as bench

    probes = bench.Probes() if probes is None else probes
    costs = parse_costs(msgspec.json.encode(bench.measure_costs(model, probes, on_progress)))
    times = costs.iteration_times
    if times is None:
        raise AssertionError("iteration_times = None, but should be a table, because it was measured")
    length, most = min(probes.lengths), max(probes.requests)
    whole = (probes.rests[0], probes.rests[-1])
    errors = [error_of(times, model, one, most, length, probes.repeats) for one in whole]
    return msgspec.structs.replace(costs, error=min(max(errors), 0.99))


def error_of(
    times: IterationTimes, model: Any, config: SpecConfig, num_requests: int, length: int, repeats: int
) -> float:
    """Return how far the predicted time of an iteration is from the measured one, as a share of it."""
    from specsim.gpu.bench.costs import iteration_seconds

    measured = iteration_seconds(model, config, num_requests, length, repeats)
    return abs(times.iteration(Shape.of(config), num_requests, length) / measured - 1)
