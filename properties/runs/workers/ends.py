"""A run in which requests end in every way, two rows for all of them, so that each row has many owners."""

from collections.abc import Iterator, Sequence
from random import Random
from typing import Any

from specsim.config import SpecConfig
from specsim.conformance.backend import Backend
from specsim.properties.laws.checks import require
from specsim.properties.reach.counting import reached
from specsim.properties.reach.ends import End, Reuse
from specsim.properties.reach.sizes import Place
from specsim.properties.runs.believed import BelievedEngine, retract
from specsim.properties.runs.choices import OfLength
from specsim.properties.runs.histories import VOCABULARY
from specsim.properties.runs.play import Play, require_decoded_alone
from specsim.properties.runs.scenario import Arrival, Scenario, scenario_of
from specsim.properties.runs.workers.tours import Tour, compare_step, place_of_run
from specsim.properties.seeds import source_of
from specsim.simulation.comparing.request_pairs import RequestPairs
from specsim.simulation.engine import Engine
from specsim.simulation.models.ground_truth import greedy_decode
from specsim.simulation.models.hash_model import HashModel
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
    pairs = _submitted(run, play, others)
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
            _require_ended(run, request)
        history.disturb(tried, others)
        number += 1
    num_ended = len(tried.scheduler.finished)
    require(num_ended == len(ends), "requests that have ended", num_ended, len(ends))


def _submitted(run: Ending, tried: Play, others: Sequence[Engine | BelievedEngine]) -> RequestPairs:
    """Ask every engine for the same outputs; return the requests of two of them as pairs."""
    pairs = RequestPairs(tried.worker.model.description)
    scenario, ends = run
    asked = [tried.requests, *(scenario.requests() for _ in others)]
    for engine, requests in zip((tried.engine, *others), asked, strict=True):
        for request in requests:
            engine.submit(request)
    for got, expected in zip(asked[0], asked[-1], strict=True):
        pairs.add(expected, got)
        if ends[got.request_id] is End.ABORT:
            pairs.abort(got.request_id)
    return pairs


def _require_ended(run: Ending, request: Request) -> None:
    """Raise AssertionError unless a request output what it outputs alone, an aborted one as much as it has."""
    scenario, ends = run
    if ends[request.request_id] is not End.ABORT:
        require_decoded_alone(scenario.model, request)
        return
    whole = greedy_decode(scenario.model, request.prompt, len(request.output))
    require(request.output == whole, f"output of request {request.request_id}", request.output, whole)


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
