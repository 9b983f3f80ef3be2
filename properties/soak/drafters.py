"""What engines of a soak and of a matrix draw for a drafter beside what every engine has, by its record."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random
from typing import Any

import numpy as np

from specsim.algorithms import WORKERS, Drafter
from specsim.config import SpecConfig
from specsim.host.dflash import DflashParameters
from specsim.host.ngram import NgramParameters, TreeMode
from specsim.properties.runs.drafted import FEW_TOKENS
from specsim.properties.runs.histories import VOCABULARY
from specsim.simulation.models.hash_model import HashModel
from specsim.simulation.models.needs import fields_for

EAGLE = "EAGLE"

MOST_COLD = 4
"""Tokens that a draft of some tokens never proposes."""

LAYERS = SpecConfig(1, 3, 4)
"""Drafts of a layer a step."""


def draw_store(config: SpecConfig, random: Random) -> NgramParameters:
    """Draw a store that forgets soon, and drafts of as many nodes as EAGLE has."""
    return NgramParameters(
        max_depth=random.choice((4, 6, 3)),
        max_breadth=config.topk,
        capacity=random.choice((10_000, 200)),
        num_draft_tokens=config.num_draft_tokens,
        mode=random.choice((TreeMode.BFS, TreeMode.PROB)),
    )


def draw_block(config: SpecConfig, random: Random) -> DflashParameters:
    """Return a block of as many nodes."""
    return DflashParameters(config.num_draft_tokens)


@dataclass(frozen=True)
class Parameters:
    """What a worker takes in the place of sizes.

    Parameters
    ----------
    draw : callable
        Draws it of the sizes that an iteration may have; its ``config`` has those that it has.
    chains : tuple of SpecConfig
        Sizes that it may have, where they are not those of EAGLE.
    """

    draw: Callable[[SpecConfig, Random], Any]
    chains: tuple[SpecConfig, ...] = ()


PARAMETERS = {
    "specsim.host.dflash.DflashParameters": Parameters(
        draw_block, (SpecConfig(1, 3, 4), SpecConfig(1, 7, 8), SpecConfig(1, 1, 2), SpecConfig(1, 15, 16))
    ),
    "specsim.host.ngram.NgramParameters": Parameters(draw_store),
}
"""By their class, as records name it."""


def parameters_of(drafter: Drafter) -> Parameters | None:
    """Return what a drafter's worker takes in the place of sizes; None where it takes sizes."""
    return PARAMETERS[drafter.parameters] if drafter.parameters else None


def chains_of(drafter: Drafter) -> tuple[SpecConfig, ...]:
    """Return the sizes of a drafter's chains, where they are not those of EAGLE; no sizes where they are."""
    if drafter.is_multi_layer:
        return (LAYERS,)
    own = parameters_of(drafter)
    return () if own is None else own.chains


def vocab_size_of(drafter: Drafter) -> int:
    """Return the number of tokens of a drafter's model, and of what it is asked."""
    return FEW_TOKENS if drafter.reads_texts else VOCABULARY


def draw_model(drafter: Drafter, model: HashModel, random: Random) -> HashModel:
    """Draw what a model has for a drafter; a draft of an algorithm of its own sizes proposes every token."""
    layers = range(model.num_target_layers)
    read = [random.choice(layers) for _ in range(model.num_draft_layers)] if drafter.reads_target_kv else []
    model = replace(model, **fields_for(drafter, LAYERS.num_steps, read))
    if not drafter.reads_all_layers or drafter.parameters:
        return model
    tokens = np.random.default_rng(random.randrange(1 << 16)).permutation(model.vocab_size)
    return replace(model, hot_token_id=tokens[: -min(MOST_COLD, model.vocab_size // 2)])


def settings_of(drafter: Drafter) -> dict[str, Any]:
    """Return the settings of a server for a drafter beside algorithm, sizes and pages."""
    return {"draft_model_path": "draft"} if drafter.has_draft_path else {}


WORKER_NAMES = frozenset(WORKERS)
"""The names of all workers that engines run, as ``WORKERS`` of a module has them."""
