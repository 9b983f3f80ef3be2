"""What a simulation drafts, and on which worker.

An algorithm has its sizes where the user gave them and its own defaults elsewhere; the rules choose the worker, on the
layer that the user asks for.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from specsim.algorithms import DRAFTERS, WITH_CHECKED_SIZES, Drafter, SpeculativeAlgorithm
from specsim.assertion import require_present
from specsim.cli.device import load_implementation, need_device
from specsim.cli.output import Exit, Failed, remark
from specsim.cli.simulating.options import StoreOptions
from specsim.config import PoolSizes, SpecConfig
from specsim.conformance.backend import EAGLE_V2
from specsim.counts import path_width
from specsim.host.acceptance import Acceptance
from specsim.host.adaptive import AdaptiveConfig, AdaptiveSlot
from specsim.operations.derived.signature import nearest
from specsim.rules import REASONS_FOR_V1, ExecutionPlan, Level, ServerConfig, resolve
from specsim.simulation import pools
from specsim.simulation.loops import loop_of
from specsim.simulation.models.description import DraftSource
from specsim.simulation.models.ground_truth import LanguageModel
from specsim.simulation.models.kv_pool import Reads
from specsim.simulation.models.needs import fields_for
from specsim.simulation.models.pool_kinds import PoolKind
from specsim.simulation.models.protocol import Model
from specsim.simulation.models.toys import window_of
from specsim.simulation.requests import Request
from specsim.simulation.schedule import IN_TURN, Schedule
from specsim.simulation.verification import Verification
from specsim.simulation.worker import Worker

NAMES = tuple(one.value for one in SpeculativeAlgorithm if not one.is_none())
"""The algorithms that draft."""

AnyModel = LanguageModel | Model[Any]
"""A toy model, which both layers load, or a model in the arrays of one."""

Sizes = tuple[int, int, int]
"""Branching factor, depth and nodes."""

DRAFT_PATH = "draft"
"""The draft model that a simulation tells the rules of, where an algorithm has one beside the target."""

SHARED_LAYERS = (1,)
"""The layer of the target that the draft of a simulation reads, where it reads the target's KV."""


def drafter_of(algorithm: str, num_layers: int | None) -> Drafter:
    """Return the record of an algorithm, or of a draft of so many layers.

    Raises
    ------
    Failed
        USAGE: an algorithm that has no draft of several layers.
    """
    if num_layers is not None and algorithm not in ("EAGLE", "EAGLE3"):
        raise Failed(f"--multi-layer is for EAGLE and EAGLE3, and --algorithm is {algorithm}", Exit.USAGE)
    return DRAFTERS[algorithm if num_layers is None else "MULTI_LAYER"]


def drafter_named(given: str) -> Drafter:
    """Return the record of a drafter that a module brings, as ``MODULE:NAME`` names it.

    Raises
    ------
    Failed
        USAGE: there is no such drafter; UNAVAILABLE: the module does not import.
    """
    module, _, name = given.partition(":")
    if not (module and name):
        raise Failed(f"--drafter is {given}, but should be MODULE:NAME, such as my_drafter:suffix", Exit.USAGE)
    try:
        known = load_implementation(module).drafters
    except Failed as failed:
        here = [path.stem for path in Path.cwd().glob("*.py")]
        near = [] if module in here else nearest(module, here)
        raise Failed(f"{failed}; there is {' or '.join(near)}" if near else f"{failed}", failed.code) from failed
    if name not in known:
        has = f"DRAFTERS of {module} has {', '.join(nearest(name, known) or known)}" if known else "it has no DRAFTERS"
        raise Failed(f"--drafter is {given}, but should name a drafter of the module: {has}", Exit.USAGE)
    return known[name]


