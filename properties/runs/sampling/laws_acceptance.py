"""Rules of acceptance in whole runs: blocks keep the target's law, and no form of a run changes what a seed draws."""

from dataclasses import replace
from typing import Any

from hypothesis import strategies as st

from specsim.config import SpecConfig
from specsim.conformance.backend import Backend
from specsim.host.acceptance import Acceptance
from specsim.properties.composite import composite
from specsim.properties.laws.checks import require, states_of_runs
from specsim.properties.runs.play import Play, parts_of
from specsim.properties.runs.sampling.laws_sampled import (
    TREES,
    constrained_runs,
    engine_emits_the_autoregressive_law,
    outputs_of,
    require_same_outputs,
    sampled_scenario,
    seeded_runs,
)
from specsim.properties.runs.sampling.sampled_law import DRAW, HALVING, WALK, Sampled, require_drawn_alone
from specsim.properties.runs.sampling.sampled_runs import COINS, ROWS, seeds_of, total
from specsim.properties.runs.sampling.steered import BLOCKS
from specsim.properties.runs.scenario import Arrival, Scenario
from specsim.simulation.models.hash_model import HashModel
from specsim.simulation.sampled import LARGEST_DYADIC_VOCABULARY

PAGES = (1, 1, 4, 3)
CONFIGS = (*TREES[1:3], SpecConfig(2, 2, 5), SpecConfig(3, 2, 8), SpecConfig(4, 1, 5), SpecConfig(4, 2, 12))
"""Drafts among which wide trees are many: their nodes stand elsewhere than their numbers say."""


def drafts_change_no_draw(backend: Backend, scenario: Scenario) -> None:
    """In any batch, on any worker, page and schedule, with any draft, each request outputs what its target draws alone.

    Its own worker runs where that has a parameter for the rule of acceptance, and the reference's loop elsewhere.
    """
    form = f"{scenario.config}, pages of {scenario.room.page_size}, {'V1' if scenario.is_v1 else 'V2'}"
    for request in Play(scenario, backend).run().requests:
        require_drawn_alone(backend, scenario.model, request, form)


@composite
def drawn_runs(draw: st.DrawFn) -> Scenario:
    """Draw a run over few tokens, whose exact shares are known, each request twice, half of those on V2 overlapped."""
    scenario = draw(seeded_runs(most_tokens=LARGEST_DYADIC_VOCABULARY))
    again = [
        one if one.sampling is None else replace(one, sampling=replace(one.sampling, seed=one.sampling.seed ^ 1))
        for one in scenario.arrivals
    ]
    config, num_tokens = draw(st.sampled_from(CONFIGS)), draw(st.integers(8, 14))
    return scenario.having(
        sizes=config,
        arrivals=(*scenario.arrivals, *again),
        max_batch=2 * len(again),
        acceptance=Acceptance.TARGET_DRAW,
        page_size=draw(st.sampled_from(PAGES)),
        is_overlapped=not scenario.is_v1 and draw(st.booleans()),
    ).asking(max_new_tokens=num_tokens)


CHAINS = tuple(config for config in TREES if config.topk == 1)
LONGER, LONGEST = SpecConfig(1, 2, 3), SpecConfig(1, 3, 4)
"""Chains of which a front may be kept that is neither empty nor whole."""


def blocks_emit_the_autoregressive_law(backend: Backend, scenario: Scenario) -> None:
    """Over all coins a request whose chains are judged as blocks emits exactly the law of decoding token by token.

    For seeds that lead to each way in which it can go, a worker outputs what is output there. Where drafts are the
    implementation's own, the same seed leads elsewhere.
    """
    first = scenario.arrivals[0]
    sampled = Sampled(scenario.model, first.prompt, num_tokens=first.max_new_tokens)

    def beside(num_seeds: int) -> Scenario:
        arrivals = (*[first] * num_seeds, Arrival(sampled.neighbour, first.max_new_tokens))
        return scenario.having(arrivals=arrivals, max_batch=len(arrivals))

    runs = sampled.runs(parts_of(backend), lambda watched: Play(beside(1), operations=watched).engine)
    sampled.require_law(total(runs))
    if backend.limits.has_own_drafts:
        return
    seeds = seeds_of(runs)
    outputs = sampled.play(Play(beside(len(seeds)), backend).engine, seeds)
    for one, seed, output in zip(runs, seeds, outputs, strict=True):
        what = f"output of seed {seed}, one of the {one.weight} that lead to one text, {scenario.config}"
        require(output == one.outcome, what, list(output), list(one.outcome))


