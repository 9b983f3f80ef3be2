"""Keys of new tokens as trees, the form in which ``tree_attention`` takes them.

All shapes are those of the batch, so that a CUDA graph can be captured.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from specsim.simulation.models.batches import ListedKeys, PagedKeys


@dataclass(frozen=True)
class Trees:
    """The keys of the new tokens: one tree of ``num_nodes`` of them after another."""

    page_table: Tensor
    lengths: Tensor
    mask: Tensor
    num_nodes: int
    page_size: int


def paged(keys: PagedKeys[Tensor], num_tokens: int, tree_mask: Tensor | None) -> Trees:
    """Return a tree a request, or without a mask a tree of one node for each token, whose last key it is."""
    if tree_mask is not None:
        num_nodes = tree_mask.shape[0] // num_tokens if num_tokens else 1
        return Trees(keys.page_table, keys.cache_seqlens, tree_mask, num_nodes, keys.page_size)
    token = torch.arange(num_tokens, dtype=torch.int32, device=keys.page_table.device)
    request = torch.searchsorted(keys.cu_seqlens_q, token, right=True) - 1
    num_later = keys.cu_seqlens_q[1:].index_select(0, request) - token - 1
    lengths = keys.cache_seqlens.index_select(0, request) - num_later
    return alone(keys.page_table.index_select(0, request), lengths, keys.page_size)


def listed(keys: ListedKeys[Tensor], num_tokens: int) -> Trees:
    """Return a tree of one node for each token, whose keys are listed."""
    place = torch.arange(keys.max_num_keys, device=keys.kv_indices.device)
    begin, end = keys.kv_indptr[:num_tokens], keys.kv_indptr[1 : num_tokens + 1]
    index = begin[:, None] + place
    slots = keys.kv_indices[index.clamp(max=keys.kv_indices.shape[0] - 1)].where(index < end[:, None], 0)
    return alone(slots, end - begin, 1)


def alone(page_table: Tensor, lengths: Tensor, page_size: int) -> Trees:
    """Return trees of one node."""
    return Trees(page_table, lengths, torch.ones_like(lengths, dtype=torch.bool), 1, page_size)
