"""Laws of the rules: which worker runs a configuration, what the rules may change, and what they say about it."""

from dataclasses import fields
from functools import partial

from hypothesis import strategies as st

from specsim.config import SpecConfig
from specsim.conformance.backend import Backend
from specsim.properties.host.rules.rows import ROWS, require_row
from specsim.properties.host.rules.strategy import configs, family_configs, refused_configs
from specsim.properties.laws.checks import require, state
from specsim.rejection import Reason, SpecRejection
from specsim.rules import REASONS_FOR_V1, REASONS_FOR_V2, Code, ExecutionPlan, ServerConfig


def rows_have_their_effects(backend: Backend, chapter: str) -> None:
    """Every row of a chapter changes, chooses, says and refuses what it should, and nothing else."""
    for row in ROWS:
        if row.section.startswith(chapter):
            require_row(backend, row)


def resolving_again_changes_nothing(backend: Backend, config: ServerConfig) -> None:
    """The settings of a plan lead to the same worker and the same settings."""
    once = _plan(backend, config)
    twice = _plan(backend, once.config)
    require(twice.worker == once.worker, "the worker the second time", twice.worker, once.worker)
    for name, value in vars(once.config).items():
        got = vars(twice.config)[name]
        require(got == value, f"{name} the second time", got, value)


def trees_run_on_v2_from_single_slots_without_recurrent_state(backend: Backend, config: ServerConfig) -> None:
    """Where the rules choose freely, V2 runs every chain, and a tree if and only if pages and layers allow it."""
    if config.mode != "auto" or config.disable_overlap or not config.enable_spec_v2:
        return
    plan = _plan(backend, config)
    topk = plan.config.topk
    allowed = topk == 1 or (config.page_size == 1 and not config.recurrent)
    expected = "v2" if allowed else "v1"
    about = f"topk {topk}, page size {config.page_size}, recurrent {config.recurrent}"
    require(plan.worker == expected, f"the worker of {about}", plan.worker, expected)


def worker_has_its_reason(backend: Backend, config: ServerConfig) -> None:
    """Each plan gives exactly one reason for its worker, and a reason of the right kind."""
    plan = _plan(backend, config)
    reasons = {None: {Code.NOT_SPECULATIVE}, "v1": REASONS_FOR_V1, "v2": REASONS_FOR_V2}
    anywhere = frozenset[Code]().union(*reasons.values())
    given = [decision.code for decision in plan.decisions if decision.code in anywhere]
    require(len(given) == 1, f"reasons for {plan.worker}", given, "one")
    require(given[0] in reasons[plan.worker], f"the reason for {plan.worker}", given[0], sorted(reasons[plan.worker]))


def changes_have_their_reasons(backend: Backend, config: ServerConfig) -> None:
    """The settings that differ from the user's are those that the decisions name."""
    plan = _plan(backend, config)
    differ = {entry.name for entry in fields(ServerConfig) if vars(plan.config)[entry.name] != vars(config)[entry.name]}
    named = {name for decision in plan.decisions for name in decision.changed}
    require(named == differ, "settings that decisions name", sorted(named), sorted(differ))
    silent = [decision.code for decision in plan.decisions if not decision.text]
    require(not silent, "decisions without a sentence", silent, "none")


def overlap_that_is_off_stays_off(backend: Backend, config: ServerConfig) -> None:
    """Overlap that the user switched off is never switched on, and V1 never overlaps."""
    plan = _plan(backend, config)
    if config.disable_overlap:
        require(plan.config.disable_overlap, "disable_overlap", plan.config.disable_overlap, "True, as the user said")
    if plan.worker == "v1":
        require(plan.config.disable_overlap, "disable_overlap of V1", plan.config.disable_overlap, "True")


def forced_worker_is_the_worker(backend: Backend, config: ServerConfig) -> None:
    """A worker that is asked for is the one that runs."""
    if config.mode == "auto":
        return
    worker = _plan(backend, config).worker
    require(worker == config.mode, "the worker", worker, config.mode)


def sizes_of_a_plan_are_a_tree(backend: Backend, config: ServerConfig) -> None:
    """The sizes of the family's plans are complete and fit together, and are the user's wherever those do."""
    plan = _plan(backend, config)
    sizes = (plan.config.topk, plan.config.num_steps, plan.config.num_draft_tokens)
    require(None not in sizes, "sizes", sizes, "all set")
    try:
        SpecConfig(*(size or 0 for size in sizes))
    except SpecRejection as rejection:
        raise AssertionError(f"sizes = {sizes}, but should be those of a tree: {rejection}") from rejection
    if config.num_steps is not None:
        given = (config.topk, config.num_steps)
        require(sizes[:2] == given, "topk and num_steps", sizes[:2], given)
        if config.topk != 1:
            require(sizes[2] == config.num_draft_tokens, "num_draft_tokens", sizes[2], config.num_draft_tokens)


def refusals_say_what_to_change(backend: Backend, config: ServerConfig) -> None:
    """A refusal names a setting, its value, and another one to put in its place."""
    try:
        worker = _plan(backend, config).worker
    except SpecRejection as rejection:
        reasons = (Reason.BAD_CONFIGURATION, Reason.UNKNOWN_NAME)
        require(rejection.reason in reasons, "the reason", rejection.reason.name, "one of configurations")
        names = [entry.name for entry in fields(ServerConfig)]
        require(rejection.what in names, "the setting", rejection.what, "one of a configuration")
        require(rejection.expected.strip(), "what to change it to", repr(rejection.expected), "words")
        return
    raise AssertionError(f"worker = {worker}, but should be a refusal of {config}")


def _plan(backend: Backend, config: ServerConfig) -> ExecutionPlan:
    plan: ExecutionPlan = backend.host("resolve")(config)
    return plan


_RESOLVE = ("resolve",)

PROPERTIES = (
    state("rules", rows_have_their_effects, partial(st.just, "F."), _RESOLVE),
    state("rules", resolving_again_changes_nothing, configs, _RESOLVE),
    state("rules", trees_run_on_v2_from_single_slots_without_recurrent_state, family_configs, _RESOLVE),
    state("rules", worker_has_its_reason, configs, _RESOLVE),
    state("rules", changes_have_their_reasons, configs, _RESOLVE),
    state("rules", overlap_that_is_off_stays_off, configs, _RESOLVE),
    state("rules", forced_worker_is_the_worker, family_configs, _RESOLVE),
    state("rules", sizes_of_a_plan_are_a_tree, family_configs, _RESOLVE),
    state("rules", refusals_say_what_to_change, refused_configs, _RESOLVE),
)
