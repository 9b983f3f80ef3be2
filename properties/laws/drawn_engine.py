"""Sampled verify in whole runs: an engine that compares drafts with the target's draws outputs what it draws alone."""

from dataclasses import dataclass, field
from math import log2
from typing import Any

import numpy as np
from hypothesis.strategies import SearchStrategy

from specsim.conformance.backend import Backend, load
from specsim.conformance.calls import CallsByName
from specsim.conformance.completed import Completed
from specsim.operations import RECORDS
from specsim.operations.signature import name_arguments
from specsim.properties.laws.sampled_engine import SampledRun, decode, loops_on, seeded_runs
from specsim.properties.laws.support.checks import require, state_of_runs
from specsim.properties.laws.support.sampled_runs import COINS, WATCHED
from specsim.simulation.models.ground_truth import greedy_decode
from specsim.simulation.sampled import LARGEST_DYADIC_VOCABULARY, next_shares
from specsim.topology import Topology

DRAW, WALK = "sample_target_predict", "verify_tree_greedy"
LINKS = ("candidates", "retrieve_index", "retrieve_next_token", "retrieve_next_sibling")
FILTERS = ("temperature", "top_k", "top_p", "min_p")


@dataclass
class Drawing(CallsByName):
    """Operations with which a loop that accepts by chance verifies along the target's draws, on its requests' seeds."""

    operations: Completed
    _asked: dict[str, Any] = field(default_factory=dict)

    def call(self, name: str, /, *positional: Any, **named: Any) -> Any:
        """Call an operation; a verify by chance draws every row instead."""
        if name == COINS:
            self._asked = name_arguments(RECORDS[COINS], positional, named)
        if name == WATCHED:
            return self._verified(name_arguments(RECORDS[WATCHED], positional, named))
        return self.operations.call(name, *positional, **named)

    def host(self, name: str) -> Any:
        """Return a function of the host."""
        return self.operations.host(name)

    def _verified(self, arguments: dict[str, Any]) -> Any:
        links = zip(arguments["retrieve_next_token"], arguments["retrieve_next_sibling"], strict=True)
        depths = np.array([Topology.from_links(*one).depths for one in links], dtype=np.int64)
        drawn = self.operations.call(
            DRAW,
            **{name: arguments[name] for name in ("logits", *FILTERS)},
            seeds=self._asked["seeds"],
            positions=self._asked["seq_lens"].astype(np.int64)[:, None] + depths.reshape(arguments["candidates"].shape),
        )
        return self.operations.call(
            WALK,
            **{name: arguments[name] for name in LINKS},
            target_predict=drawn,
            num_steps=arguments["num_steps"],
        )


def drawn_alone(operations: Completed, run: SampledRun, number: int) -> list[int]:
    """Return what a request outputs whose target draws one token after another."""
    sampling, text = run.sampling[number], list(run.prompts[number])
    if sampling is None:
        return list(greedy_decode(run.model, run.prompts[number], run.num_tokens))
    for _ in range(run.num_tokens):
        # NOTE: the model's logits are whole numbers, the largest 0, and its shares powers of 2 of them.
        row = [log2(share) + 1 for share in next_shares(run.model, text)]
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
    return text[len(run.prompts[number]) :]


def drafts_change_no_draw(backend: Backend, run: SampledRun) -> None:
    """In any batch, on either loop, with any draft, every request outputs the tokens that its target draws alone."""
    operations = Completed(backend, load("specsim.reference"))
    done = decode(loops_on(Drawing(operations)), Drawing(operations), run, len(run.prompts))
    for number, request in done.items():
        expected = drawn_alone(operations, run, number)
        require(request.output == expected, f"output of request {number}, {run.config}", request.output, expected)


def runs_of_few_tokens() -> SearchStrategy[SampledRun]:
    """Return a strategy of runs over a vocabulary whose exact shares are known."""
    return seeded_runs(most_tokens=LARGEST_DYADIC_VOCABULARY)


PROPERTIES = (state_of_runs("drawn_engine", drafts_change_no_draw, runs_of_few_tokens, (DRAW, WALK), "P10", plays=()),)
