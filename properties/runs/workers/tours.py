"""Runs that are large in one dimension, and runs in which requests end in every way, played beside the reference."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from random import Random
from typing import Any

import numpy as np

from specsim.config import SpecConfig
from specsim.conformance.backend import Backend
from specsim.counts import path_width
from specsim.properties.laws.checks import require
from specsim.properties.reach.counting import reached
from specsim.properties.reach.ends import End, Reuse
from specsim.properties.reach.sizes import Dimension, Place, SizeClass, place_of, sizes_up_to
from specsim.properties.runs.believed import BelievedEngine, committed_slots, entries_of, retract
from specsim.properties.runs.choices import OfLength
from specsim.properties.runs.histories import VOCABULARY
from specsim.properties.runs.play import Play, drive, require_decoded_alone, require_front_decoded_alone
from specsim.properties.runs.scenario import Arrival, Scenario, scenario_of
from specsim.properties.seeds import source_of
from specsim.simulation.comparing.history import first_divergence
from specsim.simulation.comparing.request_pairs import RequestPairs
from specsim.simulation.engine import Engine
from specsim.simulation.models.ground_truth import greedy_decode
from specsim.simulation.models.hash_model import HashModel
from specsim.simulation.requests import TOKEN_TEXT, Request
from specsim.simulation.worker import Iteration

SMALL = 4
"""Requests, rows and prompt tokens at most, where they are not what is large."""

SHORT = 2
"""Prompt tokens at most where there are many requests."""


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


TourRun = tuple[str, Scenario, int | None]
"""What is large in a run, the run, and after how many turns it is left; None for its end."""


def runs_of_prompts(tour: Tour, power: int) -> Iterator[TourRun]:
    """Yield, for every place, a run that has a prompt of every length."""
    for place in Place:
        random = source_of(tour.seed)
        arrivals = [Arrival(_tokens(random, length), random.choice((3, 4))) for length in sizes_up_to(power)]
        yield "prompts", _scenario(tour, arrivals, place), None


def runs_of_outputs(tour: Tour, power: int) -> Iterator[TourRun]:
    """Yield, for every place, a run that has an output of every length."""
    for place in Place:
        random = source_of(tour.seed)
        lengths = sizes_up_to(power)
        arrivals = [Arrival(_tokens(random, random.randint(1, SMALL)), length) for length in lengths]
        yield "outputs", _scenario(tour, arrivals, place), None


def runs_of_batches(tour: Tour, power: int) -> Iterator[TourRun]:
    """Yield, for every size and place, a run whose batch lacks one request, has it, and lacks it again.

    Outputs of all but the one that joins late are too long to end in three iterations, which are all that are run.
    Where only the batch that is left is of a size that is looked for, that one does not join late, and where only the
    full one is, its end is not waited for.
    """
    sizes = sizes_up_to(power)
    for size in sorted({*sizes, *(size + 1 for size in sizes)}):
        delay = 1 if size in sizes and size > 1 else 0
        for place in Place:
            config, random = SpecConfig(2, 1, 3) if place.is_tree else SpecConfig(1, 1, 2), source_of(tour.seed + size)
            long = 2 + 3 * path_width(config.num_steps)
            arrivals = [Arrival(_tokens(random, random.randint(1, SHORT)), long) for _ in range(size - 1)]
            arrivals.append(Arrival(_tokens(random, SHORT), 2, None, delay))
            model = tour.model(tour.agreement)
            scenario = scenario_of(config, model, arrivals, size, tour.seed, is_v1=place.is_v1)
            yield f"batches of up to {size}", scenario, 1 + delay + (size - 1 in sizes)


def runs_of_steps(tour: Tour, power: int) -> Iterator[TourRun]:
    """Yield, for every number of steps and place, a run that accepts a whole path and drafts once more after it."""
    for num_steps in sizes_up_to(power):
        for place in Place:
            width = path_width(num_steps)
            config = SpecConfig(2, num_steps, width + 1) if place.is_tree else SpecConfig(1, num_steps, width)
            arrivals = (Arrival(_tokens(source_of(tour.seed), 2), width + 2),)
            scenario = scenario_of(config, tour.model(1.0), arrivals, 1, tour.seed, is_v1=place.is_v1)
            yield f"{num_steps} steps", scenario, None


def runs_of_topk(tour: Tour, power: int) -> Iterator[TourRun]:
    """Yield, for every branching factor, runs whose trees have a node for each child of the root and a few more."""
    for topk in sizes_up_to(power):
        config = SpecConfig(topk, 2, topk + 3) if topk > 1 else SpecConfig(1, 2, 3)
        # NOTE: where the draft's first choice is seldom right, its others are accepted.
        model = tour.model(0.2, max(VOCABULARY, topk + topk // 4))
        arrivals = tuple(Arrival((number, 1), 5) for number in range(2))
        for is_v1 in (False, True):
            yield f"topk {topk}", scenario_of(config, model, arrivals, 2, tour.seed, is_v1=is_v1), None


def play_beside_the_reference(backend: Backend, run: TourRun) -> None:
    """Raise AssertionError unless every phase, slot, pool and output is the reference's, and outputs are exact."""
    what, scenario, num_turns = run
    tried, believed = Play(scenario, backend).engine, BelievedEngine(scenario, scenario)
    size = num_checked = 0
    try:
        for number, (*_, got) in enumerate(islice(drive([believed, tried], scenario), num_turns)):
            if backend.limits.has_own_drafts:
                tried.scheduler.check_ledger()
            else:
                compare_step(number, believed, tried, got)
            if got is not None:
                size = _count_iteration(scenario, got, size)
            ended = tried.scheduler.finished[num_checked:]
            num_checked += len(ended)
            for request in ended:
                _check_output(scenario, request)
    except AssertionError as error:
        raise AssertionError(f"{what}, {place_of_run(scenario)}: {error}") from error


