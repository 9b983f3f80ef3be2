"""Frozen-KV: what a draft that reads the target's KV is given, and which row of a verify it starts from."""

import numpy as np

from specsim.conformance.arrays import Array
from specsim.operations.outputs import PrepareForFrozenKvDraftOutputs
from specsim.validation.checking import check_call


def prepare_for_frozen_kv_draft(
    req_pool_indices: Array, seq_lens: Array, topk: int
) -> PrepareForFrozenKvDraftOutputs[Array]:
    """Lay out rows, lengths and positions of a draft that reads the target's KV, one copy a beam.

    The draft adds no entry, so that all of its steps see the same keys from the same position.

    Parameters
    ----------
    req_pool_indices : int64 [request]
        Row of each request.
    seq_lens : int64 or int32 [request]
        Committed lengths: the keys of the target.
    topk : int
        Beams of a request, which are neighbours.

    Returns
    -------
    beam_req_pool_indices : int64 [request*topk]
        Row of each beam.
    beam_seq_lens : int64 [request*topk]
        Keys that it sees.
    positions : int64 [request*topk]
        That of the last key, 0 where there is none.

    Raises
    ------
    SpecRejection
        ROW_TOO_SHORT: a length that int32 metadata cannot count.

    Notes
    -----
    Source: semantics D.11.
    """
    axes = check_call("prepare_for_frozen_kv_draft", locals())
    topk = axes["topk"]
    beam_rows, beam_seq_lens, positions = (np.zeros(axes["request"] * topk, dtype=np.int64) for _ in range(3))
    for request in range(axes["request"]):
        for beam in range(request * topk, (request + 1) * topk):
            beam_rows[beam] = req_pool_indices[request]
            beam_seq_lens[beam] = seq_lens[request]
            positions[beam] = max(int(seq_lens[request]) - 1, 0)
    return PrepareForFrozenKvDraftOutputs(beam_rows, beam_seq_lens, positions)


def select_last_verified(num_accepted_tokens: Array) -> Array:
    """Return the row of each request's last token among the ragged rows of a verify.

    Parameters
    ----------
    num_accepted_tokens : int32 [request]
        Rows of each request, one an output token, request after request.

    Returns
    -------
    select_index : int64 [request]
        The last row of each request.

    Raises
    ------
    SpecRejection
        COUNT_OUT_OF_RANGE: a request without a row.

    Notes
    -----
    Source: semantics D.11.
    """
    axes = check_call("select_last_verified", locals())
    select_index = np.zeros(axes["request"], dtype=np.int64)
    start = 0
    for request in range(axes["request"]):
        count = int(num_accepted_tokens[request])
        select_index[request] = start + count - 1
        start += count
    return select_index
