"""Scheduled verification: how many drafts of each request are verified, and the ragged forward that follows."""

import numpy as np

from specsim.config import SURVIVAL_EPS
from specsim.conformance.arrays import Array
from specsim.operations.outputs import (
    CapAcceptedDraftsOutputs,
    CommitInjectLayoutOutputs,
    RaggedVerifyMetadataOutputs,
    RaggedVerifyWindowOutputs,
)
from specsim.reference.verify import lay_out_verify
from specsim.validation.checking import check_call


def schedule_verify_lens(
    confidence: Array,
    num_drafts: Array | None,
    survival_eps: Array | None,
    verify_token_budget: int,
    max_verify_len: int,
    min_verify_len: int = 1,
) -> Array:
    """Admit the drafts that most probably survive, of all requests together, within a budget.

    Parameters
    ----------
    confidence : float32 [request, draft]
        Probability that a draft is accepted if all before it are; it must not depend on the draft itself.
    num_drafts : int32 [request] or None
        Drafts that exist; None for all of them.
    survival_eps : float32 [1] or None
        Least survival of a draft that is admitted; None for 1e-6.
    verify_token_budget : int
        Drafts to admit in the whole batch at most, roots not counted.
    max_verify_len : int
        Longest verify length, the root included.
    min_verify_len : int
        Verify length that costs nothing; 0 lets the first admitted draft of a request pay for its root.

    Returns
    -------
    verify_lens : int32 [request]
        Rows of each request to verify, the root included.

    Raises
    ------
    SpecRejection
        PROBABILITY_OUT_OF_RANGE, NAN_SCORE, COUNT_OUT_OF_RANGE, SCALAR_OUT_OF_RANGE.

    Notes
    -----
    Source: semantics Q.1.3. Ties go by position first, then by request: a draft may then never decide its own place.
    """
    axes = check_call("schedule_verify_lens", locals())
    least, longest = axes["min_verify_len"], axes["max_verify_len"]
    eps = np.float32(SURVIVAL_EPS) if survival_eps is None else survival_eps[0]
    candidates = []
    for request in range(axes["request"]):
        survival = np.float32(1)
        most = axes["draft"] if num_drafts is None else int(num_drafts[request])
        for draft in range(min(most, longest)):
            survival = np.float32(survival * confidence[request, draft])
            if survival >= eps:
                candidates.append((-float(survival), draft, request))
    num_admitted = np.zeros(axes["request"], dtype=np.int32)
    for _, _, request in sorted(candidates)[: axes["verify_token_budget"]]:
        num_admitted[request] += 1
    verify_lens = np.zeros(axes["request"], dtype=np.int32)
    for request in range(axes["request"]):
        verify_lens[request] = min(max(least + num_admitted[request], least, 1), longest)
    return verify_lens


def ragged_verify_window(
    candidates: Array,
    verify_lens: Array,
    req_pool_indices: Array,
    req_to_token: Array,
    seq_lens: Array,
    num_tokens: int,
) -> RaggedVerifyWindowOutputs[Array]:
    """Lay out tokens, positions and slots of the rows that are verified, one request after another, then padding.

    Parameters
    ----------
    candidates : int64 [request, node]
        The root of each chain, then its drafts.
    verify_lens : int32 [request]
        Rows of each request, the root included.
    req_pool_indices : int64 [request]
        Row of each request.
    req_to_token : int32 [row, position]
        Slot of each position.
    seq_lens : int64 or int32 [request]
        Committed lengths, before verify.
    num_tokens : int
        Rows of the forward, padding included.

    Returns
    -------
    qo_indptr : int32 [request+1]
        Where each request's rows start.
    input_ids : int64 [token]
        Tokens of the rows; padding has 0.
    positions : int64 [token]
        Their positions; padding has 0.
    out_cache_loc : int64 [token]
        Slots that they write; padding has dump slot 0.
    window_index : int64 [token]
        Global node of each row; padding has -1.

    Raises
    ------
    SpecRejection
        COUNT_OUT_OF_RANGE: a root is not verified; INCONSISTENT_LENGTHS: too few rows; ROW_TOO_SHORT.

    Notes
    -----
    Source: semantics Q.1.6.
    """
    axes = check_call("ragged_verify_window", locals())
    num_tokens, width = axes["num_tokens"], axes["node"]
    qo_indptr = np.zeros(axes["request"] + 1, dtype=np.int32)
    input_ids, positions, out_cache_loc = (np.zeros(num_tokens, dtype=np.int64) for _ in range(3))
    window_index = np.full(num_tokens, -1, dtype=np.int64)
    for request in range(axes["request"]):
        start, length = qo_indptr[request], int(seq_lens[request])
        slots = req_to_token[req_pool_indices[request]]
        for node in range(verify_lens[request]):
            input_ids[start + node] = candidates[request, node]
            positions[start + node] = length + node
            out_cache_loc[start + node] = slots[length + node]
            window_index[start + node] = request * width + node
        qo_indptr[request + 1] = start + verify_lens[request]
    return RaggedVerifyWindowOutputs(qo_indptr, input_ids, positions, out_cache_loc, window_index)


