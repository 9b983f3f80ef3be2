"""Whole runs over every kind of pool: what KV is stored in on either side, and on pages of which size."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from specsim.config import SpecConfig
from specsim.conformance.backend import Backend
from specsim.properties.composite import composite
from specsim.properties.laws.support.histories import (
    VOCABULARY,
    Arrival,
    Scenario,
    own_worker,
    scenarios,
    start,
    tree_scenarios,
)
from specsim.simulation.engine import Engine
from specsim.simulation.models.hash_model import HashModel
from specsim.simulation.models.moving import sides_that_move
from specsim.simulation.models.pool_kinds import DRAFT_KINDS, PoolKind

COMPOSED = (PoolKind.DSA, PoolKind.QUANTISED)
"""Kinds of several components, one of which is the combined row of MLA."""

PAGE_SIZES = (1, 2, 4)


@dataclass(frozen=True)
class PoolRun:
    """A run whose model has pools of some kinds."""

    scenario: Scenario

    @property
    def kinds(self) -> tuple[PoolKind, PoolKind]:
        """The kinds of the target and of the draft."""
        return self.scenario.model.target_pool, self.scenario.model.draft_pool

    @property
    def must_be_refused(self) -> bool:
        """Whether a side has to move that cannot."""
        sides = sides_that_move(self.scenario.config.topk, self.scenario.page_size, self.scenario.is_v1)
        return any(kind is PoolKind.OTHER for kind in self.kinds[: len(sides)])

    def stored_in(self, target: PoolKind, draft: PoolKind) -> "PoolRun":
        """Return the same run of a model with other pools."""
        model = replace(self.scenario.model, target_pool=target, draft_pool=draft)
        return PoolRun(replace(self.scenario, model=model))

    def engine(self, backend: Backend) -> Engine:
        """Return an engine around the implementation's own worker."""
        return start(own_worker(backend, self.scenario), self.scenario, backend)


@composite
def _runs_of(
    draw: st.DrawFn, of_scenarios: SearchStrategy[Scenario], targets: Sequence[PoolKind], drafts: Sequence[PoolKind]
) -> PoolRun:
    scenario = draw(of_scenarios)
    target, draft = draw(st.sampled_from(targets)), draw(st.sampled_from(drafts))
    model = replace(scenario.model, target_pool=target, draft_pool=draft)
    is_v1, page_size = draw(st.sampled_from((False, False, True))), draw(st.sampled_from(PAGE_SIZES))
    return PoolRun(replace(scenario, model=model, is_v1=is_v1, page_size=page_size))


@composite
def composed_runs(draw: st.DrawFn) -> PoolRun:
    """Draw trees of a draft that is often right, so that much is moved; the law says what it is stored in."""
    scenario = draw(tree_scenarios())
    model = replace(scenario.model, agreement=draw(st.sampled_from((0.9, 0.7, 1.0))), num_right=None)
    return PoolRun(replace(scenario, model=model, page_size=draw(st.sampled_from(PAGE_SIZES))))


@composite
def recurrent_runs(draw: st.DrawFn) -> PoolRun:
    """Draw trees and chains of targets with recurrent state, more requests than rows, and prompts shorter than it."""
    num_steps = draw(st.sampled_from((2, 3, 1)))
    config = draw(st.sampled_from((SpecConfig(2, num_steps, num_steps + 2), SpecConfig(1, num_steps, num_steps + 1))))
    seed, num_right = draw(st.integers(0, 2**32 - 1)), draw(st.sampled_from((None, 1, 0)))
    kind = draw(st.sampled_from((PoolKind.HYBRID, PoolKind.ZERO_LAYER, PoolKind.NO_KV)))
    prompts = draw(st.lists(st.lists(st.integers(0, VOCABULARY - 1), max_size=4), min_size=2, max_size=3))
    # NOTE: every other output is longer, so that requests join others that run.
    arrivals = [
        Arrival((1 + number, *prompt), draw(st.integers(3, 5)) + 6 * (number % 2), None, 0)
        for number, prompt in enumerate([*prompts, []])
    ]
    scenario = Scenario(
        config=config,
        model=HashModel(VOCABULARY, seed, 0.7, num_right, target_pool=kind),
        arrivals=tuple(arrivals),
        max_batch=draw(st.sampled_from((2, 2, 1))),
        shuffle_seed=draw(st.integers(0, 2**16)),
        is_v1=draw(st.sampled_from((False, False, True))),
        page_size=draw(st.sampled_from(PAGE_SIZES)),
    )
    return PoolRun(scenario)


def runs_of_any_kind() -> SearchStrategy[PoolRun]:
    """Return a strategy of runs that no side refuses."""
    of_scenarios = st.one_of(tree_scenarios(), scenarios())
    kinds = (*COMPOSED, PoolKind.HYBRID, *PoolKind)
    return _runs_of(of_scenarios, kinds, DRAFT_KINDS).filter(lambda run: not run.must_be_refused)


def unmovable_runs() -> SearchStrategy[PoolRun]:
    """Return a strategy of runs with a side that no one can move."""
    kinds = (PoolKind.OTHER, PoolKind.OTHER, PoolKind.MHA)
    of_scenarios = st.one_of(tree_scenarios(), scenarios())
    return _runs_of(of_scenarios, kinds, kinds).filter(lambda run: PoolKind.OTHER in run.kinds)
