"""The forward of a draft without KV: it adds up the target's own entries and knows what they should come to."""

from collections.abc import Sequence

import numpy as np

from specsim.conformance.arrays import Array
from specsim.hashing import GOLDEN, MASK, digest_rows
from specsim.operations.outputs import FrozenKvDraftForwardOutputs
from specsim.reference.models.folds import ListedSlots, read_digests
from specsim.reference.models.forwards import advance
from specsim.validation.checking import check_call


def frozen_kv_draft_forward(
    kv_buffers: Sequence[Array],
    input_ids: Array,
    hidden_states: Array,
    positions: Array,
    kv_indices: Array,
    kv_indptr: Array,
    target_layers: Array,
    depth: int,
) -> FrozenKvDraftForwardOutputs[Array]:
    """Run the draft model over one new token a beam, on the target's KV, of which it writes nothing.

    Parameters
    ----------
    kv_buffers : list of int64 [slot, 4]
        K and V of the target's layer that each draft layer reads, in turn.
    input_ids : int64 [token]
        One token a beam: the token of position ``positions + depth``.
    hidden_states : int64 [token, hidden]
        At depth 1 the target's, of the last key; deeper what the forward before carries on.
    positions : int64 [token]
        Position of the last key of each beam, at every depth.
    kv_indices : int32 [index]
        The keys of each beam, beam after beam: all that is committed.
    kv_indptr : int32 [token+1]
        Where each beam's keys start.
    target_layers : int64 [layer]
        The word of a hidden state that each draft layer takes the place of: the target's layer that it has learnt.
    depth : int
        Depth of the tokens that are proposed; 1 is the seed.

    Returns
    -------
    next_hidden_states : int64 [token, hidden]
        What is carried on: what the target will compute, less what the keys come to.
    foreseen_hidden_states : int64 [token, hidden]
        What the target will compute at the position of the token, if everything was right that was read so far.
    context : int64 [token]
        Digest of what the keys come to.

    Raises
    ------
    SpecRejection
        SLOT_OUT_OF_RANGE; COUNT_OUT_OF_RANGE: no such layer; INCONSISTENT_LENGTHS: the offsets descend.

    Notes
    -----
    Source: semantics D.11, tagged KV.
    """
    axes = check_call("frozen_kv_draft_forward", locals())
    sight, depth = ListedSlots(kv_indices, kv_indptr), axes["depth"]
    digests = read_digests(kv_buffers, sight)
    folds = np.zeros((len(input_ids), axes["layer"]), dtype=np.int64)
    states, known = hidden_states.copy(), np.zeros_like(hidden_states)
    for layer, word in enumerate(target_layers.tolist()):
        folds[:, layer] = sight.fold(digests(layer))
        known[:, word] += folds[:, layer]
        # NOTE: of the seed everything is known twice, and a difference spoils it; deeper one half is not carried on.
        differs = (hidden_states[:, word] - folds[:, layer]) & MASK
        states[:, word] += differs * GOLDEN if depth == 1 else folds[:, layer]
    foreseen = advance(states & MASK, input_ids, positions + depth)
    return FrozenKvDraftForwardOutputs((foreseen - known) & MASK, foreseen, digest_rows(folds))
