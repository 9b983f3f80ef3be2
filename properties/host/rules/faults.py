"""Faults in the rules: checks that are dropped, choices that are undone, changes without a message."""

from collections.abc import Callable, Collection
from dataclasses import replace
from typing import Any

from specsim.properties.mutants.record import Function, answering, edits_of, mutants_of
from specsim.rejection import SpecRejection
from specsim.rules import Code, Decision, ExecutionPlan, Level, ServerConfig


def _resolving(resolve: Callable[[Function, ServerConfig], ExecutionPlan]) -> Callable[[Function], Function]:
    """Inject a fault that resolves in place of the correct function, which it may ask."""
    return answering(lambda correct, arguments: resolve(correct, arguments["config"]))


def _planned(change: Callable[[ServerConfig, ExecutionPlan], ExecutionPlan]) -> Callable[[Function], Function]:
    """Inject a fault in the plan; ``change`` sees the configuration too."""
    return _resolving(lambda correct, config: change(config, correct(config)))


def _without(*codes: Code) -> Callable[[Function], Function]:
    """Inject a fault that gives no reason of some codes."""
    return _planned(lambda _, plan: _silent(plan, codes))


def _silent(plan: ExecutionPlan, codes: Collection[Code]) -> ExecutionPlan:
    return replace(plan, decisions=tuple(one for one in plan.decisions if one.code not in codes))


def _overlap_switched_on(config: ServerConfig, plan: ExecutionPlan) -> ExecutionPlan:
    if plan.worker != "v1" or not config.disable_overlap:
        return plan
    return replace(plan, config=replace(plan.config, disable_overlap=False))


def _chain_as_given(config: ServerConfig, plan: ExecutionPlan) -> ExecutionPlan:
    if plan.sizes is None or config.topk != 1:
        return plan
    cut = replace(plan.config, num_draft_tokens=config.num_draft_tokens)
    return replace(_silent(plan, {Code.CHAIN_LENGTH}), config=cut)


def _bound_replaced(config: ServerConfig, plan: ExecutionPlan) -> ExecutionPlan:
    if plan.worker is None:
        return plan
    return replace(plan, config=replace(plan.config, max_running_requests=48))


def _bound_halved(config: ServerConfig, plan: ExecutionPlan) -> ExecutionPlan:
    bound = plan.config.max_running_requests
    if bound is None or bound == 1:
        return plan
    reason = Decision(Code.MAX_RUNNING_REQUESTS, "Drafts need room.", Level.WARNING, ("max_running_requests",))
    halved = replace(plan.config, max_running_requests=bound // 2)
    return replace(plan, config=halved, decisions=(*plan.decisions, reason))


def _snapshots_inside_pages(correct: Function, config: ServerConfig) -> Any:
    try:
        return correct(config)
    except SpecRejection as said:
        if said.what != "snapshot_interval" or not config.snapshot_interval % config.page_size:
            raise
        whole = correct(replace(config, snapshot_interval=config.snapshot_interval * config.page_size))
        return replace(whole, config=replace(whole.config, snapshot_interval=config.snapshot_interval))


MUTANTS = (
    *edits_of(
        """
    @@ resolve in specsim.rules.worker.choose_worker
    OWN-130 The worker is chosen without a look at the page size.
    - topk > 1 and config.page_size > 1 => False
    OWN-131 The worker is chosen without a look at recurrent layers.
    - topk > 1 and config.recurrent => False
    OWN-142 The worker that is asked for is ignored.
    - config.mode == "v1" => False
    - config.mode == "v2" => False
    OWN-132 V2 runs no trees at all.
    - topk > 1 and config.page_size > 1 => topk > 1
    OWN-135 The worker suits a chain, and then a tree is chosen.
    - topk = expected_topk(config) => topk = config.topk or 1
    @@ resolve in resolve_adaptive
    OWN-138 The adaptive controller stays on where it cannot run.
    - state.warn(Code.ADAPTIVE_DISABLED, f"It does not work with {', '.join(obstacles)}.", adaptive=False)
    @@ resolve in specsim.rules.worker.choose_without_overlap
    OWN-141 V2 is asked for what nothing overlaps, and V1 runs.
    - config.mode == "v2" => False
    @@ resolve in specsim.rejection.contradiction
    OWN-143 A refusal does not say what to change.
    - expected => ""
    """
    ),
    *mutants_of(
        "resolve",
        (
            "OWN-133",
            "A fallback to V1 gives no reason.",
            _without(Code.PAGED_TREE, Code.RECURRENT_TREE, Code.ALGORITHM_WITHOUT_V2),
        ),
        ("OWN-134", "Overlap that the user switched off is on again.", _planned(_overlap_switched_on)),
        ("OWN-136", "Mixed chunks are switched off in silence.", _without(Code.MIXED_CHUNK_OFF)),
        ("OWN-137", "A chain keeps more nodes than it has levels.", _planned(_chain_as_given)),
        ("OWN-139", "The default bound of a batch replaces the user's.", _planned(_bound_replaced)),
        ("OWN-140", "The bound of a batch is halved every time.", _planned(_bound_halved)),
        ("OWN-470", "A snapshot may lie inside a page.", _resolving(_snapshots_inside_pages)),
    ),
)
