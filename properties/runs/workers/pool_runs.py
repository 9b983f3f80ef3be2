"""Whole runs over every kind of pool: what KV is stored in on either side, and on pages of which size."""

from collections.abc import Sequence

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from specsim.config import SpecConfig
from specsim.properties.composite import composite
from specsim.properties.runs.histories import VOCABULARY, scenarios, tree_scenarios
from specsim.properties.runs.scenario import Arrival, Scenario, scenario_of
from specsim.simulation.models.hash_model import HashModel
from specsim.simulation.models.moving import sides_that_move
from specsim.simulation.models.pool_kinds import DRAFT_KINDS, PoolKind

COMPOSED = (PoolKind.DSA, PoolKind.QUANTISED)
"""Kinds of several components, one of which is the combined row of MLA."""

PAGE_SIZES = (1, 2, 4)


def kinds_of(scenario: Scenario) -> tuple[PoolKind, PoolKind]:
    """Return the kinds of pools of the target and of the draft."""
    return scenario.model.target_pool, scenario.model.draft_pool


def must_be_refused(scenario: Scenario) -> bool:
    """Return whether a side has to move that cannot."""
    sides = sides_that_move(scenario.config.topk, scenario.room.page_size, scenario.is_v1)
    return any(kind is PoolKind.OTHER for kind in kinds_of(scenario)[: len(sides)])


@composite
def _runs_of(
    draw: st.DrawFn, of_scenarios: SearchStrategy[Scenario], targets: Sequence[PoolKind], drafts: Sequence[PoolKind]
) -> Scenario:
    scenario = draw(of_scenarios)
    target, draft = draw(st.sampled_from(targets)), draw(st.sampled_from(drafts))
    is_v1, page_size = draw(st.sampled_from((False, False, True))), draw(st.sampled_from(PAGE_SIZES))
    return scenario.having(target_pool=target, draft_pool=draft, is_v1=is_v1, page_size=page_size)


@composite
def composed_runs(draw: st.DrawFn) -> Scenario:
    """Draw trees of a draft that is often right, so that much is moved; the law says what it is stored in."""
    scenario = draw(tree_scenarios())
    agreement, page_size = draw(st.sampled_from((0.9, 0.7, 1.0))), draw(st.sampled_from(PAGE_SIZES))
    return scenario.having(agreement=agreement, num_right=None, page_size=page_size)


@composite
def recurrent_runs(draw: st.DrawFn) -> Scenario:
    """Draw trees and chains of targets with recurrent state, more requests than rows, and prompts shorter than it."""
    num_steps = draw(st.sampled_from((2, 3, 1)))
    config = draw(st.sampled_from((SpecConfig(2, num_steps, num_steps + 2), SpecConfig(1, num_steps, num_steps + 1))))
    seed, num_right = draw(st.integers(0, 2**32 - 1)), draw(st.sampled_from((None, 1, 0)))
    kind = draw(st.sampled_from((PoolKind.HYBRID, PoolKind.ZERO_LAYER, PoolKind.NO_KV)))
    prompts = draw(st.lists(st.lists(st.integers(0, VOCABULARY - 1), max_size=4), min_size=2, max_size=3))
    # NOTE: every other output is longer, so that requests join others that run.
    arrivals = [
        Arrival((1 + number, *prompt), draw(st.integers(3, 5)) + 6 * (number % 2))
        for number, prompt in enumerate([*prompts, []])
    ]
    return scenario_of(
        config,
        HashModel(VOCABULARY, seed, 0.7, num_right, target_pool=kind),
        arrivals,
        max_batch=draw(st.sampled_from((2, 2, 1))),
        shuffle_seed=draw(st.integers(0, 2**16)),
        is_v1=draw(st.sampled_from((False, False, True))),
        page_size=draw(st.sampled_from(PAGE_SIZES)),
    )


def runs_of_any_kind() -> SearchStrategy[Scenario]:
    """Return a strategy of runs that no side refuses."""
    of_scenarios = st.one_of(tree_scenarios(), scenarios())
    kinds = (*COMPOSED, PoolKind.HYBRID, *PoolKind)
    return _runs_of(of_scenarios, kinds, DRAFT_KINDS).filter(lambda scenario: not must_be_refused(scenario))


def unmovable_runs() -> SearchStrategy[Scenario]:
    """Return a strategy of runs with a side that no one can move."""
    kinds = (PoolKind.OTHER, PoolKind.OTHER, PoolKind.MHA)
    of_scenarios = st.one_of(tree_scenarios(), scenarios())
    return _runs_of(of_scenarios, kinds, kinds).filter(lambda scenario: PoolKind.OTHER in kinds_of(scenario))
