"""Whole runs as test cases: which model, which tree, which requests, and in which order they arrive."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from inspect import signature
from itertools import cycle
from typing import Any, Protocol

import numpy as np
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from specsim.config import PoolSizes, SpecConfig
from specsim.conformance.backend import EAGLE_V1, EAGLE_V2, Backend, load
from specsim.conformance.calls import CallsByName
from specsim.conformance.completed import Completed
from specsim.counts import count_candidates, path_width
from specsim.host.acceptance import Acceptance
from specsim.phases import VerifyInput
from specsim.properties.composite import composite
from specsim.properties.laws.support.checks import require
from specsim.reference.models import load_model
from specsim.reference.worker.v1 import ReferenceWorkerV1
from specsim.reference.worker.v2 import ReferenceWorker
from specsim.rejection import WorkerRefusal
from specsim.simulation.autoregressive import ExactDecoder, decode_alone
from specsim.simulation.engine import Engine
from specsim.simulation.models.ground_truth import Prefix
from specsim.simulation.models.hash_model import HashModel
from specsim.simulation.models.needs import fields_for
from specsim.simulation.models.protocol import Model
from specsim.simulation.models.toys import window_of
from specsim.simulation.pools import sizes_for
from specsim.simulation.requests import Request
from specsim.simulation.worker import Iteration, Worker

VOCABULARY, SMALL_VOCABULARY = 32, 24


@dataclass(frozen=True)
class Arrival:
    """One request, and how many iterations run before it is submitted.

    ``top_logprobs`` is how many alternatives it gets beside the scores of its tokens, None for no scores;
    ``returns_hidden_states`` hands it hidden states.
    """

    prompt: tuple[int, ...]
    max_new_tokens: int
    eos_token: int | None
    delay: int
    top_logprobs: int | None = None
    returns_hidden_states: bool = False


@dataclass(frozen=True)
class Scenario:
    """A run from the first request to the last token, slot by slot and on the V2 worker unless it says otherwise.

    ``context_limit`` is that of every request.
    """

    config: SpecConfig
    model: HashModel
    arrivals: tuple[Arrival, ...]
    max_batch: int
    shuffle_seed: int
    is_v1: bool = False
    page_size: int = 1
    context_limit: int | None = None

    def requests(self) -> list[Request]:
        """Return fresh request objects, numbered in order of arrival."""
        return [
            Request(
                number,
                arrival.prompt,
                arrival.max_new_tokens,
                arrival.eos_token,
                top_logprobs=arrival.top_logprobs,
                returns_hidden_states=arrival.returns_hidden_states,
                context_limit=self.context_limit,
            )
            for number, arrival in enumerate(self.arrivals)
        ]


ASKED = ((2, True), (None, False), (0, False), (None, True))
"""Alternatives that requests ask for, and whether for hidden states, one after another, where any does."""

ONE_IN = 3
"""One of so many runs has requests that ask: scores take a batch another way, so that most should do without."""


def asking(scenario: Scenario) -> Scenario:
    """Return a run in which some requests ask for log-probabilities or states, or the same run, as its seed decides."""
    if scenario.shuffle_seed % ONE_IN:
        return scenario
    asked = cycle(ASKED)
    arrivals = []
    for one in scenario.arrivals:
        top_logprobs, is_handed = next(asked)
        arrivals.append(replace(one, top_logprobs=top_logprobs, returns_hidden_states=is_handed))
    return replace(scenario, arrivals=tuple(arrivals))


def configurations(max_topk: int = 4, max_steps: int = 4, max_nodes: int = 12) -> SearchStrategy[SpecConfig]:
    """Draw chains and trees, from a full path with no spare node to all candidates kept."""
    return st.integers(1, max_topk).flatmap(
        lambda topk: st.integers(1, max_steps).flatmap(
            lambda steps: st.integers(
                path_width(steps),
                path_width(steps) if topk == 1 else max(min(1 + count_candidates(topk, steps), max_nodes), steps + 1),
            ).map(lambda nodes: SpecConfig(topk, steps, nodes))
        )
    )


@composite
def models(draw: st.DrawFn) -> HashModel:
    """Draw a hash model whose draft is perfect, hostile, right to a depth, or right by chance."""
    seed = draw(st.integers(0, 2**32 - 1))
    agreement = draw(st.sampled_from([0.5, 0.9, 1.0]))
    num_right = draw(st.one_of(st.none(), st.integers(0, 3)))
    hot = draw(st.sampled_from([False, False, True]))
    hot_token_id = np.random.default_rng(seed).permutation(VOCABULARY)[: VOCABULARY - 4] if hot else None
    layers = draw(st.sampled_from([(2, 1), (1, 2)]))
    return HashModel(VOCABULARY, seed, agreement, num_right, hot_token_id, *layers)


@composite
def arrivals(draw: st.DrawFn) -> Arrival:
    """Draw one request; every token may be its EOS."""
    prompt = draw(st.lists(st.integers(0, VOCABULARY - 1), min_size=1, max_size=6))
    return Arrival(
        prompt=tuple(prompt),
        max_new_tokens=draw(st.integers(1, 9)),
        eos_token=draw(st.one_of(st.none(), st.integers(0, VOCABULARY - 1))),
        delay=draw(st.integers(0, 2)),
    )


@composite
def scenarios(draw: st.DrawFn, max_requests: int = 4) -> Scenario:
    """Draw a run; batches are often smaller than the number of requests, so that rows and slots change owners."""
    return Scenario(
        config=draw(configurations()),
        model=draw(models()),
        arrivals=tuple(draw(st.lists(arrivals(), min_size=1, max_size=max_requests))),
        max_batch=draw(st.integers(1, 3)),
        shuffle_seed=draw(st.integers(0, 2**16)),
    )


@composite
def tree_scenarios(draw: st.DrawFn) -> Scenario:
    """Draw a run in which even the smallest example drafts trees with spare nodes and shares a batch."""
    topk, num_steps = draw(st.integers(2, 3)), draw(st.sampled_from((3, 2, 3)))
    prompts = draw(st.lists(st.lists(st.integers(0, VOCABULARY - 1), max_size=6), min_size=2, max_size=3))
    return Scenario(
        config=SpecConfig(topk, num_steps, draw(st.integers(path_width(num_steps) + 2, count_candidates(topk, 2) + 1))),
        model=draw(models()),
        arrivals=tuple(
            Arrival((number, *prompt), draw(st.integers(5, 9)), None, 0) for number, prompt in enumerate(prompts)
        ),
        max_batch=draw(st.integers(2, 3)),
        shuffle_seed=draw(st.integers(0, 2**16)),
    )


def trees_or_any_scenario() -> SearchStrategy[Scenario]:
    """Return a strategy of runs that draws many trees early on.

    NOTE: where two examples are drawn, the second hardly ever comes from the branch that the simplest one is of.
    """
    return st.one_of(tree_scenarios(), tree_scenarios(), scenarios())


def v1_scenarios() -> SearchStrategy[Scenario]:
    """Return a strategy of runs on the V1 worker."""
    return trees_or_any_scenario().map(lambda scenario: replace(scenario, is_v1=True))


@composite
def paged_scenarios(draw: st.DrawFn) -> Scenario:
    """Draw a run on pages, most often of trees on V1, whose requests begin and end anywhere on a page.

    The first request often ends before those that decode beside it.
    """
    scenario = draw(st.one_of(tree_scenarios(), tree_scenarios(), scenarios()))
    is_v1, page_size = draw(st.sampled_from([True, True, False])), draw(st.sampled_from([4, 2, 3]))
    first, *others = scenario.arrivals
    first = replace(first, max_new_tokens=draw(st.integers(2, 6)))
    return replace(scenario, arrivals=(first, *others), is_v1=is_v1, page_size=page_size)


def loop_on(
    operations: CallsByName,
    config: SpecConfig,
    model: HashModel,
    sizes: PoolSizes,
    is_v1: bool,
    acceptance: Acceptance = Acceptance.TOKEN,
) -> Worker:
    """Return the reference's loop on some operations."""
    loop = ReferenceWorkerV1 if is_v1 else ReferenceWorker
    return loop(config, load_model(model, operations), sizes, operations=operations, acceptance=acceptance)


