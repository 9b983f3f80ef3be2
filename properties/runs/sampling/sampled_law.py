"""The exact law of what an engine outputs for a sampled request, and what it outputs for the seeds that lead there."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import log2
from typing import Any

import numpy as np

from specsim.config import SpecConfig
from specsim.conformance.backend import Backend, load
from specsim.conformance.calls import CallsByName
from specsim.conformance.completed import Completed
from specsim.host.acceptance import Acceptance
from specsim.host.sampling import SamplingParameters
from specsim.properties.distribution import Distribution, Outcome, autoregressive, require_same_law
from specsim.properties.laws.checks import require
from specsim.properties.laws.sampling_cells import slack_from_logits
from specsim.properties.runs.play import Play, parts_of, require_decoded_alone
from specsim.properties.runs.sampling.sampled_runs import Run, all_runs, law_of_runs
from specsim.properties.runs.scenario import Arrival, scenario_of
from specsim.properties.strategies.logit_scenes import HALVING_TEMPERATURE
from specsim.reference.models import load_model
from specsim.simulation.engine import Engine
from specsim.simulation.models.ground_truth import greedy_decode
from specsim.simulation.models.hash_model import HashModel
from specsim.simulation.requests import Request
from specsim.simulation.sampled import next_shares

DRAW, WALK = "sample_target_predict", "verify_tree_greedy"


def drawn_alone(
    operations: CallsByName, model: HashModel, prompt: Sequence[int], sampling: SamplingParameters, num_tokens: int
) -> list[int]:
    """Return what a request outputs whose target draws one token after another."""
    text = list(prompt)
    for _ in range(num_tokens):
        # NOTE: the model's logits are whole numbers, the largest 0, and its shares powers of 2 of them.
        row = [log2(share) + 1 for share in next_shares(model, text)]
        drawn = operations.call(
            DRAW,
            logits=np.array([row], dtype=np.float32),
            temperature=np.array([sampling.temperature], dtype=np.float32),
            top_k=np.array([sampling.top_k], dtype=np.int32),
            top_p=np.array([sampling.top_p], dtype=np.float32),
            min_p=np.array([sampling.min_p], dtype=np.float32),
            seeds=np.array([sampling.seed], dtype=np.int64),
            positions=np.array([[len(text) - 1]], dtype=np.int64),
        )
        text.append(int(drawn[0, 0]))
    return text[len(prompt) :]


def require_drawn_alone(backend: Backend, model: HashModel, request: Request, form: str) -> None:
    """Raise AssertionError unless a request of a run of some form output what its target draws alone."""
    if request.sampling is None:
        require_decoded_alone(model, request)
        return
    expected = drawn_alone(parts_of(backend), model, request.prompt, request.sampling, request.max_new_tokens)
    require(request.output == expected, f"output of request {request.request_id}, {form}", request.output, expected)


ORACLE = load("specsim.reference")
NUM_TOKENS = 3
NUM_SEEDS = 16
NEIGHBOUR = (0, 1, 1)
HALVING = SamplingParameters(temperature=HALVING_TEMPERATURE)

MakeEngine = Callable[[CallsByName], Engine]
"""Makes an engine around the reference's loop on some operations."""