def pad_verify_lens_to_bucket(
    verify_lens: Array, num_padded_requests: int, num_tokens: int, max_verify_len: int = 2**31 - 1
) -> Array:
    """Give the rows that a captured graph has left to its padding requests, or else to the last request.

    Parameters
    ----------
    verify_lens : int32 [request]
        Rows of each request.
    num_padded_requests : int
        Requests of the graph.
    num_tokens : int
        Rows of the graph.
    max_verify_len : int
        What lengths are cut to, for kernels of dense rows; they may then add up to less than the graph has.

    Returns
    -------
    padded_verify_lens : int32 [padded_request]
        Rows of each request of the graph.

    Raises
    ------
    SpecRejection
        SCALAR_OUT_OF_RANGE: fewer requests than the batch has; INCONSISTENT_LENGTHS: fewer rows.

    Notes
    -----
    Source: semantics Q.1.8. Without requests these are the lengths that a graph is captured with.
    """
    axes = check_call("pad_verify_lens_to_bucket", locals())
    num_requests, num_padded = axes["request"], axes["num_padded_requests"]
    padded_verify_lens = np.zeros(num_padded, dtype=np.int32)
    padded_verify_lens[:num_requests] = verify_lens
    left = axes["num_tokens"] - int(np.sum(verify_lens, dtype=np.int64))
    num_padding = num_padded - num_requests
    for place in range(num_padding):
        padded_verify_lens[num_requests + place] = left // num_padding + (1 if place < left % num_padding else 0)
    if num_padding == 0 and num_requests > 0:
        padded_verify_lens[-1] += left
    return np.minimum(padded_verify_lens, np.int32(axes["max_verify_len"]))


def scatter_compact_to_strided(values: Array, verify_lens: Array, num_draft_tokens: int) -> Array:
    """Bring the verified rows of each request to its block of a whole tree's rows; the rest is 0.

    Parameters
    ----------
    values : any [token, ...]
        Rows of a ragged forward; those past the sum of ``verify_lens`` are padding and not read.
    verify_lens : int32 [request]
        Rows of each request.
    num_draft_tokens : int
        Rows of a block.

    Returns
    -------
    strided : like values [request*node, ...]
        Row i of request b at ``b*num_draft_tokens + i``; rows that were not verified are 0, which as logits are the
        uniform distribution: nothing may be decided by them.

    Raises
    ------
    SpecRejection
        INCONSISTENT_LENGTHS: fewer rows than were verified; COUNT_OUT_OF_RANGE.

    Notes
    -----
    Source: semantics Q.1.6.
    """
    axes = check_call("scatter_compact_to_strided", locals())
    width = axes["num_draft_tokens"]
    strided = np.zeros((axes["request"] * width, *values.shape[1:]), dtype=values.dtype)
    start = 0
    for request in range(axes["request"]):
        for node in range(verify_lens[request]):
            strided[request * width + node] = values[start + node]
        start += int(verify_lens[request])
    return strided


def ragged_verify_metadata(
    req_pool_indices: Array,
    req_to_token: Array,
    seq_lens: Array,
    verify_lens: Array,
    max_seq_len_k: int,
    page_size: int = 1,
) -> RaggedVerifyMetadataOutputs[Array]:
    """Lay out lengths and page table of a verify forward in which every request has as many rows as are verified.

    Parameters
    ----------
    req_pool_indices : int64 [request]
        Row of each request.
    req_to_token : int32 [row, position]
        Slot of each position.
    seq_lens : int64 or int32 [request]
        Committed lengths, before verify.
    verify_lens : int32 [request]
        Rows of each request; a padding request may have none.
    max_seq_len_k : int
        Positions that the page table covers: the longest sequence, or a bound on it.
    page_size : int
        Slots a page.

    Returns
    -------
    cache_seqlens : int32 [request]
        Keys of each request: committed length and rows.
    cu_seqlens_q : int32 [request+1]
        Where each request's queries start.
    cu_seqlens_k : int32 [request+1]
        Where each request's keys start.
    page_table : int32 [request, ceil(max_seq_len_k/page_size)]
        Page of each page-sized run of positions; columns past the length hold what the row holds.

    Raises
    ------
    SpecRejection
        ROW_TOO_SHORT, COUNT_OUT_OF_RANGE.

    Notes
    -----
    Source: semantics Q.1.8.
    """
    axes = check_call("ragged_verify_metadata", locals())
    sizes = axes["max_seq_len_k"], axes["page_size"]
    return RaggedVerifyMetadataOutputs(
        *lay_out_verify(req_pool_indices, req_to_token, seq_lens, verify_lens.tolist(), *sizes)
    )


