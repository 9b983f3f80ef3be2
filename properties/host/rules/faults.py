"""Faults in the rules: checks that are dropped, choices that are undone, changes without a message."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from specsim.properties.mutants.record import Function, Mutant, answering
from specsim.rejection import SpecRejection
from specsim.rules import REASONS_FOR_V1, Code, Decision, ExecutionPlan, Level, ServerConfig


def _blind_to(**values: Any) -> Callable[[Function], Function]:
    """Inject a fault that resolves as if settings had these values, and hands the user's back."""

    def resolve(correct: Function, config: ServerConfig) -> ExecutionPlan:
        plan: ExecutionPlan = correct(replace(config, **values))
        return replace(plan, config=replace(plan.config, **{name: vars(config)[name] for name in values}))

    return _resolving(resolve)


def _resolving(resolve: Callable[[Function, ServerConfig], ExecutionPlan]) -> Callable[[Function], Function]:
    """Inject a fault that resolves in place of the correct function, which it may ask."""
    return answering(lambda correct, arguments: resolve(correct, arguments["config"]))


def _planned(change: Callable[[ServerConfig, ExecutionPlan], ExecutionPlan]) -> Callable[[Function], Function]:
    """Inject a fault in the plan; ``change`` sees the configuration too."""
    return _resolving(lambda correct, config: change(config, correct(config)))


def _without(plan: ExecutionPlan, codes: frozenset[Code]) -> ExecutionPlan:
    return replace(plan, decisions=tuple(one for one in plan.decisions if one.code not in codes))


def _swapped(plan: ExecutionPlan, worker: str, decision: Decision, **values: Any) -> ExecutionPlan:
    chosen = REASONS_FOR_V1 | {Code.V2_CHOSEN}
    decisions = tuple(decision if one.code in chosen else one for one in plan.decisions)
    return replace(plan, worker=worker, decisions=decisions, config=replace(plan.config, **values))


def _trees_on_v1(config: ServerConfig, plan: ExecutionPlan) -> ExecutionPlan:
    if plan.worker == "v1" or config.mode != "auto" or (plan.config.topk or 1) == 1:
        return plan
    reason = Decision(Code.PAGED_TREE, "Trees run on V1.", Level.WARNING, ("disable_overlap",))
    return _swapped(plan, "v1", reason, disable_overlap=True)


def _worker_before_sizes(config: ServerConfig, plan: ExecutionPlan) -> ExecutionPlan:
    codes = {decision.code for decision in plan.decisions}
    if Code.SIZES_CHOSEN not in codes or not codes & {Code.PAGED_TREE, Code.RECURRENT_TREE}:
        return plan
    return _swapped(plan, "v2", Decision(Code.V2_CHOSEN, "V2."), disable_overlap=config.disable_overlap)


def _overlap_switched_on(config: ServerConfig, plan: ExecutionPlan) -> ExecutionPlan:
    if plan.worker != "v1" or not config.disable_overlap:
        return plan
    return replace(plan, config=replace(plan.config, disable_overlap=False))


def _fallback_without_reason(config: ServerConfig, plan: ExecutionPlan) -> ExecutionPlan:
    return _without(plan, frozenset({Code.PAGED_TREE, Code.RECURRENT_TREE, Code.ALGORITHM_WITHOUT_V2}))


def _mixed_chunk_in_silence(config: ServerConfig, plan: ExecutionPlan) -> ExecutionPlan:
    return _without(plan, frozenset({Code.MIXED_CHUNK_OFF}))


def _chain_as_given(config: ServerConfig, plan: ExecutionPlan) -> ExecutionPlan:
    if plan.sizes is None or config.topk != 1:
        return plan
    cut = replace(plan.config, num_draft_tokens=config.num_draft_tokens)
    return replace(_without(plan, frozenset({Code.CHAIN_LENGTH})), config=cut)


def _controller_stays_on(config: ServerConfig, plan: ExecutionPlan) -> ExecutionPlan:
    kept = replace(plan.config, adaptive=config.adaptive)
    return replace(_without(plan, frozenset({Code.ADAPTIVE_DISABLED})), config=kept)


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


def _v2_not_insisted_on(correct: Function, config: ServerConfig) -> Any:
    plan: ExecutionPlan = correct(config)
    is_insisted_on = Code.V2_STEP_BY_STEP in {one.code for one in plan.decisions}
    return correct(replace(config, mode="auto")) if is_insisted_on else plan


def _snapshots_inside_pages(correct: Function, config: ServerConfig) -> Any:
    try:
        return correct(config)
    except SpecRejection as said:
        if said.what != "snapshot_interval" or not config.snapshot_interval % config.page_size:
            raise
        whole = correct(replace(config, snapshot_interval=config.snapshot_interval * config.page_size))
        return replace(whole, config=replace(whole.config, snapshot_interval=config.snapshot_interval))


def _words_withheld(correct: Function, config: ServerConfig) -> Any:
    try:
        return correct(config)
    except SpecRejection as said:
        raise SpecRejection(
            said.reason, what=said.what, got=said.got, expected="", because="it is not supported"
        ) from said


_RESOLVE = "resolve"

MUTANTS = (
    Mutant("OWN-130", _RESOLVE, "The worker is chosen without a look at the page size.", _blind_to(page_size=1)),
    Mutant("OWN-131", _RESOLVE, "The worker is chosen without a look at recurrent layers.", _blind_to(recurrent=False)),
    Mutant("OWN-132", _RESOLVE, "V2 runs no trees at all.", _planned(_trees_on_v1)),
    Mutant("OWN-133", _RESOLVE, "A fallback to V1 gives no reason.", _planned(_fallback_without_reason)),
    Mutant("OWN-134", _RESOLVE, "Overlap that the user switched off is on again.", _planned(_overlap_switched_on)),
    Mutant("OWN-135", _RESOLVE, "The worker suits a chain, and then a tree is chosen.", _planned(_worker_before_sizes)),
    Mutant("OWN-136", _RESOLVE, "Mixed chunks are switched off in silence.", _planned(_mixed_chunk_in_silence)),
    Mutant("OWN-137", _RESOLVE, "A chain keeps more nodes than it has levels.", _planned(_chain_as_given)),
    Mutant(
        "OWN-138", _RESOLVE, "The adaptive controller stays on where it cannot run.", _planned(_controller_stays_on)
    ),
    Mutant("OWN-139", _RESOLVE, "The default bound of a batch replaces the user's.", _planned(_bound_replaced)),
    Mutant("OWN-140", _RESOLVE, "The bound of a batch is halved every time.", _planned(_bound_halved)),
    Mutant("OWN-141", _RESOLVE, "V2 is asked for what nothing overlaps, and V1 runs.", _resolving(_v2_not_insisted_on)),
    Mutant("OWN-142", _RESOLVE, "The worker that is asked for is ignored.", _blind_to(mode="auto")),
    Mutant("OWN-470", _RESOLVE, "A snapshot may lie inside a page.", _resolving(_snapshots_inside_pages)),
    Mutant("OWN-143", _RESOLVE, "A refusal does not say what to change.", _resolving(_words_withheld)),
)
