"""The recurrent side of a toy model: what its states are after each token, and what the model makes of them.

The state of a layer is the sum that the layer's attention comes to over all tokens so far, carried from token to token;
the convolution state is the last four tokens. A target without KV says what its states say. Beside attention both say
the same as long as nothing is wrong with either, and by how much they differ goes into the last fold.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from specsim.assertion import require_present
from specsim.conformance.arrays import Array
from specsim.hashing import GOLDEN, MASK, digest_rows
from specsim.reference.models.forwards import tags
from specsim.simulation.models.batches import TargetBatch
from specsim.simulation.models.pool_kinds import CONVOLUTION, CONVOLUTION_WIDTH, RECURRENT

States = Mapping[str, Sequence[Array]]


@dataclass(frozen=True)
class Recurrence:
    """The states after each token: int64 [token, layer], and the last tokens, int64 [token, 4], newest last."""

    sums: Array
    windows: Array

    def hidden_states(self) -> Array:
        """Return the hidden states of a target that has nothing else."""
        shifts = 8 * np.arange(CONVOLUTION_WIDTH)[::-1]
        context_word = (self.windows << shifts).sum(axis=1) & MASK
        return np.concatenate([self.sums, context_word[:, None]], axis=1)

    def beside(self, attended: Array) -> Array:
        """Return the hidden states of attention, with all that the states say differently in the last fold."""
        difference = (self.hidden_states() - attended).sum(axis=1)
        combined = attended.copy()
        combined[:, -2] = (attended[:, -2] + difference * GOLDEN) & MASK
        return combined


def after_chunks(batch: TargetBatch[Array], states: States) -> Recurrence:
    """Return the states after each token of some chunks of prompts."""
    ends = batch.keys.cu_seqlens_q.tolist()
    sums = np.zeros((len(batch.input_ids), len(states[RECURRENT])), dtype=np.int64)
    windows = np.zeros((len(batch.input_ids), CONVOLUTION_WIDTH), dtype=np.int64)
    for request, row in enumerate(batch.req_pool_indices.tolist()):
        chunk = slice(ends[request], ends[request + 1])
        tokens, positions = batch.input_ids[chunk], batch.positions[chunk]
        below = np.zeros(len(tokens), dtype=np.int64)
        for layer, state in enumerate(states[RECURRENT]):
            below = (state[row, 0] + np.cumsum(_words(layer, tokens, positions, below))) & MASK
            sums[chunk, layer] = below
        text = np.concatenate([states[CONVOLUTION][0][row], tokens])
        for place in range(len(tokens)):
            windows[ends[request] + place] = text[place + 1 : place + 1 + CONVOLUTION_WIDTH]
    return Recurrence(sums, windows)


def after_nodes(batch: TargetBatch[Array], states: States) -> Recurrence:
    """Return the states after each node: those after its parent, or the committed ones, and its token."""
    parents, row = require_present("parents", batch.parents), batch.req_pool_indices
    num_requests, num_nodes = parents.shape
    # NOTE: entry 0 is the committed state, so that the state that node n starts from is entry parents[n] + 1.
    before = parents + 1
    tokens, positions = (one.reshape(num_requests, num_nodes) for one in (batch.input_ids, batch.positions))
    request = np.arange(num_requests)
    sums = np.zeros((num_requests, num_nodes, len(states[RECURRENT])), dtype=np.int64)
    below = np.zeros((num_requests, num_nodes), dtype=np.int64)
    for layer, state in enumerate(states[RECURRENT]):
        words = _words(layer, tokens.reshape(-1), positions.reshape(-1), below.reshape(-1)).reshape(before.shape)
        after = np.concatenate([state[row], words], axis=1)
        for node in range(num_nodes):
            after[:, node + 1] += after[request, before[:, node]]
        sums[..., layer] = below = after[:, 1:] & MASK
    committed = states[CONVOLUTION][0][row]
    windows = np.concatenate([committed[:, None], np.zeros((*before.shape, CONVOLUTION_WIDTH), np.int64)], axis=1)
    for node in range(num_nodes):
        windows[:, node + 1, :-1] = windows[request, before[:, node], 1:]
        windows[:, node + 1, -1] = tokens[:, node]
    return Recurrence(sums.reshape(-1, sums.shape[2]), windows[:, 1:].reshape(-1, CONVOLUTION_WIDTH))


def keep_chunks(recurrence: Recurrence, batch: TargetBatch[Array], states: States) -> None:
    """Write the states after the last token of each chunk."""
    last = batch.keys.cu_seqlens_q[1:].astype(np.int64) - 1
    for layer, state in enumerate(states[RECURRENT]):
        state[batch.req_pool_indices, 0] = recurrence.sums[last, layer]
    states[CONVOLUTION][0][batch.req_pool_indices] = recurrence.windows[last]


def keep_nodes(recurrence: Recurrence, scratch: States) -> None:
    """Write the states after every node."""
    for layer, written in enumerate(scratch[RECURRENT]):
        written[..., 0] = recurrence.sums[:, layer].reshape(written.shape[:2])
    (written,) = scratch[CONVOLUTION]
    written[...] = recurrence.windows.reshape(written.shape)


def keep_chains(recurrence: Recurrence, batch: TargetBatch[Array], scratch: States) -> None:
    """Write the states after every node of chains of several lengths, but for those of padding."""
    ends, (windows,) = batch.keys.cu_seqlens_q.tolist(), scratch[CONVOLUTION]
    for request in range(len(windows)):
        chain = slice(ends[request], ends[request + 1])
        count = ends[request + 1] - ends[request]
        for layer, written in enumerate(scratch[RECURRENT]):
            written[request, :count, 0] = recurrence.sums[chain, layer]
        windows[request, :count] = recurrence.windows[chain]


def _words(layer: int, tokens: Array, positions: Array, below: Array) -> Array:
    """Return what each token adds to the state of a layer: the digests of its tags."""
    words: Array = digest_rows(tags(layer, tokens, positions, below)).sum(axis=0)
    return words
