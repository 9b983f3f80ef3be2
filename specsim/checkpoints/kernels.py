"""Attention of a checkpoint by the operation ``tree_attention``, which reads pages where they lie.

All shapes are those of the batch, so that a CUDA graph can be captured.
"""

from dataclasses import dataclass
from functools import cache

import torch
from torch import Tensor

from specsim import gpu
from specsim.checkpoints.attention import Attend, Scores, Window
from specsim.simulation.models.batches import ListedKeys, PagedKeys


@dataclass(frozen=True)
class Trees:
    """The keys of the new tokens, a tree of ``num_nodes`` of them after another, as the operation takes them."""

    page_table: Tensor
    lengths: Tensor
    mask: Tensor
    num_nodes: int
    page_size: int


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
    """Return a tree a request, or where there is no mask a tree of one node for each token, whose last key it is."""
    keys, num_tokens = window.keys, window.positions.shape[0]
    if isinstance(keys, ListedKeys):
        return _listed(keys, num_tokens)
    if window.tree_mask is None:
        return _causal(keys, num_tokens)
    num_nodes = window.tree_mask.shape[0] // num_tokens
    return Trees(keys.page_table, keys.cache_seqlens, window.tree_mask, num_nodes, keys.page_size)


def _causal(keys: PagedKeys[Tensor], num_tokens: int) -> Trees:
    token = torch.arange(num_tokens, dtype=torch.int32, device=keys.page_table.device)
    request = torch.searchsorted(keys.cu_seqlens_q, token, right=True) - 1
    num_later = keys.cu_seqlens_q[1:].index_select(0, request) - token - 1
    lengths = keys.cache_seqlens.index_select(0, request) - num_later
    return _alone(keys.page_table.index_select(0, request), lengths, keys.page_size)


def _listed(keys: ListedKeys[Tensor], num_tokens: int) -> Trees:
    place = torch.arange(keys.max_num_keys, device=keys.kv_indices.device)
    begin, end = keys.kv_indptr[:num_tokens], keys.kv_indptr[1 : num_tokens + 1]
    index = begin[:, None] + place
    slots = keys.kv_indices[index.clamp(max=keys.kv_indices.shape[0] - 1)].where(index < end[:, None], 0)
    return _alone(slots, end - begin, 1)


def _alone(page_table: Tensor, lengths: Tensor, page_size: int) -> Trees:
    return Trees(page_table, lengths, torch.ones_like(lengths, dtype=torch.bool), 1, page_size)
