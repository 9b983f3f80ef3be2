"""The draft of STANDALONE on the device; see ``specsim.reference.models.alone``. Shapes are those of the metadata."""

import torch
from torch import Tensor
from torch.nn.functional import pad

from specsim.gpu.models.recurrence import Recurrence, after_chunks, words_of
from specsim.hashing import MASK
from specsim.simulation.models.batches import DraftExtendBatch, DraftStepBatch, PagedKeys, TargetBatch
from specsim.simulation.models.pool_kinds import CONVOLUTION, CONVOLUTION_WIDTH, RECURRENT

NOWHERE = 1 << 40
"""A position after every other."""


def hidden_before_steps(batch: DraftStepBatch[Tensor], keys: Tensor, num_layers: int) -> Tensor:
    """Return int64 [beam, hidden]: the hidden states after all that each beam sees, its new token excepted."""
    facts, device = batch.keys, keys.device
    starts, ends = facts.kv_indptr[:-1].long(), facts.kv_indptr[1:].long()
    place = starts[:, None] + torch.arange(facts.max_num_keys, device=device)
    # NOTE: an entry after the last one is there to be read where beams see nothing at all.
    slots = pad(facts.kv_indices, (0, 1))[place.clamp(max=facts.kv_indices.shape[0])].long()
    is_seen = (place < ends[:, None]) & (slots != batch.out_cache_loc[:, None])
    return _states_after(slots, is_seen, keys, num_layers).hidden_states()


def hidden_before_chunks(batch: DraftExtendBatch[Tensor], keys: Tensor, num_layers: int) -> Tensor:
    """Return int64 [token, hidden]: the hidden states after all that lies before each new token."""
    facts, device = batch.keys, keys.device
    starts = facts.cu_seqlens_q.long()
    position = torch.arange(facts.page_table.shape[1] * facts.page_size, device=device)
    slots = facts.page_table[:, position // facts.page_size].long() * facts.page_size + position % facts.page_size
    num_before = facts.cache_seqlens.long() - starts.diff()
    known = _states_after(slots, position < num_before[:, None], keys, num_layers)
    states = {RECURRENT: [sums[:, None] for sums in known.sums.unbind(1)], CONVOLUTION: [known.windows]}
    after = after_chunks(_chunks(batch, facts), states).hidden_states()
    token = torch.arange(batch.input_ids.shape[0], device=device)
    request = (torch.searchsorted(starts, token, right=True) - 1).clamp(max=known.sums.shape[0] - 1)
    is_first = (token == starts[request])[:, None]
    return torch.where(is_first, known.hidden_states()[request], after.roll(1, 0))


def _states_after(slots: Tensor, is_seen: Tensor, keys: Tensor, num_layers: int) -> Recurrence:
    """Return the states after some texts, whose tokens are the entries in slots, by their positions."""
    entries = keys[slots.clamp(min=0, max=keys.shape[0] - 1)]
    order = torch.where(is_seen, entries[..., 0], NOWHERE).sort(dim=1, stable=True).indices
    first = order.new_zeros(order.shape[0], 1)
    positions = torch.cat([first, entries[..., 0].gather(1, order) + 1], dim=1)
    tokens = torch.cat([first, entries[..., 1].gather(1, order)], dim=1)
    is_there = torch.cat([torch.ones_like(first, dtype=torch.bool), is_seen.gather(1, order)], dim=1)
    sums: list[Tensor] = []
    below = torch.zeros_like(tokens)
    for layer in range(num_layers):
        words = torch.where(is_there, words_of(layer, tokens, positions, below), 0)
        below = words.cumsum(1) & MASK
        sums.append(below[:, -1])
    back = torch.arange(CONVOLUTION_WIDTH, device=keys.device).flip(0)
    last = is_there.sum(dim=1, keepdim=True) - 1 - back
    windows = torch.where(last >= 0, tokens.gather(1, last.clamp(min=0)), 0)
    return Recurrence(torch.stack(sums, dim=1), windows)


def _chunks(batch: DraftExtendBatch[Tensor], keys: PagedKeys[Tensor]) -> TargetBatch[Tensor]:
    """Return the new tokens as chunks of texts, numbered from 0, at the positions of the target."""
    return TargetBatch(
        req_pool_indices=torch.arange(keys.cu_seqlens_q.shape[0] - 1, device=batch.input_ids.device),
        input_ids=batch.input_ids,
        positions=batch.positions + 1,
        out_cache_loc=batch.out_cache_loc,
        prefix_lens=batch.positions,
        keys=keys,
        tree_mask=None,
        parents=None,
        select=None,
        hidden_layers=(),
        is_sampled=False,
    )