def sizes_of(
    drafter: Drafter,
    algorithm: str,
    num_layers: int | None,
    topk: int | None,
    num_steps: int | None,
    num_draft_tokens: int | None,
) -> Sizes:
    """Return branching factor, depth and nodes, as far as bounds go: NGRAM has no depth of its own.

    What a chain or a rest fixes is said on stderr.

    Raises
    ------
    Failed
        USAGE: a depth of an algorithm that has none, or another one than there are layers.
    """
    if num_layers is not None:
        return _layered_sizes(num_layers, topk, num_steps, num_draft_tokens)
    if not drafter.parameters:
        return _tree_sizes(drafter.default_sizes, topk, num_steps, num_draft_tokens)
    own_topk, own_steps, own_nodes = drafter.default_sizes
    if not own_steps and num_steps is not None:
        raise Failed(f"--steps is for EAGLE: a path of {algorithm} may hold every node of its draft", Exit.USAGE)
    return (
        own_topk if topk is None else topk,
        own_steps if num_steps is None else num_steps,
        own_nodes if num_draft_tokens is None else num_draft_tokens,
    )


def _layered_sizes(num_layers: int, topk: int | None, num_steps: int | None, num_draft_tokens: int | None) -> Sizes:
    if num_steps not in (None, num_layers):
        because = "every layer drafts one step"
        raise Failed(f"--steps is {num_steps}, but should be {num_layers}, because {because}", Exit.USAGE)
    return _tree_sizes((1, num_layers, path_width(num_layers)), topk, num_layers, num_draft_tokens)


def _tree_sizes(defaults: Sizes, topk: int | None, num_steps: int | None, num_draft_tokens: int | None) -> Sizes:
    given = zip((topk, num_steps, num_draft_tokens), defaults, strict=True)
    topk, num_steps, num_draft_tokens = (default if value is None else value for value, default in given)
    if num_steps == 0 and topk != 1:
        remark(f"--topk {topk} becomes 1: with --steps 0 nothing branches")
        topk = 1
    if topk == 1 and num_draft_tokens != path_width(num_steps):
        width = path_width(num_steps)
        remark(f"--draft-tokens {num_draft_tokens} becomes {width}: with --topk 1 a draft has one node a level")
        num_draft_tokens = width
    return topk, num_steps, num_draft_tokens


def drafting_of(plan: ExecutionPlan, drafter: Drafter) -> Any:
    """Return what the worker of a plan takes first: its sizes, or what its drafter has in their place."""
    config = plan.config
    topk = require_present("topk", config.topk)
    num_steps = 0 if drafter.parameters else require_present("steps", config.num_steps)
    return drafter.drafting(topk, num_steps, require_present("nodes", config.num_draft_tokens))


def forwards_of(record: Drafter, num_steps: int) -> tuple[int, int]:
    """Return forwards of a draft an iteration: over beams, and over a row a node.

    Texts have none, and a block has one. A draft that reads the target's KV has one a step; others have made the first
    of these when they caught up.
    """
    if record.reads_texts or record.draft_source == "NOTHING":
        return 0, 0
    if record.parameters:
        return 0, 1
    return (num_steps, 0) if record.reads_target_kv else (num_steps - 1, 1)


def config_of(drafting: Any) -> SpecConfig:
    """Return the sizes of an iteration of a worker that takes this first."""
    config: SpecConfig = drafting if isinstance(drafting, SpecConfig) else drafting.config
    return config


def of_the_model(drafter: Drafter, num_layers: int | None) -> dict[str, Any]:
    """Return what the model of a simulation has for a drafter, which may have so many layers."""
    return fields_for(drafter, num_layers or 0, SHARED_LAYERS)


def of_the_target(model: LanguageModel, drafter: Drafter) -> LanguageModel:
    """Return a model whose target is that of a drafter: beside a draft that reads tokens alone it hides the first."""
    is_hidden = drafter.draft_source == DraftSource.TOKENS.name
    changed: LanguageModel = replace(model, draft_source=DraftSource.TOKENS) if is_hidden else model
    return changed


def toys_of(
    model: LanguageModel, drafter: Drafter, num_layers: int | None, pool: PoolKind, draft_pool: PoolKind
) -> tuple[LanguageModel, LanguageModel]:
    """Return a toy model with what a drafter needs, and one whose target decodes alone."""
    changed: LanguageModel = replace(
        model, target_pool=pool, draft_pool=draft_pool, **of_the_model(drafter, num_layers)
    )
    return changed, of_the_target(model, drafter)


