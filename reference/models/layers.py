"""Hidden states of several layers side by side, as EAGLE3's draft consumes them when it catches up.

What a layer says of itself is what the target knows so far: the folds up to its own, and the context word, shifted by
the number of the layer. A block that stands in another's place, or a layer that is missing, makes other words of it.
"""

from collections.abc import Sequence

import numpy as np

from specsim.conformance.arrays import Array
from specsim.hashing import GOLDEN, MASK
from specsim.simulation.models.description import FINAL_LAYER


def side_by_side(hidden_states: Array, layers: Sequence[int]) -> Array | None:
    """Return the hidden states of some layers, int64 [token, layer*hidden]; None where none is asked for.

    Parameters
    ----------
    hidden_states : int64 [token, hidden]
        Those of the final layer.
    """
    blocks = []
    for layer in layers:
        known = hidden_states.copy()
        if layer != FINAL_LAYER:
            known[:, layer + 1 : -1] = 0
        blocks.append((known + _shift(layer)) & MASK)
    return np.concatenate(blocks, axis=1) if blocks else None


def as_one(hidden_states: Array, layers: Sequence[int]) -> Array:
    """Return int64 [token, hidden] of layers side by side: each fold from its own layer, the context word from all."""
    shifts = np.array([_shift(layer) for layer in layers])
    width = hidden_states.shape[1] // len(layers)
    blocks = (hidden_states.reshape(len(hidden_states), len(layers), width) - shifts[:, None]) & MASK
    combined: Array = blocks[:, -1].copy()
    for place, layer in enumerate(layers):
        if layer != FINAL_LAYER:
            combined[:, layer] = blocks[:, place, layer]
    differences = (blocks[:, :, -1] - blocks[:, :1, -1]).sum(axis=1)
    combined[:, -1] = (blocks[:, 0, -1] + differences) & MASK
    return combined


def _shift(layer: int) -> int:
    return (layer - FINAL_LAYER) * GOLDEN & MASK
