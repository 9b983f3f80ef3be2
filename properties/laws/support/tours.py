"""Runs that are large in one dimension and small in the others, played beside the reference, and what they come to."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice, product
from random import Random

import numpy as np

from specsim.config import SpecConfig
from specsim.conformance.backend import Backend
from specsim.counts import path_width
from specsim.properties.laws.support.checks import require
from specsim.properties.laws.support.histories import (
    VOCABULARY,
    Arrival,
    Scenario,
    believed_worker,
    own_worker,
    play,
    start,
)
from specsim.properties.reach.counting import reached
from specsim.properties.reach.sizes import Dimension, SizeClass, places_of, sizes_up_to
from specsim.simulation.engine import Engine
from specsim.simulation.history import first_divergence
from specsim.simulation.models.ground_truth import greedy_decode
from specsim.simulation.models.hash_model import HashModel
from specsim.simulation.worker import Iteration

SMALL = 4
"""Requests, rows and prompt tokens at most, where they are not what is large."""


@dataclass(frozen=True)
class Tour:
    """What all runs of a tour are drawn from; ``agreement`` is that of the draft where it may miss."""

    seed: int
    agreement: float
    num_layers: tuple[int, int]

    def model(self, agreement: float, vocab_size: int = VOCABULARY) -> HashModel:
        """Return a model whose draft is right so often."""
        target, draft = self.num_layers
        return HashModel(vocab_size, self.seed, agreement, num_target_layers=target, num_draft_layers=draft)


@dataclass(frozen=True)
class TourRun:
    """One run, what is large in it, and after how many turns it is left; None runs to the end."""

    what: str
    scenario: Scenario
    num_turns: int | None = None


def runs_of_prompts(tour: Tour, power: int) -> Iterator[TourRun]:
    """Yield runs that have prompts of every length between them."""
    for is_tree, is_v1, lengths in _shares(tour, power):
        random = Random(tour.seed)
        arrivals = [Arrival(_tokens(random, length), random.choice((3, 4)), None, 0) for length in lengths]
        yield TourRun("prompts", _scenario(tour, arrivals, is_tree, is_v1))


def runs_of_outputs(tour: Tour, power: int) -> Iterator[TourRun]:
    """Yield runs that have outputs of every length between them."""
    for is_tree, is_v1, lengths in _shares(tour, power):
        random = Random(tour.seed)
        arrivals = [Arrival(_tokens(random, random.randint(1, SMALL)), length, None, 0) for length in lengths]
        yield TourRun("outputs", _scenario(tour, arrivals, is_tree, is_v1))


def runs_of_batches(tour: Tour, power: int) -> Iterator[TourRun]:
    """Yield, for every size, runs whose batch lacks one request, has it, and lacks it again.

    Outputs of all but the one that joins late are too long to end in three iterations, which are all that are run.
    """
    sizes = sizes_up_to(power)
    for size in sorted({*sizes, *(size + 1 for size in sizes)}):
        for is_tree, is_v1 in _places(tour, size):
            config, random = SpecConfig(2, 1, 3) if is_tree else SpecConfig(1, 1, 2), Random(tour.seed + size)
            long = 2 + 3 * path_width(config.num_steps)
            arrivals = [Arrival(_tokens(random, random.randint(1, SMALL)), long, None, 0) for _ in range(size - 1)]
            arrivals.append(Arrival(_tokens(random, 2), 2, None, min(size - 1, 1)))
            model = tour.model(tour.agreement)
            scenario = Scenario(config, model, tuple(arrivals), size, shuffle_seed=tour.seed, is_v1=is_v1)
            yield TourRun(f"batches of up to {size}", scenario, num_turns=3)


def runs_of_steps(tour: Tour, power: int) -> Iterator[TourRun]:
    """Yield, for every number of steps, runs that accept a whole path and draft once more behind it."""
    for num_steps in sizes_up_to(power):
        for is_tree, is_v1 in _places(tour, num_steps):
            width = path_width(num_steps)
            config = SpecConfig(2, num_steps, width + 1) if is_tree else SpecConfig(1, num_steps, width)
            arrivals = (Arrival(_tokens(Random(tour.seed), 2), width + 2, None, 0),)
            scenario = Scenario(config, tour.model(1.0), arrivals, 1, shuffle_seed=tour.seed, is_v1=is_v1)
            yield TourRun(f"{num_steps} steps", scenario)


def runs_of_topk(tour: Tour, power: int) -> Iterator[TourRun]:
    """Yield, for every branching factor, runs whose trees have a node for each child of the root and a few more."""
    for topk, is_v1 in product(sizes_up_to(power), (False, True)):
        config = SpecConfig(topk, 2, topk + 3) if topk > 1 else SpecConfig(1, 2, 3)
        # NOTE: where the draft's first choice is seldom right, its others are accepted.
        model = tour.model(0.2, max(VOCABULARY, topk + topk // 4))
        arrivals = tuple(Arrival((number, 1), 5, None, 0) for number in range(2))
        scenario = Scenario(config, model, arrivals, 2, shuffle_seed=tour.seed, is_v1=is_v1)
        yield TourRun(f"topk {topk}", scenario)


def _places(tour: Tour, place: int) -> tuple[tuple[bool, bool], tuple[bool, bool]]:
    """Return (is_tree, is_v1) of the two runs of a size: both forms and both workers, paired in turn."""
    is_v1 = (place + tour.seed) % 2 == 1
    return (False, is_v1), (True, not is_v1)


def _shares(tour: Tour, power: int) -> Iterator[tuple[bool, bool, list[int]]]:
    """Yield is_tree, is_v1 and the sizes of their run: each size is in one run of each form and of each worker."""
    for is_tree, is_v1 in product((False, True), (False, True)):
        sizes = [size for size in sizes_up_to(power) if (is_tree, is_v1) in _places(tour, size)]
        yield is_tree, is_v1, sizes


def play_beside_the_reference(backend: Backend, run: TourRun) -> None:
    """Raise AssertionError unless every phase, slot, pool and output is the reference's, and outputs are exact."""
    scenario = run.scenario
    engines = [start(worker, scenario) for worker in (believed_worker(scenario), own_worker(backend, scenario))]
    believed, tried = engines
    size = 0
    try:
        for number, (expected, got) in enumerate(islice(play(engines, scenario), run.num_turns)):
            compare_step(number, believed, tried, expected, got)
            if got is not None:
                size = _count_iteration(scenario, got, size)
        for request in tried.scheduler.finished:
            expected_output = greedy_decode(scenario.model, request.prompt, request.max_new_tokens)
            require(request.output == expected_output, f"output {request.request_id}", request.output, expected_output)
            _count(scenario, Dimension.PROMPT, len(request.prompt))
            _count(scenario, Dimension.OUTPUT, len(request.output))
    except AssertionError as error:
        form, worker = "trees" if scenario.config.topk > 1 else "chains", "V1" if scenario.is_v1 else "V2"
        raise AssertionError(f"{run.what}, {form}, {worker}: {error}") from error


