"""Laws of the kinds of KV pools: whatever stores it, all of an entry moves, and recurrent state follows the path."""

import numpy as np

from specsim.conformance.backend import Backend
from specsim.properties.laws.checks import require, state_of_runs
from specsim.properties.runs.histories import tagged_pools
from specsim.properties.runs.play import Play, require_in_step
from specsim.properties.runs.scenario import Scenario
from specsim.properties.runs.workers.laws_state import check_tags_at, expected_tags, states_after
from specsim.properties.runs.workers.laws_tokens import SPINE
from specsim.properties.runs.workers.pool_runs import (
    COMPOSED,
    composed_runs,
    kinds_of,
    must_be_refused,
    recurrent_runs,
    runs_of_any_kind,
    unmovable_runs,
)
from specsim.rejection import Reason, SpecRejection, WorkerRefusal
from specsim.simulation.models.pool_kinds import PoolKind, tags_of

OPERATIONS = (*SPINE, "move_indexer_cache", "get_recurrent_steps", "commit_recurrent_states")
"""What runs over every kind of pool call."""

POOLS = ("target_kv", "draft_kv")


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


PROPERTIES = tuple(
    state_of_runs("pool_kinds", law, strategy, OPERATIONS, catalogue)
    for catalogue, strategy, law in (
        ("P40", composed_runs, all_of_an_entry_moves),
        ("P44", recurrent_runs, recurrent_state_is_behind_the_last_token),
        ("P62", runs_of_any_kind, storage_changes_no_phase),
        ("", unmovable_runs, a_pool_that_cannot_move_is_refused),
    )
)
