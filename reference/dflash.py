"""DFLASH: what a draft of a whole block needs beside the operations of a chain."""

import numpy as np

from specsim.conformance.arrays import Array
from specsim.counts import floor_to
from specsim.operations.outputs import BlockDraftMetadataOutputs, PrepareBlockDraftOutputs
from specsim.validation.checking import check_call


def prepare_block_draft(
    bonus_tokens: Array, seq_lens: Array, mask_token: int, num_draft_tokens: int
) -> PrepareBlockDraftOutputs[Array]:
    """Lay out the block that is drafted at once: the bonus token, then masks.

    Parameters
    ----------
    bonus_tokens : int32 or int64 [request]
        The token that was output last, which has no KV yet.
    seq_lens : int64 or int32 [request]
        Committed lengths.
    mask_token : int
        What stands where a token is to be drafted.
    num_draft_tokens : int
        Positions of a block.

    Returns
    -------
    input_ids : int64 [request*node]
        Tokens of the blocks, one request after another.
    positions : int64 [request*node]
        Their positions, the first one after the committed ones.

    Raises
    ------
    SpecRejection
        SCALAR_OUT_OF_RANGE, TOKEN_OUT_OF_RANGE.

    Notes
    -----
    Source: semantics A.14.
    """
    axes = check_call("prepare_block_draft", locals())
    num_nodes = axes["num_draft_tokens"]
    input_ids = np.zeros(axes["request"] * num_nodes, dtype=np.int64)
    positions = np.zeros(axes["request"] * num_nodes, dtype=np.int64)
    for request in range(axes["request"]):
        for node in range(num_nodes):
            row = request * num_nodes + node
            input_ids[row] = axes["mask_token"] if node else bonus_tokens[request]
            positions[row] = seq_lens[request] + node
    return PrepareBlockDraftOutputs(input_ids, positions)


def block_draft_metadata(
    req_pool_indices: Array,
    req_to_token: Array,
    seq_lens: Array,
    draft_window: int,
    num_draft_tokens: int,
    page_size: int = 1,
) -> BlockDraftMetadataOutputs[Array]:
    """Tabulate the slots of the last positions that a block may see of its text, and of the block after them.

    Parameters
    ----------
    req_pool_indices : int64 [request]
        Row of each request.
    req_to_token : int32 [row, position]
        Slot of each position.
    seq_lens : int64 or int32 [request]
        Committed lengths; the block lies after them.
    draft_window : int
        Committed positions that a block sees, and those before them on the same page.
    num_draft_tokens : int
        Positions of a block.
    page_size : int
        Slots a page.

    Returns
    -------
    window_starts : int64 [request]
        The first position of each table, where a page starts.
    cache_seqlens : int32 [request]
        Entries of each table.
    cu_seqlens_q : int32 [request+1]
        Where each request's queries start.
    page_table : int32 [request, visible]
        Slots of the positions from the start on; 0 after the last one. At most a window, the rest of its first page
        and a block are visible.

    Raises
    ------
    SpecRejection
        ROW_TOO_SHORT: a row ends inside a block; ROW_OUT_OF_RANGE, SCALAR_OUT_OF_RANGE.

    Notes
    -----
    Source: semantics A.14b.
    """
    axes = check_call("block_draft_metadata", locals())
    num_requests, num_nodes = axes["request"], axes["num_draft_tokens"]
    window_starts = np.zeros(num_requests, dtype=np.int64)
    cache_seqlens = np.zeros(num_requests, dtype=np.int32)
    cu_seqlens_q = np.zeros(num_requests + 1, dtype=np.int32)
    page_table = np.zeros((num_requests, axes["visible"]), dtype=np.int32)
    for request in range(num_requests):
        length = int(seq_lens[request])
        start = floor_to(length - min(length, axes["draft_window"]), axes["page_size"])
        count = length + num_nodes - start
        window_starts[request], cache_seqlens[request] = start, count
        cu_seqlens_q[request + 1] = cu_seqlens_q[request] + num_nodes
        page_table[request, :count] = req_to_token[req_pool_indices[request], start : start + count]
    return BlockDraftMetadataOutputs(window_starts, cache_seqlens, cu_seqlens_q, page_table)


def keep_top_k_exactly(logits: Array, top_k: Array, num_draft_tokens: int) -> Array:
    """Keep the k largest logits of a row, ties by lower id, unless some request keeps the whole vocabulary.

    Parameters
    ----------
    logits : float32 or bfloat16 [request*node, vocab]
        Row ``b*N+i`` belongs to node i of request b.
    top_k : int32 [request]
        How many tokens each request keeps. If one of them keeps all there are, every row is left as it is, for a
        filter that knows of ties.
    num_draft_tokens : int
        Nodes of a request.

    Returns
    -------
    filtered_logits : like logits [request*node, vocab]
        -inf where a token is not kept.

    Raises
    ------
    SpecRejection
        COUNT_OUT_OF_RANGE; EMPTY_DISTRIBUTION: a row is -inf everywhere; INFINITE_LOGIT, NAN_SCORE.

    Notes
    -----
    Source: semantics A.14.
    """
    axes = check_call("keep_top_k_exactly", locals())
    filtered_logits = logits.copy()
    if top_k.max(initial=0) >= axes["vocab"]:
        return filtered_logits
    for row in range(len(logits)):
        best_first = np.argsort(-logits[row].astype(np.float32), kind="stable")
        filtered_logits[row, best_first[top_k[row // axes["num_draft_tokens"]] :]] = -np.inf
    return filtered_logits


def fill_block_tokens(candidates: Array, num_accepted_drafts: Array, bonus_tokens: Array) -> Array:
    """Shift each block left by one and write the bonus token after its accepted drafts.

    Parameters
    ----------
    candidates : int64 [request, node]
        Root and drafts of each block.
    num_accepted_drafts : int32 [request]
        How many drafts were accepted.
    bonus_tokens : int32 or int64 [request]
        What the target says after them.

    Returns
    -------
    out_tokens : int64 [request, node]
        The output tokens first; after them the drafts that were rejected, and a 0 unless the whole block was accepted.

    Raises
    ------
    SpecRejection
        COUNT_OUT_OF_RANGE: more drafts than a block has; TOKEN_OUT_OF_RANGE.

    Notes
    -----
    Source: semantics A.14b.
    """
    axes = check_call("fill_block_tokens", locals())
    out_tokens = np.zeros((axes["request"], axes["node"]), dtype=np.int64)
    for request in range(axes["request"]):
        out_tokens[request, :-1] = candidates[request, 1:]
        out_tokens[request, num_accepted_drafts[request]] = bonus_tokens[request]
    return out_tokens