def compare_step(
    number: int, believed: Engine, tried: Engine, expected: Iteration | None, got: Iteration | None
) -> None:
    """Compare what a step handed over, who owns what, and what the pools hold of it."""
    require((expected is None) == (got is None), f"step {number}", got, expected)
    if expected is not None:
        divergence = first_divergence(number, believed.worker.phases(), tried.worker.phases())
        require(divergence is None, "the first difference", divergence, "none")
    tried.scheduler.check_ledger()
    slots = [slot for request in tried.scheduler.running for slot in request.slots[: request.num_committed]]
    theirs = [slot for request in believed.scheduler.running for slot in request.slots[: request.num_committed]]
    require(slots == theirs, f"committed slots after step {number}", slots, theirs)
    states = believed.worker.state(), tried.worker.state()
    for pool in ("target_kv", "draft_kv"):
        for component, (one, other) in enumerate(zip(*(state[pool] for state in states), strict=True)):
            is_equal = np.array_equal(one[slots], other[slots])
            require(is_equal, f"{pool}[{component}] after step {number}", "other entries", "the reference's")


def _count_iteration(scenario: Scenario, iteration: Iteration, previous: int) -> int:
    """Count what an iteration came to, and return the size of its batch."""
    drafts = iteration.num_accepted_drafts.tolist()
    size, capacity, config = len(drafts), scenario.max_batch, scenario.config
    _count(scenario, Dimension.TOPK, config.topk)
    if size != previous:
        _count(scenario, Dimension.GROWN if size > previous else Dimension.SHRUNK, size)
    if size >= capacity - 1:
        _count(scenario, Dimension.FULL if size == capacity else Dimension.PADDED, capacity)
    if config.num_steps in drafts:
        _count(scenario, Dimension.STEPS, config.num_steps)
    return size


def _count(scenario: Scenario, dimension: Dimension, size: int) -> None:
    for place in places_of(scenario.config.topk > 1, scenario.is_v1):
        reached(SizeClass(dimension, size, place))


def _scenario(tour: Tour, arrivals: list[Arrival], is_tree: bool, is_v1: bool) -> Scenario:
    config = SpecConfig(2, 2, 4) if is_tree else SpecConfig(1, 2, 3)
    return Scenario(config, tour.model(tour.agreement), tuple(arrivals), SMALL, shuffle_seed=tour.seed, is_v1=is_v1)


def _tokens(random: Random, count: int) -> tuple[int, ...]:
    return tuple(random.randrange(VOCABULARY) for _ in range(count))