def build_worker(
    backend: Backend,
    config: SpecConfig,
    model: HashModel,
    sizes: PoolSizes,
    is_v1: bool,
    acceptance: Acceptance = Acceptance.TOKEN,
) -> Worker:
    """Return the implementation's own worker, or the reference loop on its operations if it has none.

    The oracle supplies operations that it lacks. The loop also runs what a worker refuses by name, where the
    implementation has functions to run it on, and rules of acceptance that it has no parameter for.
    """
    own, options = backend.own_worker(is_v1), {} if acceptance is Acceptance.TOKEN else {"acceptance": acceptance}
    if own is not None and (not options or options.keys() <= signature(own).parameters.keys()):
        try:
            name = EAGLE_V1 if is_v1 else EAGLE_V2
            worker: Worker = backend.build_worker(name, config, model_for(backend, model), sizes, **options)
        except WorkerRefusal:
            if not backend.functions:
                raise
        else:
            return worker
    return loop_on(Completed(backend, load("specsim.reference")), config, model, sizes, is_v1, acceptance)


def own_worker(backend: Backend, scenario: Scenario, sizes: PoolSizes | None = None) -> Worker:
    """Return the worker of a scenario; pools are those that it needs unless sizes are given."""
    sizes = sizes or sizes_of(scenario)
    return build_worker(backend, scenario.config, scenario.model, sizes, scenario.is_v1)