def blocks_emit_the_law_of_a_grammar(backend: Backend, scenario: Scenario) -> None:
    """The same under a processor and a grammar."""
    engine_emits_the_autoregressive_law(backend, scenario)


def no_form_of_a_run_changes_what_a_seed_draws(backend: Backend, scenario: Scenario) -> None:
    """By every rule a seeded request outputs the same on V1 and V2, overlapped or not, on pages, and alone.

    Where drafts are the implementation's own, coins judge other ones in each form, and what the target draws alone is
    the same.
    """
    if backend.limits.has_own_drafts:
        scenario = scenario.having(acceptance=Acceptance.TARGET_DRAW)
    expected = outputs_of(scenario, backend)
    others: dict[str, dict[str, Any]] = {
        "on V1": {"is_v1": True},
        "under overlap": {"is_overlapped": True},
        "on pages of 4": {"page_size": 4},
        "on V1 and pages of 3": {"is_v1": True, "page_size": 3},
        "in batches of one": {"max_batch": 1},
    }
    for how, changes in others.items():
        what = f"{how}, acceptance {scenario.drafting.acceptance.value}, {scenario.config}"
        require_same_outputs(what, outputs_of(scenario.having(**changes), backend), expected)


@composite
def lawful_blocks(draw: st.DrawFn) -> Scenario:
    """Draw a run of a prompt's token and one whole block: drafts of which many are wrong, and the token after them."""
    sizes = ((LONGER, 3, 3), (LONGER, 3, 4), (LONGEST, 2, 5), (CHAINS[0], 3, 3))
    config, vocab_size, num_tokens = draw(st.sampled_from(sizes))
    model = HashModel(vocab_size, draw(st.integers(0, 2**32 - 1)), draw(st.sampled_from((0.5, 0.3, 0.9))))
    prompt = draw(st.lists(st.integers(0, vocab_size - 1), min_size=1, max_size=4).map(tuple))
    is_v1 = draw(st.booleans())
    changes = {"is_v1": is_v1, "acceptance": Acceptance.BLOCK}
    return sampled_scenario(config, model, [prompt], (HALVING,), num_tokens, **changes)


@composite
def constrained_blocks(draw: st.DrawFn) -> Scenario:
    """Draw a run under a grammar, whose chains are judged as blocks."""
    return draw(constrained_runs()).having(sizes=draw(st.sampled_from(CHAINS)), acceptance=Acceptance.BLOCK)


@composite
def ruled_runs(draw: st.DrawFn) -> Scenario:
    """Draw a batch of seeded requests, and by which rule their drafts are accepted."""
    scenario = draw(seeded_runs())
    is_chain = scenario.config.topk == 1
    rules = (Acceptance.BLOCK, Acceptance.TARGET_DRAW, Acceptance.TOKEN) if is_chain else (Acceptance.TARGET_DRAW,)
    return scenario.having(acceptance=draw(st.sampled_from(rules)), is_v1=False)


_BLOCKS = (COINS, "hash_sampling_logits", ROWS, BLOCKS)

_CONSTRAINED = (*_BLOCKS, "apply_logit_processors", "traverse_tree")

PROPERTIES = (
    *states_of_runs(
        "acceptance_engine",
        (blocks_emit_the_autoregressive_law, lawful_blocks, _BLOCKS, "P03"),
        (blocks_emit_the_law_of_a_grammar, constrained_blocks, _CONSTRAINED, "P03"),
        # NOTE: a worker has no parameter for a rule unless it says so; the reference's loop runs in place of others.
        (no_form_of_a_run_changes_what_a_seed_draws, ruled_runs, (*_BLOCKS, DRAW, WALK), "P10"),
        plays=(),
    ),
    *states_of_runs("drawn_engine", (drafts_change_no_draw, drawn_runs, (DRAW, WALK), "P10"), plays=()),
)