ALWAYS_AT_REST = AdaptiveConfig((AdaptiveSlot(batch_size=1, candidates=(0,)),))
"""The controller of a simulation without steps: the rules know no other way to propose nothing."""


def plan_for(drafter: Drafter, *choices: Any) -> ExecutionPlan:
    """Return what the rules decide, and say on stderr why they fall back, and what they warn of.

    The arguments are those of ``resolved``.
    """
    plan = resolved(drafter, *choices)
    _say_why(plan)
    return plan


def resolved(
    drafter: Drafter,
    algorithm: str,
    sizes: Sizes,
    given_draft_tokens: int | None,
    is_multi_layer: bool,
    max_batch: int,
    page_size: int,
    mode: str,
    disable_overlap: bool,
    recurrent: bool,
    store: StoreOptions,
) -> ExecutionPlan:
    """Return what the rules decide for an algorithm.

    The rules assume a CUDA device, and a draft model beside the target where the algorithm has one.

    Raises
    ------
    SpecRejection
        BAD_CONFIGURATION: the settings contradict each other.
    """
    topk, num_steps, num_draft_tokens = sizes
    return resolve(
        replace(
            ServerConfig(
                algorithm=algorithm,
                topk=topk,
                num_steps=num_steps,
                num_draft_tokens=num_draft_tokens,
                page_size=page_size,
                mode=mode,
                disable_overlap=disable_overlap,
                recurrent=recurrent,
                max_running_requests=max_batch,
                multi_layer=is_multi_layer,
            ),
            **_settings_of(drafter if drafter.name else DRAFTERS[algorithm], sizes, given_draft_tokens),
            **store.settings,
        )
    )


def _settings_of(drafter: Drafter, sizes: Sizes, given_draft_tokens: int | None) -> dict[str, Any]:
    """Return the settings of a server that only some drafters have; the rules have defaults of their own for some."""
    if drafter.algorithm.is_ngram():
        given = {"topk": None, "num_steps": None, "num_draft_tokens": given_draft_tokens}
        return given | {"ngram_max_bfs_breadth": sizes[0]}
    settings: dict[str, Any] = {"draft_model_path": DRAFT_PATH} if drafter.has_draft_path else {}
    if drafter.parameters:
        settings |= {"num_draft_tokens": given_draft_tokens}
    if sizes[1] == 0:
        settings |= {"adaptive": True, "adaptive_config": ALWAYS_AT_REST}
    return settings


def _say_why(plan: ExecutionPlan) -> None:
    """Say on stderr why V1 runs, and what the rules warn of."""
    if plan.worker == "v1" or plan.config.algorithm not in WITH_CHECKED_SIZES:
        for decision in plan.decisions:
            if decision.level is Level.WARNING or decision.code in REASONS_FOR_V1:
                remark(f"{decision.code.value}: {decision.text}")


def schedule_for(
    plan: ExecutionPlan,
    is_overlapped: bool,
    chunk: int | None,
    has_prefix_cache: bool,
    verification: Verification | None = None,
) -> Schedule:
    """Return how a simulation is scheduled.

    Raises
    ------
    Failed
        USAGE: overlap of a worker that has none, a chunk of less than a page, or a budget of drafts that are no chains.
    """
    algorithm, topk = plan.config.algorithm, plan.config.topk
    if verification is not None and (algorithm == "NGRAM" or topk != 1):
        has = "trees of any form" if algorithm == "NGRAM" else f"--topk {topk}"
        raise Failed(f"A budget of verified drafts is for chains, and {algorithm} drafts with {has}", Exit.USAGE)
    if is_overlapped and not plan.is_overlapped:
        raise Failed("--overlap is for V2: V1 allocates and frees inside an iteration", Exit.USAGE)
    if chunk is not None and chunk < plan.config.page_size:
        least = plan.config.page_size
        raise Failed(f"--chunk is {chunk}, but should be at least {least}, because it ends on a page", Exit.USAGE)
    return Schedule(is_overlapped, chunk, has_prefix_cache=has_prefix_cache, verification=verification)