def cap_accepted_drafts(
    candidates: Array, num_accepted_drafts: Array, bonus_tokens: Array, verify_lens: Array, is_compact: bool = False
) -> CapAcceptedDraftsOutputs[Array]:
    """Cut an acceptance over all drafts to those that were scheduled, and name the token at the cut.

    Parameters
    ----------
    candidates : int64 [request, node]
        The root of each chain, then its drafts.
    num_accepted_drafts : int32 [request]
        Accepted drafts of the walk over all of them.
    bonus_tokens : int32 or int64 [request]
        The token after them; anything where the walk went past the rows that were verified.
    verify_lens : int32 [request]
        Rows of each request that were scheduled, the root included.
    is_compact : bool
        Whether only these rows were computed: what the walk found after them says nothing then.

    Returns
    -------
    num_kept_drafts : int32 [request]
        Accepted drafts up to the cut.
    cut_tokens : int64 [request]
        The token after them: the draft at the cut where the walk accepted it, the walk's own token otherwise.
    cap_trim_lens : int32 [request]
        Drafts that the cut lost; 0 where that cannot be known.

    Raises
    ------
    SpecRejection
        COUNT_OUT_OF_RANGE.

    Notes
    -----
    Source: semantics Q.1.7. The draft at the cut was judged by the last row that was verified.
    """
    axes = check_call("cap_accepted_drafts", locals())
    num_kept_drafts, cap_trim_lens = (np.zeros(axes["request"], dtype=np.int32) for _ in range(2))
    cut_tokens = np.zeros(axes["request"], dtype=np.int64)
    for request in range(axes["request"]):
        accepted = int(num_accepted_drafts[request])
        kept = min(accepted, int(verify_lens[request]) - 1)
        num_kept_drafts[request] = kept
        cut_tokens[request] = candidates[request, kept + 1] if kept < accepted else bonus_tokens[request]
        cap_trim_lens[request] = 0 if axes["is_compact"] else accepted - kept
    return CapAcceptedDraftsOutputs(num_kept_drafts, cut_tokens, cap_trim_lens)


def commit_inject_layout(
    req_pool_indices: Array,
    req_to_token: Array,
    seq_lens: Array,
    commit_lens: Array,
    verify_lens: Array | None,
    slot_map: Array | None,
    num_draft_tokens: int,
    ring_size: int = 0,
) -> CommitInjectLayoutOutputs[Array]:
    """Lay out where the committed rows of a verify enter the draft cache; other rows have -1.

    Parameters
    ----------
    req_pool_indices : int64 [request]
        Row of each request.
    req_to_token : int32 [row, position]
        Slot of each position.
    seq_lens : int64 or int32 [request]
        Committed lengths, before verify.
    commit_lens : int32 [request]
        Committed rows: the root and the accepted drafts.
    verify_lens : int32 [request] or None
        Rows that were verified, a bound on those that are committed: 0 for padding and for what is not to be written.
    slot_map : int32 or int64 [slot] or None
        Slot of the draft cache for each slot; None for the same one.
    num_draft_tokens : int
        Rows of a block.
    ring_size : int
        Places of the ring that each request's row has in the draft cache; 0 if it has slots of the map.

    Returns
    -------
    inject_loc : int32 [request*node]
        Where row i of request b goes, at ``b*num_draft_tokens + i``; -1 for a row that is not committed.
    positions : int64 [request*node]
        Positions of all rows.

    Raises
    ------
    SpecRejection
        ROW_TOO_SHORT, SLOT_OUT_OF_RANGE, COUNT_OUT_OF_RANGE; SCALAR_OUT_OF_RANGE: rings beyond int32.

    Notes
    -----
    Source: semantics Q.1.9.
    """
    axes = check_call("commit_inject_layout", locals())
    width, ring_size = axes["num_draft_tokens"], axes["ring_size"]
    inject_loc = np.full(axes["request"] * width, -1, dtype=np.int32)
    positions = np.zeros(axes["request"] * width, dtype=np.int64)
    for request in range(axes["request"]):
        row, length = int(req_pool_indices[request]), int(seq_lens[request])
        committed = int(commit_lens[request])
        if verify_lens is not None:
            committed = min(committed, int(verify_lens[request]))
        for node in range(width):
            place = request * width + node
            positions[place] = length + node
            if node >= committed:
                continue
            if ring_size > 0:
                inject_loc[place] = row * ring_size + (length + node) % ring_size
            else:
                slot = req_to_token[row, length + node]
                inject_loc[place] = slot if slot_map is None else slot_map[slot]
    return CommitInjectLayoutOutputs(inject_loc, positions)
