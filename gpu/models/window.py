"""The layers of a toy model that see a sliding window, on the device: shapes are known on the host, nothing waits."""

from collections.abc import Sequence

import torch
from torch import Tensor

from specsim.gpu.models.stored import digest
from specsim.hashing import GOLDEN, MASK
from specsim.simulation.models.batches import TargetBatch
from specsim.simulation.models.pool_kinds import SWA_COMPONENT, SWA_KEYS, SWA_VALUES


def disturb(hidden_states: Tensor, batch: TargetBatch[Tensor], keys: Sequence[Tensor]) -> Tensor:
    """Write the entries of the new tokens, and return hidden states with what differs in the window of each.

    ``keys`` int64 [slot, 4] are those of the layers that see everything, from the lowest. A token reads as many places
    as its window has, and all nodes of its tree; what it does not see counts nothing.
    """
    window_keys = batch.window_keys
    if window_keys is None or not hidden_states.shape[0]:
        return hidden_states
    buffers = [window_keys.kv[name][0] for name in (SWA_KEYS, SWA_VALUES)]
    for component, buffer in enumerate(buffers):
        buffer.index_copy_(
            0, window_keys.out_cache_loc, _entries_of(batch.positions, batch.input_ids, SWA_COMPONENT + component)
        )
    request, places, is_seen = _sight(batch, window_keys.window)
    known = keys[0][batch.keys.page_table[request, places].long()]
    slots = window_keys.page_table[request, places].long()
    words = torch.zeros_like(slots)
    for component, buffer in enumerate(buffers):
        expected = _entries_of(known[..., 0], known[..., 1], SWA_COMPONENT + component)
        words += digest(buffer[slots].unbind(-1)) - digest(expected.unbind(-1))
    difference = torch.where(is_seen, words, 0).sum(dim=1)
    disturbed = hidden_states.clone()
    disturbed[:, -2:] = (hidden_states[:, -2:] + difference[:, None] * GOLDEN) & MASK
    return disturbed


def _sight(batch: TargetBatch[Tensor], window: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return the request of each token [token, 1], the places of its row that it reads, and which of them it sees."""
    num_tokens, device = batch.input_ids.shape[0], batch.input_ids.device
    token = torch.arange(num_tokens, dtype=torch.int32, device=device)
    request = torch.searchsorted(batch.keys.cu_seqlens_q[1:].contiguous(), token, right=True)[:, None]
    own = batch.positions[:, None]
    before = own - torch.arange(window, device=device)
    if batch.tree_mask is None:
        places, is_seen = before, before >= 0
    else:
        num_requests = batch.keys.cu_seqlens_q.shape[0] - 1
        num_nodes = num_tokens // num_requests
        prefix = batch.prefix_lens[request]
        nodes = prefix + torch.arange(num_nodes, device=device)
        node_positions = batch.positions.view(num_requests, num_nodes)[request[:, 0]]
        on_path = batch.tree_mask.view(num_tokens, num_nodes) & (own - node_positions < window)
        places = torch.cat([before, nodes], dim=1)
        is_seen = torch.cat([(before >= 0) & (before < prefix), on_path], dim=1)
    return request, places.clamp(0, batch.keys.page_table.shape[1] - 1), is_seen


def _entries_of(positions: Tensor, tokens: Tensor, component: int) -> Tensor:
    """Return the entries of positions and tokens, int64 [..., 4]."""
    return torch.stack([positions, tokens, torch.zeros_like(tokens), torch.full_like(tokens, component)], dim=-1)
