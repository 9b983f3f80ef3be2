"""Extend: the inputs with which the draft model catches up."""

import numpy as np

from specsim.conformance.arrays import Array
from specsim.operations.outputs import (
    CreateExtendAfterDecodeSpecInfoOutputs,
    GenerateAttnArgPrefillOutputs,
    PrepareForExtendToFillDraftKvcacheOutputs,
)
from specsim.validation.checking import check_call


def rotate_prefill_input_ids(input_ids: Array, extend_lens: Array, tail_tokens: Array) -> Array:
    """Shift each prompt left by one and append its tail token: the draft model's prefill input.

    Parameters
    ----------
    input_ids : int64 [token]
        Prompt tokens, request after request.
    extend_lens : int32 [request]
        Tokens of each request, at least 1.
    tail_tokens : int64 [request]
        The sampled token, or the next prompt token of a chunk that is not the last.

    Returns
    -------
    rotated_input_ids : int64 [token]
        At each position the token of the position after it.

    Raises
    ------
    SpecRejection
        COUNT_OUT_OF_RANGE; INCONSISTENT_LENGTHS: the lengths do not add up.

    Notes
    -----
    Source: semantics D.7.
    """
    axes = check_call("rotate_prefill_input_ids", locals())
    rotated_input_ids = np.zeros_like(input_ids)
    start = 0
    for request in range(axes["request"]):
        last = start + extend_lens[request] - 1
        for place in range(start, last):
            rotated_input_ids[place] = input_ids[place + 1]
        rotated_input_ids[last] = tail_tokens[request]
        start = last + 1
    return rotated_input_ids


def prepare_for_extend_to_fill_draft_kvcache(
    seq_lens: Array, num_accepted_tokens: Array, num_draft_tokens: int
) -> PrepareForExtendToFillDraftKvcacheOutputs[Array]:
    """Lay out positions, forward lengths and the selected row of a fixed-width draft-extend.

    Parameters
    ----------
    seq_lens : int64 or int32 [request]
        Committed lengths before verify.
    num_accepted_tokens : int32 [request]
        Output tokens of each request, the bonus token included.
    num_draft_tokens : int
        Rows a request: the width of the tree, whatever was accepted.

    Returns
    -------
    positions : int64 [request*node]
        Consecutive positions from the committed length.
    forward_seq_lens : int64 [request]
        Lengths that the forward sees: committed length plus width.
    select_index : int64 [request]
        Row whose output starts the next draft: that of the last output token.

    Raises
    ------
    SpecRejection
        COUNT_OUT_OF_RANGE: a count is 0 or exceeds the width.

    Notes
    -----
    Source: semantics D.6.
    """
    axes = check_call("prepare_for_extend_to_fill_draft_kvcache", locals())
    num_draft_tokens = axes["num_draft_tokens"]
    positions = np.zeros(axes["request"] * num_draft_tokens, dtype=np.int64)
    forward_seq_lens = np.zeros(axes["request"], dtype=np.int64)
    select_index = np.zeros(axes["request"], dtype=np.int64)
    for request in range(axes["request"]):
        for place in range(num_draft_tokens):
            positions[request * num_draft_tokens + place] = seq_lens[request] + place
        forward_seq_lens[request] = seq_lens[request] + num_draft_tokens
        select_index[request] = request * num_draft_tokens + num_accepted_tokens[request] - 1
    return PrepareForExtendToFillDraftKvcacheOutputs(positions, forward_seq_lens, select_index)


def create_extend_after_decode_spec_info(
    input_ids: Array, seq_lens: Array, num_accepted_tokens: Array
) -> CreateExtendAfterDecodeSpecInfoOutputs[Array]:
    """Lay out the positions of a ragged draft-extend and pick each request's last token.

    Parameters
    ----------
    input_ids : int64 [token]
        Output tokens of the last verify, request after request.
    seq_lens : int64 or int32 [request]
        Lengths after that verify: the tokens are counted.
    num_accepted_tokens : int32 [request]
        Tokens of each request, the bonus token included.

    Returns
    -------
    positions : int64 [token]
        The last positions of each request, ascending.
    bonus_tokens : int32 [request]
        The last token of each request.

    Raises
    ------
    SpecRejection
        COUNT_OUT_OF_RANGE: no token; INCONSISTENT_LENGTHS: the counts do not add up, or exceed a length.

    Notes
    -----
    Source: semantics D.3.
    """
    axes = check_call("create_extend_after_decode_spec_info", locals())
    positions = np.zeros(axes["token"], dtype=np.int64)
    bonus_tokens = np.zeros(axes["request"], dtype=np.int32)
    start = 0
    for request in range(axes["request"]):
        count = num_accepted_tokens[request]
        for place in range(count):
            positions[start + place] = seq_lens[request] - count + place
        bonus_tokens[request] = input_ids[start + count - 1]
        start += count
    return CreateExtendAfterDecodeSpecInfoOutputs(positions, bonus_tokens)


def generate_attn_arg_prefill(
    req_pool_indices: Array, req_to_token: Array, kv_lens: Array, num_accepted_tokens: Array, kv_lens_sum: int
) -> GenerateAttnArgPrefillOutputs[Array]:
    """Lay out the attention metadata of a ragged draft-extend: causal, the queries are the last keys.

    Parameters
    ----------
    req_pool_indices : int64 [request]
        Row of each request.
    req_to_token : int32 [row, position]
        Slot of each position.
    kv_lens : int64 or int32 [request]
        Keys of each request: its length after the verify.
    num_accepted_tokens : int32 [request]
        Queries of each request: tokens, never drafts.
    kv_lens_sum : int
        Entries of the list of slots, at least as many as there are keys.

    Returns
    -------
    qo_indptr : int32 [request+1]
        Where the queries of each request begin.
    kv_indptr : int32 [request+1]
        Where the keys of each request begin.
    kv_indices : int32 [location]
        Slots of the keys, request after request; undefined past the last.

    Raises
    ------
    SpecRejection
        ROW_TOO_SHORT, COUNT_OUT_OF_RANGE; INCONSISTENT_LENGTHS: too little room, or more queries than keys.

    Notes
    -----
    Source: semantics D.4.
    """
    axes = check_call("generate_attn_arg_prefill", locals())
    kv_lens_sum = axes["kv_lens_sum"]
    qo_indptr = np.zeros(axes["request"] + 1, dtype=np.int32)
    kv_indptr = np.zeros(axes["request"] + 1, dtype=np.int32)
    kv_indices = np.zeros(kv_lens_sum, dtype=np.int32)
    for request in range(axes["request"]):
        qo_indptr[request + 1] = qo_indptr[request] + num_accepted_tokens[request]
        kv_indptr[request + 1] = kv_indptr[request] + kv_lens[request]
        for position in range(kv_lens[request]):
            kv_indices[kv_indptr[request] + position] = req_to_token[req_pool_indices[request], position]
    return GenerateAttnArgPrefillOutputs(qo_indptr, kv_indptr, kv_indices)