def _check_output(scenario: Scenario, request: Request) -> None:
    """Raise AssertionError unless an output is exact; count what it and its prompt came to."""
    expected = greedy_decode(scenario.model, request.prompt, request.max_new_tokens)
    require(request.output == expected, f"output {request.request_id}", request.output, expected)
    _count(scenario, Dimension.PROMPT, len(request.prompt))
    _count(scenario, Dimension.OUTPUT, len(request.output))


def compare_step(number: int, believed: BelievedEngine, tried: Engine, got: Iteration | None) -> None:
    """Compare what a step handed over, who owns what, and what the pools hold of it."""
    expected = believed.left
    require((expected.iteration is None) == (got is None), f"step {number}", got, expected.iteration)
    if got is not None:
        divergence = first_divergence(number, expected.phases, tried.worker.phases())
        require(divergence is None, "the first difference", divergence, "none")
    tried.scheduler.check_ledger()
    slots, theirs = committed_slots(tried), [*expected.slots]
    require(slots == theirs, f"committed slots after step {number}", slots, theirs)
    held = entries_of(tried, slots)
    for pool, components in expected.entries.items():
        for component, (one, other) in enumerate(zip(components, held[pool], strict=True)):
            is_equal = np.array_equal(one, other)
            require(is_equal, f"{pool}[{component}] after step {number}", "other entries", "the reference's")


def _count_iteration(scenario: Scenario, iteration: Iteration, previous: int) -> int:
    """Count what an iteration came to, and return the size of its batch."""
    drafts = iteration.num_accepted_drafts.tolist()
    size, capacity, config = len(drafts), scenario.room.max_batch, scenario.config
    _count(scenario, Dimension.TOPK, config.topk)
    if size != previous:
        _count(scenario, Dimension.GROWN if size > previous else Dimension.SHRUNK, size)
    if size >= capacity - 1:
        _count(scenario, Dimension.FULL if size == capacity else Dimension.PADDED, capacity)
    if config.num_steps in drafts:
        _count(scenario, Dimension.STEPS, config.num_steps)
    return size


def _count(scenario: Scenario, dimension: Dimension, size: int) -> None:
    reached(SizeClass(dimension, size, place_of_run(scenario)))


def place_of_run(scenario: Scenario) -> Place:
    """Return the place of a run."""
    return place_of(scenario.config.topk > 1, scenario.is_v1)


def _scenario(tour: Tour, arrivals: list[Arrival], place: Place) -> Scenario:
    config, model = SpecConfig(2, 2, 4) if place.is_tree else SpecConfig(1, 2, 3), tour.model(tour.agreement)
    return scenario_of(config, model, arrivals, SMALL, tour.seed, is_v1=place.is_v1)


def _tokens(random: Random, count: int) -> tuple[int, ...]:
    return tuple(random.randrange(VOCABULARY) for _ in range(count))


NUM_ROWS = 2

NUM_TOKENS = 6
"""Output tokens up to an end: more than a prefill and an iteration of one step can give, so that all requests stay."""

LAST = (End.LENGTH,) * NUM_ROWS
"""How the requests end that take the rows of those that are looked at."""

ENDS = (*End, *LAST)
"""How all requests end, by their numbers."""


Ending = tuple[Scenario, tuple[End, ...]]
"""A run, and how its requests end, by their numbers."""


def ending_runs(tour: Tour, ends: Sequence[End] = ENDS) -> Iterator[Ending]:
    """Yield, for every place, a run of the same requests."""
    model, random = tour.model(tour.agreement), source_of(tour.seed)
    arrivals = [_arrival(random, model, end) for end in ends]
    for place in Place:
        config = SpecConfig(2, 1, 3) if place.is_tree else SpecConfig(1, 1, 2)
        yield scenario_of(config, model, arrivals, NUM_ROWS, tour.seed, is_v1=place.is_v1), tuple(ends)


