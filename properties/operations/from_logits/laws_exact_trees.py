"""The exact law of acceptance from raw logits: temperature, filters and walk emit the filtered target's law."""

from collections.abc import Sequence
from fractions import Fraction

import ml_dtypes
import numpy as np

from specsim.conformance.backend import Backend
from specsim.properties.distribution import Coins, Outcome, enumerate_cells, require_same_law
from specsim.properties.laws.checks import Array, Case, states
from specsim.properties.laws.sampling_cells import (
    coin_arguments,
    emitted_along_paths,
    slack_from_logits,
    split,
    tree_axes,
    tree_links,
    walk_law,
)
from specsim.properties.operations.acceptance.laws_exact_trees import describe
from specsim.properties.strategies.logit_scenes import (
    HALVING_TEMPERATURE,
    Filters,
    Logits,
    LogitScene,
    logit_batches,
    mixed_batches,
    uneven_batches,
    unfiltered_batches,
)

SAMPLER_FROM_LOGITS = "verify_tree_sampled_from_logits"


def logit_array(rows: Sequence[Logits]) -> Array:
    """Return rows of logits in float32; a forbidden token is -inf."""
    return np.array([[-np.inf if logit is None else logit for logit in row] for row in rows], dtype=np.float32)


def sampling_arguments(scenes: Sequence[LogitScene], counts: Sequence[int]) -> Case:
    """Return the parameters of a batch in which each scene occurs so many times in a row."""
    whole = np.ones(sum(counts), dtype=np.float32)
    filters = filter_arguments([scene.filters for scene in scenes], counts)
    return {**filters, "threshold_single": whole, "threshold_acc": whole}


def filter_arguments(filters: Sequence[Filters], counts: Sequence[int]) -> Case:
    """Return temperature and filters of a batch, each so many times in a row."""
    temperature = [0.0 if one.is_greedy else HALVING_TEMPERATURE for one in filters]
    return {
        "temperature": np.repeat(np.array(temperature, dtype=np.float32), counts),
        "top_k": np.repeat(np.array([one.top_k for one in filters], dtype=np.int32), counts),
        "top_p": np.repeat(np.array([float(one.top_p) for one in filters], dtype=np.float32), counts),
        "min_p": np.repeat(np.array([float(one.min_p) for one in filters], dtype=np.float32), counts),
    }


def play_logits(
    backend: Backend, scenes: Sequence[LogitScene], coins: Sequence[Coins], dtype: str, left_out: Sequence[str] = ()
) -> list[list[Outcome]]:
    """Run scenes in one batch, each once a row of its coins, without some filters, which no scene has."""
    counts = [len(rows) for rows in coins]
    blocks = np.repeat(np.stack([logit_array(scene.logits) for scene in scenes]), counts, axis=0)
    logits = blocks.reshape(-1, blocks.shape[-1])
    case = {
        **tree_links([scene.tree for scene in scenes], counts),
        **coin_arguments(coins),
        **sampling_arguments(scenes, counts),
        **dict.fromkeys(left_out),
        "logits": logits.astype(ml_dtypes.bfloat16) if dtype == "bfloat16" else logits,
        "strict": True,
        "skip_duplicates": True,
    }
    return split(emitted_along_paths(backend.run(SAMPLER_FROM_LOGITS, case).outputs), counts)


def require_law_from_logits(
    backend: Backend, scenes: Sequence[LogitScene], slack: Fraction, dtype: str, left_out: Sequence[str] = ()
) -> None:
    """Raise AssertionError unless every request emits the law of its filtered rows, term by term."""
    cells = [enumerate_cells(tree_axes(scene.tree), slack, slack) for scene in scenes]
    emitted = play_logits(backend, scenes, [one.coins for one in cells], dtype, left_out)
    for request, (scene, one, outcomes) in enumerate(zip(scenes, cells, emitted, strict=True)):
        what = f"law of request {request} of {len(scenes)}, {scene.filters}, {describe(scene.tree)}"
        require_same_law(what, one.law_of(outcomes), walk_law(scene.tree))


def logits_emit_the_filtered_law(backend: Backend, scenes: list[LogitScene]) -> None:
    """From float32 logits each request emits the exact law of its own temperature, top-k, top-p and min-p."""
    require_law_from_logits(backend, scenes, slack_from_logits(scenes[0].tree.vocab_size), "float32")


def half_precision_emits_the_same_law(backend: Backend, scenes: list[LogitScene]) -> None:
    """From bfloat16 logits, which hold whole numbers exactly, the law is the same."""
    require_law_from_logits(backend, scenes, slack_from_logits(scenes[0].tree.vocab_size), "bfloat16")


def greedy_requests_are_certain_in_a_mixed_batch(backend: Backend, scenes: list[LogitScene]) -> None:
    """Beside sampled requests a greedy one emits its largest logits at every coin, and the others their own law."""
    require_law_from_logits(backend, scenes, slack_from_logits(scenes[0].tree.vocab_size), "float32")


def requests_without_filters_emit_their_law(backend: Backend, scenes: list[LogitScene]) -> None:
    """A call that leaves top-k, top-p and min-p out emits the exact law of each temperature, or a greedy choice."""
    left_out = ("top_k", "top_p", "min_p")
    require_law_from_logits(backend, scenes, slack_from_logits(scenes[0].tree.vocab_size), "float32", left_out)


PROPERTIES = states(
    "sampling_logits_law",
    (requests_without_filters_emit_their_law, unfiltered_batches, SAMPLER_FROM_LOGITS, "P13"),
    (logits_emit_the_filtered_law, logit_batches, SAMPLER_FROM_LOGITS, "P13"),
    (half_precision_emits_the_same_law, uneven_batches, SAMPLER_FROM_LOGITS, "P13"),
    (greedy_requests_are_certain_in_a_mixed_batch, mixed_batches, SAMPLER_FROM_LOGITS, "P13"),
)
