"""The algorithms that engines of a soak and of a matrix run: a row each, with all that tells them from EAGLE."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

import numpy as np

from specsim.algorithms import SpeculativeAlgorithm, WorkerRequest
from specsim.config import SpecConfig
from specsim.host.dflash import DflashParameters
from specsim.host.ngram import NgramParameters, TreeMode
from specsim.properties.laws.support.histories import VOCABULARY
from specsim.simulation.models.description import DraftSource
from specsim.simulation.models.hash_model import HashModel

EAGLE = "EAGLE"

MOST_COLD = 4
"""Tokens that a draft of some tokens never proposes."""

Draw = Callable[[SpecConfig, Random], Any]


@dataclass(frozen=True)
class Drafter:
    """What an engine of an algorithm needs beside what every engine has.

    Parameters
    ----------
    algorithm : SpeculativeAlgorithm
        Whose worker runs.
    is_multi_layer : bool
        Every draft step has a layer of its own.
    settings : mapping
        Of a server, beside algorithm, sizes and pages.
    sizes : mapping
        Drafts by their branching factor, where they are not those of EAGLE.
    parameters : callable or None
        Draws what the worker takes in the place of sizes; its ``config`` has the sizes of an iteration.
    model : callable or None
        Draws what a model has for it.
    vocab_size : int
        Tokens of the model, and of what it is asked.
    has_own_tags : bool
        The draft's entries are those of EAGLE, whose tags are known; others are compared with a fresh prefill's.
    has_memory : bool
        What a request drafts depends on those before it and beside it.
    cuts_by_company : bool
        Of tokens that are as likely, how many a top-k keeps depends on the requests beside (semantics A.14b).
    adapts : bool
        The number of steps changes while it runs.
    has_any_size : bool
        Its drafts have the sizes of EAGLE's, and another engine may go on with other ones.
    has_any_pool : bool
        Its entries may lie in every kind of pool that EAGLE's may.
    extends : bool
        Its draft catches up with a verify by a forward, which V1 runs for other ranks, too.
    reads_states : bool
        It drafts where the target has recurrent state.
    """

    algorithm: SpeculativeAlgorithm
    is_multi_layer: bool = False
    settings: Mapping[str, Any] = field(default_factory=dict)
    sizes: Mapping[int, tuple[SpecConfig, ...]] = field(default_factory=dict)
    parameters: Draw | None = None
    model: Callable[[HashModel, Random], HashModel] | None = None
    vocab_size: int = VOCABULARY
    has_own_tags: bool = True
    has_memory: bool = False
    cuts_by_company: bool = False
    adapts: bool = False
    has_any_size: bool = False
    has_any_pool: bool = False
    extends: bool = True
    reads_states: bool = True

    def worker_name(self, is_v1: bool) -> str:
        """Return the name of the worker of a kind."""
        request = WorkerRequest("v1" if is_v1 else "v2", is_overlapped=False, is_multi_layer=self.is_multi_layer)
        return self.algorithm.worker_name(request)


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


def draw_hot_drafts(model: HashModel, random: Random) -> HashModel:
    """Draw a draft that reads every layer of the target, and proposes most of its tokens only."""
    tokens = np.random.default_rng(random.randrange(1 << 16)).permutation(model.vocab_size)
    hot = tokens[: -min(MOST_COLD, model.vocab_size // 2)]
    return replace(model, reads_all_layers=True, hot_token_id=hot)


def draw_reader_of_the_target(model: HashModel, random: Random) -> HashModel:
    """Draw a draft whose layers read those of the target, any of them."""
    layers = range(model.num_target_layers)
    return replace(model, kv_sharing=tuple(random.choice(layers) for _ in range(model.num_draft_layers)))


def draw_layers(model: HashModel, random: Random) -> HashModel:
    """Return a model whose draft has a layer for each of three steps."""
    return replace(model, draft_source=DraftSource.LAYERS, num_draft_layers=LAYERS.num_steps)


def draw_every_layer(model: HashModel, random: Random) -> HashModel:
    """Return a model whose draft reads every layer of the target."""
    return replace(model, reads_all_layers=True)


def draw_draft_of_its_own(model: HashModel, random: Random) -> HashModel:
    """Return a model whose draft consumes tokens alone."""
    return replace(model, draft_source=DraftSource.TOKENS)


LAYERS = SpecConfig(1, 3, 4)
"""Drafts of a layer a step."""

DRAFTERS = {
    EAGLE: Drafter(SpeculativeAlgorithm.EAGLE, adapts=True, has_any_size=True, has_any_pool=True),
    "MULTI_LAYER": Drafter(
        SpeculativeAlgorithm.EAGLE,
        is_multi_layer=True,
        sizes={1: (LAYERS,)},
        model=draw_layers,
        has_own_tags=False,
    ),
    "EAGLE3": Drafter(
        SpeculativeAlgorithm.EAGLE3, model=draw_hot_drafts, adapts=True, has_any_size=True, has_any_pool=True
    ),
    "STANDALONE": Drafter(
        SpeculativeAlgorithm.STANDALONE, model=draw_draft_of_its_own, has_any_size=True, has_any_pool=True
    ),
    "FROZEN_KV_MTP": Drafter(
        SpeculativeAlgorithm.FROZEN_KV_MTP,
        settings={"draft_model_path": "draft"},
        model=draw_reader_of_the_target,
        has_own_tags=False,
        has_any_size=True,
        extends=False,
        reads_states=False,
    ),
    "DFLASH": Drafter(
        SpeculativeAlgorithm.DFLASH,
        settings={"draft_model_path": "draft"},
        sizes={1: (SpecConfig(1, 3, 4), SpecConfig(1, 7, 8), SpecConfig(1, 1, 2), SpecConfig(1, 15, 16))},
        model=draw_every_layer,
        parameters=draw_block,
        cuts_by_company=True,
        has_own_tags=False,
        extends=False,
    ),
    # NOTE: of few tokens some path of a store goes on as the target does, and some does not.
    "NGRAM": Drafter(SpeculativeAlgorithm.NGRAM, parameters=draw_store, vocab_size=3, has_memory=True, extends=False),
}
"""By the names that cells and setups have for them."""

WORKER_NAMES = frozenset(drafter.worker_name(is_v1) for drafter in DRAFTERS.values() for is_v1 in (False, True))
"""The names of all workers that engines run, as ``WORKERS`` of a module has them."""