def require_sides(drafter: Drafter, layers: Sequence[str]) -> None:
    """Check that a drafter of a user has a draft side in each of these layers.

    Raises
    ------
    Failed
        USAGE: it has none.
    """
    for layer in layers:
        if drafter.name and layer not in drafter.sides:
            has = ", ".join(drafter.sides)
            raise Failed(
                f"the drafter {drafter.name} has no side for the layer {layer}; it has one for {has}", Exit.USAGE
            )


def build_worker(
    plan: ExecutionPlan,
    drafter: Drafter,
    kind: str,
    drafting: Any,
    language_model: AnyModel,
    requests: Sequence[Request],
    max_batch: int,
    use_graphs: bool | None,
    reads: Reads = Reads.KEPT,
    schedule: Schedule = IN_TURN,
    acceptance: str = Acceptance.TOKEN,
) -> Worker:
    """Return a worker of the plan whose pools hold these requests, on the layer that is asked for.

    ``drafting`` is what the worker takes first, as its drafter has it. ``reads`` says whether forwards of the reference
    keep what they have read, ``schedule`` how much of a text a window and a chunk need SWA slots for, ``acceptance`` by
    which rule drafts of sampled requests are accepted.

    Raises
    ------
    Failed
        UNAVAILABLE: kernels cannot run.
    SpecRejection
        BAD_CONFIGURATION: the rule does not judge such drafts.
    """
    page_size = plan.config.page_size
    config = config_of(drafting)
    sizes = pools.sizes_for(config, requests, max_batch, page_size, _window(language_model), schedule)
    return _on_layer(kind, _loop(plan, drafter, kind), drafting, language_model, sizes, use_graphs, reads, acceptance)


def build_plain_worker(kind: str, language_model: AnyModel, requests: Sequence[Request]) -> Worker:
    """Return a worker without drafts, whose pools hold one of these requests: every token is the target's own draw.

    Raises
    ------
    Failed
        UNAVAILABLE: kernels cannot run.
    """
    plain, rule = SpecConfig(1, 0, 1), Acceptance.TARGET_DRAW
    sizes = pools.sizes_for(plain, requests, 1, window=_window(language_model))
    return _on_layer(kind, loop_of(EAGLE_V2, kind), plain, language_model, sizes, None, Reads.KEPT, rule)


def _on_layer(
    kind: str,
    make: Callable[..., Worker],
    drafting: Any,
    language_model: AnyModel,
    sizes: PoolSizes,
    use_graphs: bool | None,
    reads: Reads,
    acceptance: str,
) -> Worker:
    """Make a worker of a layer, on the model in its arrays, which any other than a toy is in already."""
    if kind == "reference":
        from specsim.reference.models import load_model

        model = load_model(language_model) if isinstance(language_model, LanguageModel) else language_model
        return make(drafting, model, sizes, reads=reads, acceptance=acceptance)
    need_device("the gpu worker")
    from specsim.gpu.models import load_model as load_on_device

    model = load_on_device(language_model) if isinstance(language_model, LanguageModel) else language_model
    return make(drafting, model, sizes, use_graphs=use_graphs, acceptance=acceptance)


def _window(language_model: AnyModel) -> int:
    if isinstance(language_model, LanguageModel):
        return window_of(language_model)
    return language_model.description.window


def _loop(plan: ExecutionPlan, drafter: Drafter, layer: str) -> Callable[..., Any]:
    """Return what makes the worker of a plan: our loop of a layer with the side of the drafter."""
    if drafter.name:
        return drafter.loop(layer, is_v1=plan.worker == "v1")
    algorithm = SpeculativeAlgorithm[require_present("algorithm", plan.config.algorithm)]
    return loop_of(algorithm.worker_name(plan.worker_request), layer)
