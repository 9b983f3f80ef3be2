"""Laws of pools: whatever stores an entry, all of it moves, states follow the path, and writes are read."""

from collections.abc import Sequence

import numpy as np
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from specsim.config import SpecConfig
from specsim.conformance.backend import Backend
from specsim.properties.composite import composite
from specsim.properties.laws.checks import require, states_of_runs
from specsim.properties.runs.histories import VOCABULARY, scenarios, tagged_pools, tree_scenarios
from specsim.properties.runs.play import Play, parts_of, require_in_step
from specsim.properties.runs.scenario import Arrival, Scenario, scenario_of
from specsim.properties.runs.tags import check_tags_at, expected_tags, states_after
from specsim.properties.runs.workers.laws_tokens import SPINE
from specsim.reference.models import load_model
from specsim.reference.worker.v2 import ReferenceWorker
from specsim.rejection import Reason, SpecRejection, WorkerRefusal
from specsim.simulation.models.hash_model import HashModel
from specsim.simulation.models.kv_pool import Reads
from specsim.simulation.models.moving import sides_that_move
from specsim.simulation.models.pool_kinds import DRAFT_KINDS, PoolKind, tags_of
from specsim.simulation.worker import Worker

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


OPERATIONS = (*SPINE, "move_indexer_cache", "get_recurrent_steps", "commit_recurrent_states")
"""What runs over every kind of pool call."""


def all_of_an_entry_moves(backend: Backend, scenario: Scenario) -> None:
    """After every iteration each committed position reads as its own token, in every component, on both sides."""
    for kind in COMPOSED:
        _check_entries(backend, scenario.having(target_pool=kind, draft_pool=kind))


def _check_entries(backend: Backend, scenario: Scenario) -> None:
    play = Play(scenario, backend)
    for _ in play.turns():
        state = play.worker.state()
        for request in play.engine.scheduler.running:
            slots = np.array(request.slots[: request.num_committed], dtype=np.int64)
            expected = expected_tags(scenario.model, request.fill)
            for name, kind, tags in zip(tagged_pools(backend), kinds_of(scenario), expected, strict=False):
                check_tags_at(name, tags_of(kind, state[name], slots), request, tags)


def recurrent_state_is_behind_the_last_token(backend: Backend, scenario: Scenario) -> None:
    """After every iteration the states of a request are those after its committed tokens, in a used row too."""
    play = Play(scenario, backend)
    for _ in play.turns():
        states = play.worker.state()["states"]
        for request in play.engine.scheduler.running:
            after = states_after(scenario.model, request.fill[: request.num_committed])
            for component, (state, expected) in enumerate(zip(states, after, strict=True)):
                got = state[request.row].tolist()
                require(got == expected, f"states[{component}] of request {request.request_id}", got, expected)


def storage_changes_no_phase(backend: Backend, scenario: Scenario) -> None:
    """Every phase hands over what the reference's does where both sides store plain keys and values."""
    plain = scenario.having(target_pool=PoolKind.MHA, draft_pool=PoolKind.MHA)
    for _ in require_in_step(Play(plain), Play(scenario, backend)):
        pass


def a_pool_that_cannot_move_is_refused(backend: Backend, scenario: Scenario) -> None:
    """A worker that would have to move such a pool refuses it before the first token; any other loses nothing."""
    try:
        play = Play(scenario, backend)
    except SpecRejection as refusal:
        if isinstance(refusal, WorkerRefusal) and refusal.reason is not Reason.NO_MOVE:
            raise
        require(refusal.reason is Reason.NO_MOVE, "reason of the refusal", refusal.reason, Reason.NO_MOVE)
        require(must_be_refused(scenario), "a pool that nothing moves", "refused", "taken")
        return
    require(not must_be_refused(scenario), "a pool that has to move, and cannot", "taken", "refused")
    play.run().require_outputs()


def _keeping_worker(backend: Backend, scenario: Scenario) -> Worker:
    """Return a worker that keeps what it has read; an implementation's own, on NumPy arrays, takes its place."""
    model, sizes = load_model(scenario.model), scenario.sizes()
    if backend.worker is not None and backend.arrays.KIND == "numpy":
        own: Worker = backend.worker(scenario.config, model, sizes)
        return own
    return ReferenceWorker(scenario.config, model, sizes, parts_of(backend), Reads.KEPT)


def kept_reads_are_full_reads(backend: Backend, scenario: Scenario) -> None:
    """A worker that reads only what was written since hands over, phase by phase, what one does that reads all."""
    full = ReferenceWorker(scenario.config, load_model(scenario.model), scenario.sizes(), parts_of(backend))
    kept = _keeping_worker(backend, scenario)
    for _ in require_in_step(Play(scenario, worker=full), Play(scenario, worker=kept)):
        pass


PROPERTIES = (
    *states_of_runs(
        "pool_kinds",
        (all_of_an_entry_moves, composed_runs, OPERATIONS, "P40"),
        (recurrent_state_is_behind_the_last_token, recurrent_runs, OPERATIONS, "P44"),
        (storage_changes_no_phase, runs_of_any_kind, OPERATIONS, "P62"),
        (a_pool_that_cannot_move_is_refused, unmovable_runs, OPERATIONS, ""),
    ),
    *states_of_runs("reads", (kept_reads_are_full_reads, tree_scenarios, ("move_kv_cache",), ""), plays=()),
)
