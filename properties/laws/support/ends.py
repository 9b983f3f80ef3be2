"""A run in which requests end in every way, two rows for all of them, so that each row has many owners."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random

import numpy as np

from specsim.config import SpecConfig
from specsim.conformance.backend import Backend
from specsim.host.grammar import TableGrammar
from specsim.properties.laws.support.believed import BelievedEngine, retract
from specsim.properties.laws.support.checks import require
from specsim.properties.laws.support.histories import VOCABULARY
from specsim.properties.laws.support.tours import Tour, compare_step
from specsim.properties.reach.counting import reached
from specsim.properties.reach.ends import End, Reuse
from specsim.properties.reach.sizes import Place, place_of
from specsim.properties.runs.play import Play, require_decoded_alone
from specsim.properties.runs.scenario import Arrival, Scenario, scenario_of
from specsim.simulation.engine import Engine
from specsim.simulation.models.ground_truth import greedy_decode
from specsim.simulation.models.hash_model import HashModel
from specsim.simulation.request_pairs import RequestPairs
from specsim.simulation.requests import TOKEN_TEXT, Request

NUM_ROWS = 2

NUM_TOKENS = 6
"""Output tokens up to an end: more than a prefill and an iteration of one step can give, so that all requests stay."""

LAST = (End.LENGTH,) * NUM_ROWS
"""How the requests end that take the rows of those that are looked at."""

MOST_TURNS = 1000
"""Turns after which a run is taken to go on for ever; those of the reference take a tenth."""

ENDS = (*End, *LAST)
"""How all requests end, by their numbers."""


@dataclass(frozen=True)
class EndingRun:
    """A run, and how its requests end, by their numbers."""

    scenario: Scenario
    ends: Sequence[End]

    @property
    def place(self) -> Place:
        """Where rows are used again."""
        return place_of(self.scenario.config.topk > 1, self.scenario.is_v1)


def ending_runs(tour: Tour, ends: Sequence[End] = ENDS) -> Iterator[EndingRun]:
    """Yield, for every place, a run of the same requests."""
    model, random = tour.model(tour.agreement), Random(tour.seed)
    arrivals = tuple(Arrival(_prompt(random, model), 2 * NUM_TOKENS) for _ in ends)
    for place in Place:
        config = SpecConfig(2, 1, 3) if place.is_tree else SpecConfig(1, 1, 2)
        scenario = scenario_of(config, model, arrivals, NUM_ROWS, tour.seed, is_v1=place.is_v1)
        yield EndingRun(scenario, ends)


def play_ends(backend: Backend, run: EndingRun) -> None:
    """Raise AssertionError unless a run is the reference's in every phase, and every output what it is alone.

    A worker that drafts what no reference drafts runs alone: its requests end in other iterations. Where the
    implementation has a scheduler, that schedules its own engine and ours the reference's, so that requests are
    compared and not phases.
    """
    scenario, history = run.scenario, RowHistory(run)
    is_alone, is_apart = backend.limits.has_own_drafts, backend.scheduler is not None
    tried = Play(scenario, backend, has_own_scheduler=True).engine
    others: list[Engine | BelievedEngine] = []
    believed: BelievedEngine | None = None
    if is_apart and not is_alone:
        others = [Play(scenario).engine]
    elif not is_alone:
        others = [believed := BelievedEngine((scenario, tuple(run.ends)), scenario)]
    pairs = _submitted(run, tried, others)
    number = 0
    while tried.has_work:
        require(number < MOST_TURNS, "turns of the run", number, "a tenth of them")
        num_checked = len(tried.scheduler.finished)
        got = tried.step()
        for other in others:
            other.step()
        history.watch(tried)
        if believed is not None:
            compare_step(number, believed, tried, got)
        else:
            tried.scheduler.check_ledger()
            divergence = None if is_alone else pairs.first_divergence(number)
            require(divergence is None, "the first difference", divergence, "none")
        for request in tried.scheduler.finished[num_checked:]:
            check_ended(run, request)
        history.disturb(tried, others)
        number += 1
    ended = sorted(request.request_id for request in tried.scheduler.finished)
    require(ended == [*range(len(run.ends))], "requests that have ended", ended, len(run.ends))


def _submitted(run: EndingRun, tried: Engine, others: Sequence[Engine | BelievedEngine]) -> RequestPairs:
    """Ask every engine for the same outputs; return the requests of two of them as pairs."""
    pairs = RequestPairs(tried.worker.model.description)
    asked = [ending_requests(run) for _ in (tried, *others)]
    for engine, requests in zip((tried, *others), asked, strict=True):
        for request in requests:
            engine.submit(request)
    for got, expected in zip(asked[0], asked[-1], strict=True):
        pairs.add(expected, got)
        if run.ends[got.request_id] is End.ABORT:
            pairs.abort(got.request_id)
    return pairs


def ending_requests(run: EndingRun) -> list[Request]:
    """Return fresh requests, each with the rule that ends it."""
    scenario, requests = run.scenario, run.scenario.requests()
    for end, request in zip(run.ends, requests, strict=True):
        last = greedy_decode(scenario.model, request.prompt, NUM_TOKENS)[-1]
        match end:
            case End.LENGTH | End.RETRACTION:
                request.max_new_tokens = NUM_TOKENS
            case End.CONTEXT:
                request.context_limit = len(request.prompt) + NUM_TOKENS
            case End.EOS:
                request.eos_token = last
            case End.STOP_TOKEN:
                request.stop_tokens = (last,)
            case End.STOP_STRING:
                request.stop_strings = (TOKEN_TEXT(last),)
            case End.GRAMMAR:
                request.grammar = _anything_of_so_many_tokens
    return requests


def check_ended(run: EndingRun, request: Request) -> None:
    """Raise AssertionError unless a request output what it outputs alone, an aborted one as much as it has."""
    end, what, scenario = run.ends[request.request_id], f"output of request {request.request_id}", run.scenario
    if end is End.ABORT:
        whole = greedy_decode(scenario.model, request.prompt, len(request.output))
        require(request.output == whole, what, request.output, whole)
        return
    require_decoded_alone(scenario.model, request)


class RowHistory:
    """Who has each row, how its last owner left it, and who was disturbed."""

    def __init__(self, run: EndingRun) -> None:
        self._place, self._ends = run.place, run.ends
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


def _prompt(random: Random, model: HashModel) -> tuple[int, ...]:
    """Return a prompt whose output does not have its last token earlier, long enough for some of it to be missed."""
    while True:
        prompt = tuple(random.randrange(VOCABULARY) for _ in range(random.randint(2, 4)))
        *before, last = greedy_decode(model, prompt, NUM_TOKENS)
        if last not in before:
            return prompt


def _anything_of_so_many_tokens() -> TableGrammar:
    following = np.minimum(np.arange(NUM_TOKENS + 1) + 1, NUM_TOKENS).astype(np.int32)
    transitions = np.repeat(following[:, None], VOCABULARY, axis=1)
    return TableGrammar(transitions, np.arange(NUM_TOKENS + 1) == NUM_TOKENS, 0)
