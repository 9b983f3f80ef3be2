"""What a simulation drafts: an algorithm, its sizes where the user gave them and its own defaults elsewhere."""

from pathlib import Path
from typing import Any

from specsim.algorithms import DRAFTERS, Drafter, SpeculativeAlgorithm
from specsim.assertion import require_present
from specsim.cli.device import load_implementation
from specsim.cli.output import Exit, Failed, remark
from specsim.config import SpecConfig
from specsim.counts import path_width
from specsim.operations.signature import nearest
from specsim.rules import ExecutionPlan
from specsim.simulation.models.needs import fields_for

NAMES = tuple(one.value for one in SpeculativeAlgorithm if not one.is_none())
"""The algorithms that draft."""

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


def config_of(drafting: Any) -> SpecConfig:
    """Return the sizes of an iteration of a worker that takes this first."""
    config: SpecConfig = drafting if isinstance(drafting, SpecConfig) else drafting.config
    return config


def of_the_model(drafter: Drafter, num_layers: int | None) -> dict[str, Any]:
    """Return what the model of a simulation has for a drafter, which may have so many layers."""
    return fields_for(drafter, num_layers or 0, SHARED_LAYERS)
