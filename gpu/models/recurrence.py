"""The recurrent side of a toy model on the device, as ``specsim.reference.models.recurrence`` says it.

The forward over trees can be captured: it walks the nodes, however deep they are, and every request at once.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from specsim.assertion import require_present
from specsim.gpu.models.stored import digest
from specsim.hashing import GOLDEN, MASK
from specsim.simulation.models.batches import TargetBatch
from specsim.simulation.models.pool_kinds import CONVOLUTION, CONVOLUTION_WIDTH, RECURRENT

States = Mapping[str, Sequence[Tensor]]


@dataclass(frozen=True)
class Recurrence:
    """The states after each token: int64 [token, layer], and the last tokens, int64 [token, 4], newest last."""

    sums: Tensor
    windows: Tensor

    def hidden_states(self) -> Tensor:
        """Return the hidden states of a target that has nothing else."""
        shifts = 8 * torch.arange(CONVOLUTION_WIDTH, device=self.sums.device).flip(0)
        context_word = (self.windows << shifts).sum(dim=1) & MASK
        return torch.cat([self.sums, context_word[:, None]], dim=1)

    def beside(self, attended: Tensor) -> Tensor:
        """Return the hidden states of attention, with all that the states say differently in the last fold."""
        difference = (self.hidden_states() - attended).sum(dim=1)
        combined = attended.clone()
        combined[:, -2] = (attended[:, -2] + difference * GOLDEN) & MASK
        return combined


def after_chunks(batch: TargetBatch[Tensor], states: States) -> Recurrence:
    """Return the states after each token of some chunks of prompts."""
    starts, rows = batch.keys.cu_seqlens_q.long(), batch.req_pool_indices
    token = torch.arange(batch.input_ids.shape[0], device=rows.device)
    request = torch.searchsorted(starts, token, right=True) - 1
    first, row = starts[request], rows[request]
    sums: list[Tensor] = []
    below = torch.zeros_like(batch.input_ids)
    for layer, state in enumerate(states[RECURRENT]):
        words = words_of(layer, batch.input_ids, batch.positions, below)
        total = words.cumsum(0)
        below = (state[row, 0] + total - (total - words)[first]) & MASK
        sums.append(below)
    back = torch.arange(CONVOLUTION_WIDTH, device=rows.device).flip(0)
    place = (token - first)[:, None] - back
    own = batch.input_ids[(first[:, None] + place).clamp(min=0)]
    before = states[CONVOLUTION][0][row].gather(1, (place + CONVOLUTION_WIDTH).clamp(max=CONVOLUTION_WIDTH - 1))
    return Recurrence(torch.stack(sums, dim=1), torch.where(place >= 0, own, before))


def after_nodes(batch: TargetBatch[Tensor], states: States) -> Recurrence:
    """Return the states after each node: those after its parent, or the committed ones, and its token."""
    parents, rows = require_present("parents", batch.parents), batch.req_pool_indices
    num_requests, num_nodes = parents.shape
    request = torch.arange(num_requests, device=rows.device)
    # NOTE: entry 0 is the committed state, so that the state that node n starts from is entry parents[n] + 1.
    before = parents + 1
    tokens, positions = batch.input_ids.view(parents.shape), batch.positions.view(parents.shape)
    sums: list[Tensor] = []
    below = torch.zeros_like(tokens)
    for layer, state in enumerate(states[RECURRENT]):
        after = torch.cat([state[rows], words_of(layer, tokens, positions, below)], dim=1)
        for node in range(num_nodes):
            after[:, node + 1] += after[request, before[:, node]]
        below = after[:, 1:] & MASK
        sums.append(below)
    committed = states[CONVOLUTION][0][rows]
    windows = torch.cat([committed[:, None], tokens[:, :, None].repeat(1, 1, CONVOLUTION_WIDTH)], dim=1)
    for node in range(num_nodes):
        windows[:, node + 1, :-1] = windows[request, before[:, node], 1:]
    flat = windows[:, 1:].reshape(-1, CONVOLUTION_WIDTH)
    return Recurrence(torch.stack(sums, dim=2).view(-1, len(sums)), flat)


def keep_chunks(recurrence: Recurrence, batch: TargetBatch[Tensor], states: States) -> None:
    """Write the states after the last token of each chunk."""
    rows, last = batch.req_pool_indices, batch.keys.cu_seqlens_q[1:].long() - 1
    for layer, state in enumerate(states[RECURRENT]):
        state[rows, 0] = recurrence.sums[last, layer]
    states[CONVOLUTION][0][rows] = recurrence.windows[last]


def keep_nodes(recurrence: Recurrence, scratch: States) -> None:
    """Write the states after every node."""
    for layer, written in enumerate(scratch[RECURRENT]):
        written[..., 0] = recurrence.sums[:, layer].view(written.shape[:2])
    (written,) = scratch[CONVOLUTION]
    written.copy_(recurrence.windows.view(written.shape))


def keep_chains(recurrence: Recurrence, batch: TargetBatch[Tensor], scratch: States) -> None:
    """Write the states after every node of chains of several lengths; after its last node a chain repeats it."""
    (windows,), starts = scratch[CONVOLUTION], batch.keys.cu_seqlens_q.long()
    num_requests, num_nodes = windows.shape[:2]
    last = (starts[1 : num_requests + 1] - starts[:num_requests] - 1).clamp(min=0)
    node = torch.arange(num_nodes, device=last.device)
    token = (starts[:num_requests, None] + torch.minimum(node, last[:, None])).view(-1)
    for layer, written in enumerate(scratch[RECURRENT]):
        written[..., 0] = recurrence.sums[token, layer].view(written.shape[:2])
    windows.copy_(recurrence.windows[token].view(windows.shape))


def words_of(layer: int, tokens: Tensor, positions: Tensor, below: Tensor) -> Tensor:
    """Return what each token adds to the state of a layer: the digests of its tags."""
    return digest([positions, tokens, below, 2 * layer]) + digest([positions, tokens, below, 2 * layer + 1])