def play_ends(backend: Backend, run: Ending) -> None:
    """Raise AssertionError unless a run is the reference's in every phase, and every output what it is alone.

    A worker that drafts what no reference drafts runs alone: its requests end in other iterations. Where the
    implementation has a scheduler, that schedules its own engine and ours the reference's, so that requests are
    compared and not phases.
    """
    (scenario, ends), history = run, RowHistory(run)
    is_alone, is_apart = backend.limits.has_own_drafts, backend.scheduler is not None
    play = Play(scenario, backend, has_own_scheduler=True)
    tried = play.engine
    others: list[Engine | BelievedEngine] = []
    believed: BelievedEngine | None = None
    if is_apart and not is_alone:
        others = [Play(scenario).engine]
    elif not is_alone:
        others = [believed := BelievedEngine(scenario, scenario)]
    asked = [play.requests, *(scenario.requests() for _ in others)]
    pairs = RequestPairs(play.worker.model.description)
    for mine, expected in zip(asked[0], asked[-1], strict=True):
        pairs.add(expected, mine)
        if ends[mine.request_id] is End.ABORT:
            pairs.abort(mine.request_id)
    num_checked = 0
    for number, (got, *_) in enumerate(drive([tried, *others], scenario, asked)):
        history.watch(tried)
        if believed is not None:
            compare_step(number, believed, tried, got)
        else:
            tried.scheduler.check_ledger()
            divergence = None if is_alone else pairs.first_divergence(number)
            require(divergence is None, "the first difference", divergence, "none")
        for request in tried.scheduler.finished[num_checked:]:
            is_aborted = ends[request.request_id] is End.ABORT
            (require_front_decoded_alone if is_aborted else require_decoded_alone)(scenario.model, request)
        num_checked = len(tried.scheduler.finished)
        history.disturb(tried, others)
    num_ended = len(tried.scheduler.finished)
    require(num_ended == len(ends), "requests that have ended", num_ended, len(ends))


class RowHistory:
    """Who has each row, how its last owner left it, and who was disturbed."""

    def __init__(self, run: Ending) -> None:
        scenario, self._ends = run
        self._place = place_of_run(scenario)
        self._owners: dict[int, int] = {}
        self._left: dict[int, End] = {}
        self._disturbed: set[int] = set()

    def watch(self, engine: Engine) -> None:
        """Count, after a turn, the rows that have another owner than before."""
        for request in engine.scheduler.running:
            if self._owners.get(request.row) == request.request_id:
                continue
            if request.row in self._left:
                reached(Reuse(self._left[request.row], self._place))
            number = request.request_id
            self._owners[request.row] = number
            self._left[request.row] = End.LENGTH if request.num_retractions else self._ends[number]

    def disturb(self, tried: Engine, others: Sequence[Engine | BelievedEngine]) -> None:
        """Abort and retract those that end so, once each."""
        for request in [*tried.scheduler.running]:
            number = request.request_id
            if self._ends[number] not in (End.ABORT, End.RETRACTION) or number in self._disturbed:
                continue
            self._disturbed.add(number)
            if self._ends[number] is End.ABORT:
                for engine in (tried, *others):
                    engine.abort(number)
                continue
            self._owners.pop(request.row, None)
            retract(tried, number)
            for other in others:
                other.retract(number) if isinstance(other, BelievedEngine) else retract(other, number)


def _arrival(random: Random, model: HashModel, end: End) -> Arrival:
    """Return a request with the rule that ends it.

    Its output does not have its last token earlier, and goes on for long enough for some of it to be missed.
    """
    while True:
        prompt = tuple(random.randrange(VOCABULARY) for _ in range(random.randint(2, 4)))
        *before, last = greedy_decode(model, prompt, NUM_TOKENS)
        if last not in before:
            break
    rules: dict[End, dict[str, Any]] = {
        End.LENGTH: {"max_new_tokens": NUM_TOKENS},
        End.RETRACTION: {"max_new_tokens": NUM_TOKENS},
        End.CONTEXT: {"context_limit": len(prompt) + NUM_TOKENS},
        End.EOS: {"eos_token": last},
        End.STOP_TOKEN: {"stop_tokens": (last,)},
        End.STOP_STRING: {"stop_strings": (TOKEN_TEXT(last),)},
        End.GRAMMAR: {"grammar": OfLength(VOCABULARY, NUM_TOKENS)},
    }
    return Arrival(prompt, **{"max_new_tokens": 2 * NUM_TOKENS, **rules.get(end, {})})
