"""Hidden states of several layers side by side on the device; see ``specsim.reference.models.layers``."""

from collections.abc import Sequence

import torch
from torch import Tensor

from specsim.hashing import GOLDEN, MASK
from specsim.simulation.models.description import FINAL_LAYER


def side_by_side(hidden_states: Tensor, layers: Sequence[int]) -> Tensor | None:
    """Return the hidden states of some layers, int64 [token, layer*hidden]; None where none is asked for."""
    blocks = []
    for layer in layers:
        known = hidden_states.clone()
        if layer != FINAL_LAYER:
            known[:, layer + 1 : -1] = 0
        blocks.append((known + _shift(layer)) & MASK)
    return torch.cat(blocks, dim=1) if blocks else None


def as_one(hidden_states: Tensor, layers: Sequence[int]) -> Tensor:
    """Return int64 [token, hidden] of layers side by side: each fold from its own layer, the context word from all."""
    wide = hidden_states.view(hidden_states.shape[0], len(layers), hidden_states.shape[1] // len(layers))
    blocks = [(wide[:, place] - _shift(layer)) & MASK for place, layer in enumerate(layers)]
    combined = blocks[-1].clone()
    for block, layer in zip(blocks, layers, strict=True):
        if layer != FINAL_LAYER:
            combined[:, layer] = block[:, layer]
    first = blocks[0][:, -1]
    combined[:, -1] = sum((block[:, -1] - first for block in blocks), first) & MASK
    return combined


def _shift(layer: int) -> int:
    return (layer - FINAL_LAYER) * GOLDEN & MASK
