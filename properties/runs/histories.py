"""Whole runs of EAGLE as test cases: which model, which tree, which requests, and in which order they arrive."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import accumulate, cycle

import numpy as np
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from specsim.config import SpecConfig
from specsim.conformance.backend import Backend
from specsim.counts import count_candidates, path_width
from specsim.properties.composite import composite
from specsim.properties.runs.choices import Automaton
from specsim.properties.runs.scenario import Arrival, Scenario, scenario_of
from specsim.simulation.models.hash_model import HashModel

VOCABULARY, SMALL_VOCABULARY = 32, 24

ASKED = ((2, True), (None, False), (0, False), (None, True))
"""Alternatives that requests ask for, and whether for hidden states, one after another, where any does."""

ONE_IN = 3
"""One of so many runs has requests that ask: scores take a batch another way, so that most should do without."""


def asking(scenario: Scenario) -> Scenario:
    """Return a run in which some requests ask for log-probabilities or states, or the same run, as its seed decides."""
    if scenario.room.shuffle_seed % ONE_IN:
        return scenario
    pairs = zip(scenario.arrivals, cycle(ASKED), strict=False)
    asked = [replace(one, top_logprobs=count, returns_hidden_states=is_handed) for one, (count, is_handed) in pairs]
    return scenario.having(arrivals=tuple(asked))


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
    """Draw one request, and how many steps it comes after the one before; every token may be its EOS."""
    prompt = draw(st.lists(st.integers(0, VOCABULARY - 1), min_size=1, max_size=6))
    max_new_tokens, eos_token = draw(st.integers(1, 9)), draw(st.one_of(st.none(), st.integers(0, VOCABULARY - 1)))
    return Arrival(tuple(prompt), max_new_tokens, eos_token, draw(st.integers(0, 2)))


def automata() -> SearchStrategy[Automaton]:
    """Draw a grammar that forbids some tokens and may end."""
    density, one_in = st.sampled_from((0.5, 0.75, 0.75)), st.sampled_from((8, 1000))
    return st.builds(partial(Automaton, VOCABULARY), st.integers(2, 4), density, one_in, st.integers(0, 2**32 - 1))


@composite
def scenarios(draw: st.DrawFn, max_requests: int = 4) -> Scenario:
    """Draw a run; batches are often smaller than the number of requests, so that rows and slots change owners."""
    config, model = draw(configurations()), draw(models())
    asked = one_after_another(draw(st.lists(arrivals(), min_size=1, max_size=max_requests)))
    return scenario_of(config, model, asked, draw(st.integers(1, 3)), draw(st.integers(0, 2**16)))


def one_after_another(asked: Sequence[Arrival]) -> tuple[Arrival, ...]:
    """Return requests that come so many steps after one another as each of them says."""
    steps = accumulate(one.step for one in asked)
    return tuple(replace(one, step=step) for one, step in zip(asked, steps, strict=True))


@composite
def tree_scenarios(draw: st.DrawFn) -> Scenario:
    """Draw a run in which even the smallest example drafts trees with spare nodes and shares a batch."""
    topk, num_steps = draw(st.integers(2, 3)), draw(st.sampled_from((3, 2, 3)))
    prompts = draw(st.lists(st.lists(st.integers(0, VOCABULARY - 1), max_size=6), min_size=2, max_size=3))
    return scenario_of(
        SpecConfig(topk, num_steps, draw(st.integers(path_width(num_steps) + 2, count_candidates(topk, 2) + 1))),
        draw(models()),
        [Arrival((number, *prompt), draw(st.integers(5, 9))) for number, prompt in enumerate(prompts)],
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
    return trees_or_any_scenario().map(lambda scenario: scenario.having(is_v1=True))


@composite
def paged_scenarios(draw: st.DrawFn) -> Scenario:
    """Draw a run on pages, most often of trees on V1, whose requests begin and end anywhere on a page.

    The first request often ends before those that decode beside it.
    """
    scenario = draw(st.one_of(tree_scenarios(), tree_scenarios(), scenarios()))
    is_v1, page_size = draw(st.sampled_from([True, True, False])), draw(st.sampled_from([4, 2, 3]))
    first, *others = scenario.arrivals
    first = replace(first, max_new_tokens=draw(st.integers(2, 6)))
    return scenario.having(arrivals=(first, *others), is_v1=is_v1, page_size=page_size)


def tagged_pools(backend: Backend) -> tuple[str, ...]:
    """Return the pools of a worker of EAGLE whose tags are known; those of the draft of a drafter of a user are not."""
    return ("target_kv",) if backend.drafted_by is not None else ("target_kv", "draft_kv")
