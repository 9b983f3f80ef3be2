"""Multi-layer drafts: a small draft layer a step, each with KV and a window of its own."""

import numpy as np

from specsim.conformance.arrays import Array
from specsim.operations.outputs import AssignNewStateOutputs
from specsim.validation.checking import check_call


def rotate_input_ids(
    input_ids: Array,
    extend_start_loc: Array,
    extend_seq_lens: Array,
    next_tokens: Array,
    select_index: Array | None = None,
) -> None:
    """Shift the ids of each request left by one, and write its next token at the end or at a given place.

    Parameters
    ----------
    input_ids : int64 [token]
        What the layer before consumed; written in place.
    extend_start_loc : int32 [request]
        Where the tokens of each request start.
    extend_seq_lens : int32 [request]
        Tokens of each request; of one without any nothing is written.
    next_tokens : int64 [request]
        What the layer before proposed.
    select_index : int64 [request] or None
        The token that becomes the proposal, counted through the batch; None for the last one of each request, which
        otherwise keeps its value.

    Raises
    ------
    SpecRejection
        TOKEN_OUT_OF_RANGE, COUNT_OUT_OF_RANGE; INCONSISTENT_LENGTHS: the tokens of two requests overlap, or one writes
        into those of another.

    Notes
    -----
    Source: semantics E.4.
    """
    axes = check_call("rotate_input_ids", locals())
    for request in range(axes["request"]):
        start, length = int(extend_start_loc[request]), int(extend_seq_lens[request])
        if length == 0:
            continue
        for place in range(start, start + length - 1):
            input_ids[place] = input_ids[place + 1]
        chosen = start + length - 1 if select_index is None else select_index[request]
        input_ids[chosen] = next_tokens[request]


def assign_new_state(
    input_ids: Array,
    positions: Array,
    out_cache_loc: Array,
    hidden_states: Array,
    extend_start_loc: Array,
    extend_seq_lens: Array,
    next_tokens: Array,
    num_padding: Array,
    req_pool_indices: Array,
    req_to_token: Array,
    forward_seq_lens: Array,
    hidden_states_pool: Array,
    draft_layer: int,
) -> AssignNewStateOutputs[Array]:
    """Grow each window by the position before it, and write the token that the layer has proposed.

    Parameters
    ----------
    input_ids, positions, out_cache_loc : int64 [token]
        What the layer consumed: the tokens of each request are the last positions that its forward saw.
    hidden_states : any [token, ...]
        Of the target, at those positions.
    extend_start_loc, extend_seq_lens : int32 [request]
        Where the tokens of each request start, and how many there are.
    next_tokens : int64 [request]
        What the layer proposed.
    num_padding : int32 [request]
        Tokens of a window after the one that proposed.
    req_pool_indices : int64 [request]
        Row of each request.
    req_to_token : int32 [row, position]
        Slot of each position.
    forward_seq_lens : int64 [request]
        Positions up to the end of each window.
    hidden_states_pool : like hidden_states [row, kept, ...]
        Hidden states of the last positions before the first layer's window.
    draft_layer : int
        Number of the layer, from 0: the next one needs the hidden state of so many positions, and one more, before the
        first layer's window.

    Returns
    -------
    next_input_ids : int64 [token+request]
        The same ids, each a position further to the front, and after the last that is no padding the proposal; what
        comes in at the end of a window with padding is 0.
    next_positions : int64 [token+request]
        The position before the window, or 0, then the same ones.
    next_out_cache_loc : int64 [token+request]
        The slot of that position, dump slot 0 where there is none, then the same ones.
    next_hidden_states : like hidden_states [token+request, ...]
        The hidden state of that position, 0 where there is none, then the same ones.
    next_extend_start_loc, next_extend_seq_lens : int32 [request]
        Where the tokens of each request start now, and how many there are.

    Raises
    ------
    SpecRejection
        TOKEN_OUT_OF_RANGE, ROW_OUT_OF_RANGE, ROW_TOO_SHORT, COUNT_OUT_OF_RANGE; SCALAR_OUT_OF_RANGE: too few hidden
        states are kept; INCONSISTENT_LENGTHS: the windows do not add up, or are less than their padding.

    Notes
    -----
    Source: semantics E.4.
    """
    axes = check_call("assign_new_state", locals())
    layer, num_grown = axes["draft_layer"], axes["token"] + axes["request"]
    next_input_ids = np.zeros(num_grown, dtype=np.int64)
    next_positions = np.zeros(num_grown, dtype=np.int64)
    next_out_cache_loc = np.zeros(num_grown, dtype=np.int64)
    next_hidden_states = np.zeros((num_grown, *hidden_states.shape[1:]), dtype=hidden_states.dtype)
    next_extend_start_loc = np.zeros(axes["request"], dtype=np.int32)
    next_extend_seq_lens = np.zeros(axes["request"], dtype=np.int32)
    for request in range(axes["request"]):
        start, length = int(extend_start_loc[request]), int(extend_seq_lens[request])
        row, first = req_pool_indices[request], start + request
        for place in range(length):
            next_input_ids[first + place] = input_ids[start + place]
            next_positions[first + place + 1] = positions[start + place]
            next_out_cache_loc[first + place + 1] = out_cache_loc[start + place]
            next_hidden_states[first + place + 1] = hidden_states[start + place]
        next_input_ids[first + length - num_padding[request]] = next_tokens[request]
        next_positions[first] = max(positions[start] - 1, 0)
        earlier = forward_seq_lens[request] - length - 1
        if earlier >= 0:
            next_out_cache_loc[first] = req_to_token[row, earlier]
            next_hidden_states[first] = hidden_states_pool[row, -(layer + 1)]
        next_extend_start_loc[request] = first
        next_extend_seq_lens[request] = length + 1
    return AssignNewStateOutputs(
        next_input_ids,
        next_positions,
        next_out_cache_loc,
        next_hidden_states,
        next_extend_start_loc,
        next_extend_seq_lens,
    )


def assign_hidden_states_pool(
    hidden_states: Array,
    extend_start_loc: Array,
    num_committed: Array,
    req_pool_indices: Array,
    hidden_states_pool: Array,
) -> None:
    """Append the hidden states of committed positions to those that wait for the next windows.

    Parameters
    ----------
    hidden_states : any [token, ...]
        Of the target, request after request.
    extend_start_loc : int32 [request]
        Where those of each request start.
    num_committed : int32 [request]
        How many of them are committed, from the first on: a whole chunk, or what a verify has accepted.
    req_pool_indices : int64 [request]
        Row of each request; padding row 0 keeps what it has.
    hidden_states_pool : like hidden_states [row, kept, ...]
        Hidden states of the last committed positions, the newest at the end; written in place.

    Raises
    ------
    SpecRejection
        ROW_OUT_OF_RANGE, COUNT_OUT_OF_RANGE; INCONSISTENT_LENGTHS: the tokens of two requests overlap; DUPLICATE_ROW.

    Notes
    -----
    Source: semantics E.4.
    """
    axes = check_call("assign_hidden_states_pool", locals())
    for request in range(axes["request"]):
        row, start, count = req_pool_indices[request], int(extend_start_loc[request]), int(num_committed[request])
        if row == 0:
            continue
        # NOTE: ascending, so that every entry is read before it is written.
        for place in range(axes["kept"]):
            after = place + count - axes["kept"]
            entry = hidden_states_pool[row, place + count] if after < 0 else hidden_states[start + after]
            hidden_states_pool[row, place] = entry
