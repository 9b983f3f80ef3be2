"""NumPy's arrays for what both layers run; see ``specsim.simulation.draft_sides.layer.ArrayLibrary``."""

from collections.abc import Sequence

import numpy as np

from specsim.conformance.arrays import KIND, Array, to_numpy
from specsim.operations.outputs import SelectTopKTokensOutputs
from specsim.operations.protocol import Operations
from specsim.reference.worker.compact import compact

arange, concat, full, where, zeros = np.arange, np.concatenate, np.full, np.where, np.zeros

__all__ = [
    "KIND",
    "arange",
    "asarray",
    "astype",
    "choose_beams",
    "compact",
    "concat",
    "copy",
    "full",
    "owners_of",
    "repeat",
    "take",
    "to_numpy",
    "where",
    "zeros",
]


def asarray(values: Array | Sequence[int], dtype: str = "int64") -> Array:
    """Return numbers as an array."""
    return np.array(values, dtype=dtype)


def astype(values: Array, dtype: str) -> Array:
    """Return a copy with elements of another type."""
    return values.astype(dtype)


def repeat(values: Array, count: int) -> Array:
    """Return every entry along the first axis so many times, one after another."""
    return np.repeat(values, count, axis=0)


def take(values: Array, places: Array) -> Array:
    """Return entries along the first axis."""
    return values[places]


def copy(values: Array) -> Array:
    """Return a copy."""
    return values.copy()


def choose_beams(
    step_index: int,
    probabilities: Array,
    hot_token_id: Array | None,
    hidden_states: Array | None,
    scores: Array | None,
    topk: int,
    operations: Operations[Array],
) -> SelectTopKTokensOutputs[Array]:
    """Choose the beams of the next depth from what a step proposes, in ids of the target."""
    topk_p, topk_index = operations.fast_topk(probabilities, topk)
    if hot_token_id is not None:
        topk_index = operations.map_hot_tokens(topk_index, hot_token_id)
    return operations.select_top_k_tokens(step_index, topk_p, topk_index, hidden_states, scores, topk)


def owners_of(starts: Array, count: int) -> Array:
    """Return int64 [count]: the run of entries that each of ``count`` entries is in."""
    owners: Array = np.searchsorted(starts, np.arange(count), side="right") - 1
    return owners
