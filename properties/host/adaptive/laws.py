"""Laws of the adaptive controller: what it remembers, when it decides, and where its decisions lead."""

import math

from specsim.conformance.backend import Backend
from specsim.host.adaptive import AdaptiveState
from specsim.properties.host.adaptive.strategy import AdaptiveCase, Route, adaptive_cases, several_routes
from specsim.properties.laws.checks import for_each, require, state


def average_has_its_closed_form(backend: Backend, case: AdaptiveCase) -> None:
    """The average is the old one and every mean since, weighted by their age."""
    states = _play(backend, case)
    means = [sum(counts) / len(counts) for counts in case.history if counts]
    kept = 1.0 - case.config.alpha
    ages = range(len(means) - 1, -1, -1)
    weighted = sum(case.config.alpha * kept**age * mean for age, mean in zip(ages, means, strict=True))
    expected = kept ** len(means) * case.state.ema + weighted
    got = states[-1].ema
    require(math.isclose(got, expected, rel_tol=1e-9, abs_tol=1e-12), "ema", got, expected)
    count = case.state.count + len(means)
    require(states[-1].count == count, "count", states[-1].count, count)


def batches_without_requests_change_nothing(backend: Backend, case: AdaptiveCase) -> None:
    """A verify of no request leaves the state as it is."""
    after = backend.host("adapt_num_steps")(case.state, (), case.slot, case.config)
    require(after == case.state, "the state after no request", after, case.state)


def steps_stay_among_the_candidates(backend: Backend, case: AdaptiveCase) -> None:
    """The number of steps is a candidate of the range after every verify."""
    for after in _play(backend, case):
        require(after.num_steps in case.slot.candidates, "num_steps", after.num_steps, case.slot.candidates)


def decisions_wait_for_warmup_and_interval(backend: Backend, case: AdaptiveCase) -> None:
    """Between decisions the number of steps stays."""
    before = case.state
    for after in _play(backend, case):
        if not _is_decision(after, case):
            require(after.num_steps == before.num_steps, f"num_steps at {after.count}", after, before.num_steps)
        before = after


def decisions_lie_between_the_thresholds(backend: Backend, case: AdaptiveCase) -> None:
    """A decision goes as far down as it must, then as far up as it may, then below the ceiling unless it rose."""
    before = case.state
    for counts, after in zip(case.history, _play(backend, case), strict=True):
        if counts and _is_decision(after, case):
            expected = _decided(before.num_steps, after.ema, case)
            require(after.num_steps == expected, f"num_steps at ema {after.ema}", after.num_steps, expected)
        before = after


def padded_batches_choose_the_range(backend: Backend, route: Route) -> None:
    """The range is the last one that starts at or below the padded batch, or the first."""
    got = backend.host("route_batch_size")(route.batch_size, route.graph_sizes, route.slot_sizes)
    padded = next((size for size in route.graph_sizes if size >= route.batch_size), route.batch_size)
    reached = [size for size in route.slot_sizes if size <= padded]
    expected = reached[-1] if reached else route.slot_sizes[0]
    require(got == expected, f"the range of {route}", got, expected)


def _play(backend: Backend, case: AdaptiveCase) -> list[AdaptiveState]:
    """Return the state after each verify of the history."""
    adapt, states = backend.host("adapt_num_steps"), [case.state]
    for counts in case.history:
        states.append(adapt(states[-1], counts, case.slot, case.config))
    return states[1:]


def _is_decision(after: AdaptiveState, case: AdaptiveCase) -> bool:
    """Return whether the verify that led to a state is one of a decision, if it had requests."""
    beyond = after.count - case.config.warmup
    return beyond >= 1 and beyond % case.config.interval == 0


def _decided(num_steps: int, ema: float, case: AdaptiveCase) -> int:
    """Return where a decision ends, by thresholds instead of steps: those of an ascending list ascend."""
    candidates, down, up = case.slot.candidates, case.slot.down, case.slot.up
    start, top = candidates.index(num_steps), len(candidates) - 1
    lowest = min((place for place in range(start) if ema <= candidates[place] - 0.5 + down), default=start)
    place = min((place for place in range(lowest, top) if ema <= candidates[place] - 0.5 + up), default=top)
    if case.config.ceiling > 0 and candidates[place] <= num_steps:
        cap = max(1, math.ceil(ema * case.config.ceiling))
        place = max((lower for lower in range(place + 1) if candidates[lower] <= cap), default=0)
    return candidates[place]


_ADAPT = ("adapt_num_steps",)

PROPERTIES = (
    state("adaptive", for_each(average_has_its_closed_form), adaptive_cases, _ADAPT),
    state("adaptive", for_each(batches_without_requests_change_nothing), adaptive_cases, _ADAPT, "P32"),
    state("adaptive", for_each(steps_stay_among_the_candidates), adaptive_cases, _ADAPT),
    state("adaptive", for_each(decisions_wait_for_warmup_and_interval), adaptive_cases, _ADAPT),
    state("adaptive", for_each(decisions_lie_between_the_thresholds), adaptive_cases, _ADAPT),
    state("adaptive", for_each(padded_batches_choose_the_range), several_routes, ("route_batch_size",)),
)
