"""Attention of a checkpoint by the operation ``tree_attention``, which reads pages where they lie.

All shapes are those of the batch, so that a CUDA graph can be captured.
"""

from functools import cache

import torch
from torch import Tensor

from specsim import gpu
from specsim.checkpoints.attention import Attend, Scores, Window
from specsim.gpu.models.trees import Trees, listed, paged
from specsim.simulation.models.batches import ListedKeys


def in_kernels(window: Window) -> Attend:
    """Return attention by the operation; scores are plain ones."""
    trees = _trees(window)

    def attend_in_kernels(query: Tensor, keys: Tensor, values: Tensor, how: Scores) -> Tensor:
        return gpu.tree_attention(
            query.contiguous(),
            keys,
            values,
            trees.lengths,
            trees.page_table,
            trees.mask,
            _scale(how.scaling, query.device),
            trees.num_nodes,
            trees.page_size,
        ).attention

    return attend_in_kernels


@cache
def _scale(scaling: float, device: torch.device) -> Tensor:
    return torch.tensor([scaling], dtype=torch.float32, device=device)


def _trees(window: Window) -> Trees:
    keys, num_tokens = window.keys, window.positions.shape[0]
    return listed(keys, num_tokens) if isinstance(keys, ListedKeys) else paged(keys, num_tokens, window.tree_mask)
