"""What a simulation drafts: an algorithm, its sizes where the user gave them and its own defaults elsewhere."""

from collections.abc import Callable, Mapping
from typing import Any

from specsim.algorithms import SpeculativeAlgorithm
from specsim.assertion import require_present
from specsim.cli.output import Exit, Failed, remark
from specsim.config import SpecConfig
from specsim.counts import path_width
from specsim.host.dflash import DflashParameters
from specsim.host.ngram import NgramParameters
from specsim.rules import ExecutionPlan, ServerConfig
from specsim.rules.others import DEFAULT_DFLASH_BLOCK
from specsim.rules.sizes import CHAIN_OF_THREE
from specsim.simulation.models.description import DraftSource

NAMES = tuple(one.value for one in SpeculativeAlgorithm if not one.is_none())
"""The algorithms that draft."""

SUMMARIES: Mapping[str, str] = {
    "EAGLE": "A draft layer over the target's hidden states, in trees or chains.",
    "EAGLE3": "As EAGLE, over hidden states of several layers of the target.",
    "STANDALONE": "A draft model of its own, which reads tokens alone.",
    "NGRAM": "Texts that were seen before; no draft model.",
    "DFLASH": "A whole block of drafts in one forward.",
    "FROZEN_KV_MTP": "A draft layer that reads the target's KV and writes none.",
}
"""What each of them drafts with."""

Sizes = tuple[int, int, int]
"""Branching factor, depth and nodes."""

OF_THE_RULES = (CHAIN_OF_THREE.topk, CHAIN_OF_THREE.num_steps, CHAIN_OF_THREE.num_draft_tokens)

DEFAULTS: Mapping[str, Sizes] = {
    "EAGLE": (4, 5, 16),
    "EAGLE3": OF_THE_RULES,
    "STANDALONE": OF_THE_RULES,
    "FROZEN_KV_MTP": OF_THE_RULES,
}
"""Sizes where nothing is said, of the algorithms whose drafts have as many levels as one likes (semantics F.4)."""

DRAFT_PATH = "draft"
"""The draft model that a simulation tells the rules of, where an algorithm has one beside the target."""

OF_THE_MODEL: Mapping[str, Mapping[str, Any]] = {
    "DFLASH": {"reads_all_layers": True},
    "EAGLE3": {"reads_all_layers": True},
    "FROZEN_KV_MTP": {"kv_sharing": (1,)},
    "STANDALONE": {"draft_source": DraftSource.TOKENS},
}
"""What the model of a simulation has for an algorithm."""


def sizes_of(
    algorithm: str, num_layers: int | None, topk: int | None, num_steps: int | None, num_draft_tokens: int | None
) -> Sizes:
    """Return branching factor, depth and nodes, as far as bounds go: NGRAM has no depth of its own.

    What a chain or a rest fixes is said on stderr.

    Raises
    ------
    Failed
        USAGE: a depth of an algorithm that has none, or another one than there are layers.
    """
    if num_layers is not None:
        return _layered_sizes(algorithm, num_layers, topk, num_steps, num_draft_tokens)
    if algorithm == "NGRAM":
        if num_steps is not None:
            raise Failed("--steps is for EAGLE: a path of NGRAM may hold every node of its draft", Exit.USAGE)
        own = NgramParameters()
        nodes = own.num_draft_tokens if num_draft_tokens is None else num_draft_tokens
        return own.max_breadth if topk is None else topk, 0, nodes
    if algorithm == "DFLASH":
        nodes = DEFAULT_DFLASH_BLOCK if num_draft_tokens is None else num_draft_tokens
        return 1 if topk is None else topk, 1 if num_steps is None else num_steps, nodes
    return _tree_sizes(DEFAULTS[algorithm], topk, num_steps, num_draft_tokens)


def _layered_sizes(
    algorithm: str, num_layers: int, topk: int | None, num_steps: int | None, num_draft_tokens: int | None
) -> Sizes:
    if algorithm not in ("EAGLE", "EAGLE3"):
        raise Failed(f"--multi-layer is for EAGLE and EAGLE3, and --algorithm is {algorithm}", Exit.USAGE)
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


def ngram_parameters(config: ServerConfig) -> NgramParameters:
    """Return the store and the drafts of a server that runs NGRAM."""
    nodes = require_present("nodes", config.num_draft_tokens)
    return NgramParameters(max_breadth=config.ngram_max_bfs_breadth, num_draft_tokens=nodes)


def dflash_parameters(config: ServerConfig) -> DflashParameters:
    """Return the block of a server that runs DFLASH."""
    return DflashParameters(require_present("nodes", config.num_draft_tokens))


PARAMETERS: Mapping[str, Callable[[ServerConfig], Any]] = {"NGRAM": ngram_parameters, "DFLASH": dflash_parameters}
"""What the worker of an algorithm takes in the place of sizes."""


def drafting_of(plan: ExecutionPlan) -> Any:
    """Return what the worker of a plan takes first: its sizes, or what its algorithm has in their place."""
    config, algorithm = plan.config, require_present("algorithm", plan.config.algorithm)
    if algorithm in PARAMETERS:
        return PARAMETERS[algorithm](config)
    topk, num_steps = require_present("topk", config.topk), require_present("steps", config.num_steps)
    return SpecConfig(topk, num_steps, require_present("nodes", config.num_draft_tokens))


def config_of(drafting: Any) -> SpecConfig:
    """Return the sizes of an iteration of a worker that takes this first."""
    config: SpecConfig = drafting if isinstance(drafting, SpecConfig) else drafting.config
    return config


def of_the_model(algorithm: str, num_layers: int | None) -> dict[str, Any]:
    """Return what the model of a simulation has for an algorithm, or for a draft of so many layers."""
    if num_layers is not None:
        return {"draft_source": DraftSource.LAYERS, "num_draft_layers": num_layers}
    return dict(OF_THE_MODEL.get(algorithm, {}))
