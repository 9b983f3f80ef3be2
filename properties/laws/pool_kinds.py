"""Laws of the kinds of KV pools: whatever stores it, all of an entry moves, and recurrent state follows the path."""

import numpy as np

from specsim.conformance.backend import Backend
from specsim.properties.laws.engine import SPINE
from specsim.properties.laws.support.checks import require, state_of_runs
from specsim.properties.laws.support.histories import believed_worker, play, start, tagged_pools
from specsim.properties.laws.support.pool_runs import (
    COMPOSED,
    PoolRun,
    composed_runs,
    recurrent_runs,
    runs_of_any_kind,
    unmovable_runs,
)
from specsim.properties.laws.worker import check_tags_at, expected_tags
from specsim.rejection import Reason, SpecRejection, WorkerRefusal
from specsim.simulation.history import first_divergence
from specsim.simulation.models.ground_truth import Prefix, greedy_decode
from specsim.simulation.models.pool_kinds import CONVOLUTION_WIDTH, PoolKind, tags_of

OPERATIONS = (*SPINE, "move_indexer_cache", "get_recurrent_steps", "commit_recurrent_states")
"""What runs over every kind of pool call."""

POOLS = ("target_kv", "draft_kv")


def all_of_an_entry_moves(backend: Backend, run: PoolRun) -> None:
    """After every iteration each committed position reads as its own token, in every component, on both sides."""
    for kind in COMPOSED:
        _check_entries(backend, run.stored_in(kind, kind))


def _check_entries(backend: Backend, run: PoolRun) -> None:
    engine = run.engine(backend)
    for _ in play([engine], run.scenario):
        state = engine.worker.state()
        for request in engine.scheduler.running:
            slots = np.array(request.slots[: request.num_committed], dtype=np.int64)
            expected = expected_tags(run.scenario.model, request.fill)
            for name, kind, tags in zip(tagged_pools(backend), run.kinds, expected, strict=False):
                check_tags_at(name, tags_of(kind, state[name], slots), request, tags)


def recurrent_state_is_behind_the_last_token(backend: Backend, run: PoolRun) -> None:
    """After every iteration the states of a request are those after its committed tokens, in a used row too."""
    engine = run.engine(backend)
    for _ in play([engine], run.scenario):
        states = engine.worker.state()["states"]
        for request in engine.scheduler.running:
            text, prefix = request.fill[: request.num_committed], Prefix(run.scenario.model)
            for token in text:
                prefix.append(token)
            last = [*([0] * CONVOLUTION_WIDTH), *text][-CONVOLUTION_WIDTH:]
            for component, (state, expected) in enumerate(
                zip(states, [*([fold] for fold in prefix.folds), last], strict=True)
            ):
                got = state[request.row].tolist()
                require(got == expected, f"states[{component}] of request {request.request_id}", got, expected)


def storage_changes_no_phase(backend: Backend, run: PoolRun) -> None:
    """Every phase hands over what the reference's does where both sides store plain keys and values."""
    plain = run.stored_in(PoolKind.MHA, PoolKind.MHA).scenario
    reference, engine = start(believed_worker(plain), plain), run.engine(backend)
    for number, (expected, got) in enumerate(play([reference, engine], run.scenario)):
        require((expected is None) == (got is None), f"iteration {number}", got, expected)
        if expected is not None:
            divergence = first_divergence(number, reference.worker.phases(), engine.worker.phases())
            require(divergence is None, f"first difference of {'-'.join(run.kinds)}", divergence, "none")


def a_pool_that_cannot_move_is_refused(backend: Backend, run: PoolRun) -> None:
    """A worker that would have to move such a pool refuses it before the first token; any other loses nothing."""
    try:
        engine = run.engine(backend)
    except SpecRejection as refusal:
        if isinstance(refusal, WorkerRefusal) and refusal.reason is not Reason.NO_MOVE:
            raise
        require(refusal.reason is Reason.NO_MOVE, "reason of the refusal", refusal.reason, Reason.NO_MOVE)
        require(run.must_be_refused, "a pool that nothing moves", "refused", "taken")
        return
    require(not run.must_be_refused, "a pool that has to move, and cannot", "taken", "refused")
    for _ in play([engine], run.scenario):
        pass
    for request in engine.scheduler.finished:
        expected = greedy_decode(run.scenario.model, request.prompt, request.max_new_tokens, request.eos_token)
        require(request.output == expected, f"output of request {request.request_id}", request.output, expected)


PROPERTIES = tuple(
    state_of_runs("pool_kinds", law, strategy, OPERATIONS, catalogue)
    for catalogue, strategy, law in (
        ("P40", composed_runs, all_of_an_entry_moves),
        ("P44", recurrent_runs, recurrent_state_is_behind_the_last_token),
        ("P62", runs_of_any_kind, storage_changes_no_phase),
        ("", unmovable_runs, a_pool_that_cannot_move_is_refused),
    )
)