@dataclass(frozen=True)
class Sampled:
    """A sampled request beside a greedy one.

    Parameters
    ----------
    is_continued : bool
        Another request of the same prompt ends before, so that a prefix cache has the text.
    """

    model: HashModel
    prompt: tuple[int, ...]
    neighbour: tuple[int, ...] = NEIGHBOUR
    sampling: SamplingParameters = HALVING
    num_tokens: int = NUM_TOKENS
    is_continued: bool = False

    def requests(self, num_seeds: int = 1) -> list[Request]:
        """Return requests of the lengths that an engine gets."""
        asked = [Request(number, self.prompt, self.num_tokens) for number in range(num_seeds)]
        return [*asked, Request(num_seeds, self.neighbour, self.num_tokens)]

    def play(self, engine: Engine, seeds: Sequence[int] = (0,)) -> list[Outcome]:
        """Return what the request outputs for each of some seeds, all of them in one engine.

        Raises
        ------
        AssertionError
            The greedy request beside them outputs another text than plain decoding.
        """
        neighbour = len(seeds)
        if self.is_continued:
            engine.submit(Request(neighbour + 1, self.prompt, 1))
            engine.run()
        for number, seed in enumerate(seeds):
            asked = Request(number, self.prompt, self.num_tokens, sampling=replace(self.sampling, seed=seed))
            engine.submit(asked)
        engine.submit(Request(neighbour, self.neighbour, self.num_tokens))
        outputs = {request.request_id: request.output for request in engine.run()}
        expected = greedy_decode(self.model, self.neighbour, self.num_tokens)
        require(outputs[neighbour] == expected, "output of a greedy request", outputs[neighbour], expected)
        return [tuple(outputs[number]) for number in range(neighbour)]

    def runs(self, operations: Backend | Completed, make_engine: MakeEngine) -> list[Run]:
        """Return every way in which the output can come about on some operations, one for those that end alike."""
        slack, first = slack_from_logits(self.model.vocab_size), len(self.prompt) - 1
        counted = range(first, first + self.num_tokens)
        return all_runs(operations, lambda watched: self.play(make_engine(watched))[0], slack, counted)

    def require_law(self, law: Distribution) -> None:
        """Raise AssertionError unless a law is that of decoding token by token."""
        require_same_law(f"law of prompt {list(self.prompt)}", law, self.expected_law())

    def expected_law(self) -> Distribution:
        """Return the law of decoding token by token."""
        return autoregressive(lambda tokens: next_shares(self.model, [*self.prompt, *tokens]), self.num_tokens)


def law_of(
    make_worker: Callable[..., Any],
    config: SpecConfig,
    model: HashModel,
    prompt: Sequence[int],
    sampling: SamplingParameters = HALVING,
) -> Distribution:
    """Return the law of three sampled tokens in an engine of two rows.

    Parameters
    ----------
    make_worker : callable
        Takes a model that is loaded, sizes of pools, and the operations of both.
    config : SpecConfig
        The sizes of its drafts.
    """
    sampled = Sampled(model, tuple(prompt), sampling=sampling)
    operations, slack = Completed(ORACLE, ORACLE), slack_from_logits(model.vocab_size)
    return law_of_runs(
        operations, lambda watched: sampled.play(_engine_of(make_worker, config, sampled, watched))[0], slack
    )


def _engine_of(
    make_worker: Callable[..., Any], config: SpecConfig, sampled: Sampled, operations: CallsByName, num_seeds: int = 1
) -> Engine:
    """Return an engine of two rows around a worker on some operations."""
    arrivals = [Arrival(tuple(one.prompt), one.max_new_tokens) for one in sampled.requests(num_seeds)]
    scenario = scenario_of(config, sampled.model, arrivals, 2, 1)
    worker = make_worker(load_model(sampled.model, operations), scenario.sizes(), operations)
    return Play(scenario, worker=worker).engine


def check_sampled_law(
    make_worker: Callable[..., Any], config: SpecConfig, model: HashModel, prompt: Sequence[int]
) -> None:
    """Raise AssertionError unless the law is that of decoding token by token."""
    Sampled(model, tuple(prompt)).require_law(law_of(make_worker, config, model, prompt))


def check_drawn_outputs(
    make_worker: Callable[..., Any], config: SpecConfig, model: HashModel, prompt: Sequence[int]
) -> None:
    """Raise AssertionError unless a worker that verifies along draws outputs, for some seeds, what is drawn alone."""
    sampled, operations = Sampled(model, tuple(prompt)), Completed(ORACLE, ORACLE)
    make = partial(make_worker, acceptance=Acceptance.TARGET_DRAW)
    engine = _engine_of(make, config, sampled, operations, NUM_SEEDS)
    outputs = sampled.play(engine, range(NUM_SEEDS))
    for seed, output in enumerate(outputs):
        asked = replace(sampled.sampling, seed=seed)
        expected = tuple(drawn_alone(operations, model, prompt, asked, sampled.num_tokens))
        require(output == expected, f"output of seed {seed}, prompt {list(prompt)}", output, expected)