def believed_worker(scenario: Scenario, sizes: PoolSizes | None = None) -> Worker:
    """Return the reference's worker, which everything is compared with."""
    sizes = sizes or sizes_of(scenario)
    oracle = load("specsim.reference")
    return loop_on(oracle, scenario.config, scenario.model, sizes, scenario.is_v1)


def sizes_of(scenario: Scenario) -> PoolSizes:
    """Return pools that a scenario needs."""
    window = window_of(scenario.model)
    return sizes_for(scenario.config, scenario.requests(), scenario.max_batch, scenario.page_size, window)


def tagged_pools(backend: Backend) -> tuple[str, ...]:
    """Return the pools of a worker of EAGLE whose tags are known; those of the draft of a drafter of a user are not."""
    return ("target_kv",) if backend.drafted_by is not None else ("target_kv", "draft_kv")


def model_for(backend: Backend, model: HashModel) -> Model[Any]:
    """Return a toy model on the arrays of an implementation: on its operations if they are NumPy's.

    It has what the drafter needs whose side the workers of the implementation have, where they have one.
    """
    if backend.drafted_by is not None:
        shared = [model.num_target_layers - 1] * model.num_draft_layers
        model = replace(model, **fields_for(backend.drafted_by, shared_layers=shared))
    if backend.arrays.KIND == "numpy":
        return load_model(model, Completed(backend, load("specsim.reference")))
    from specsim.gpu.models import load_model as load_on_device

    return load_on_device(model)


def start(worker: Worker, scenario: Scenario, backend: Backend | None = None) -> Engine:
    """Return an engine without requests, which decides and builds its memory by an implementation's parts, or ours."""
    operations = None if backend is None else parts_of(backend)
    return Engine(worker, scenario.max_batch, scenario.shuffle_seed, operations=operations)


def parts_of(backend: Backend) -> CallsByName:
    """Return what the engine of an implementation calls: its host functions and parts, and the oracle's for others."""
    return Completed(backend, load("specsim.reference"))


class Played(Protocol):
    """What is asked of an engine that is played."""

    @property
    def has_work(self) -> bool:
        """Whether a request has not ended."""

    def submit(self, request: Request) -> None:
        """Queue a request."""

    def step(self) -> Iteration | None:
        """Take a turn."""


def play(
    engines: Sequence[Played], scenario: Scenario, asked: Sequence[Sequence[Request]] = ()
) -> Iterator[list[Iteration | None]]:
    """Run engines side by side, submitting each request when its delay has passed; yield after every step.

    ``asked`` has the requests of each engine, where somebody keeps an eye on them.
    """
    pending = asked or [scenario.requests() for _ in engines]
    waits = [arrival.delay for arrival in scenario.arrivals]
    arrived = 0
    while True:
        while arrived < len(waits) and (waits[arrived] <= 0 or _all_idle(engines)):
            for engine, requests in zip(engines, pending, strict=True):
                engine.submit(requests[arrived])
            arrived += 1
        if arrived < len(waits):
            waits[arrived] -= 1
        elif _all_idle(engines):
            return
        yield [engine.step() for engine in engines]


def iterations_of(engine: Engine) -> Iterator[Iteration]:
    """Run an engine to the end, and yield after every iteration."""
    while engine.has_work:
        iteration = engine.step()
        if iteration is not None:
            yield iteration


def last_verify_input(worker: Worker) -> VerifyInput:
    """Return the verify of a worker's last iteration; which phases precede it depends on what drafts."""
    return next(phase for phase in worker.phases() if isinstance(phase, VerifyInput))


def require_decoded_alone(model: HashModel, request: Request) -> None:
    """Raise AssertionError unless an ended request has output, and ended, as plain decoding does under its rules."""
    matcher = None if request.grammar is None else request.grammar()
    decoder = ExactDecoder(Prefix(model), request.choice_alone(matcher))
    output, finish = decode_alone(decoder, request.prompt, request.fresh().rules, matcher)
    require(request.output == output, f"output of request {request.request_id}", request.output, output)
    require(request.finish == finish, f"finish of request {request.request_id}", request.finish, finish)


def _all_idle(engines: Sequence[Played]) -> bool:
    return not any(engine.has_work for engine in engines)
