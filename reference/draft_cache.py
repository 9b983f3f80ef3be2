"""Draft cache: the slots that the draft model writes and reads while it drafts."""

import numpy as np

from specsim.conformance.arrays import Array
from specsim.counts import beam_stride, ceil_to, floor_to, page_size_of_beams
from specsim.operations.outputs import (
    AssignDraftCacheLocsOutputs,
    DraftDecodeCascadeMetadataOutputs,
    GenerateDraftDecodeKvIndicesOutputs,
)
from specsim.validation.checking import check_call


def assign_draft_cache_locs(
    req_pool_indices: Array,
    req_to_token: Array,
    seq_lens: Array,
    topk: int,
    num_steps: int,
    page_size: int = 1,
    num_copies: int = 0,
) -> AssignDraftCacheLocsOutputs[Array]:
    """Read the slots of the draft entries from the request rows, and list the copies that paged beams need.

    Parameters
    ----------
    req_pool_indices : int64 [request]
        Row of each request.
    req_to_token : int32 [row, position]
        Slot of each position.
    seq_lens : int64 or int32 [request]
        Committed lengths.
    topk, num_steps : int
        Beams, and entries a beam.
    page_size : int
        Slots a page; beams of a tree lie on pages of their own.
    num_copies : int
        Pairs to list: what the beams after the first lack of their first pages, or a bound on it.

    Returns
    -------
    out_cache_loc : int64 [request*topk*step]
        Slot of entry s of beam t of request b at ``(b*topk + t)*num_steps + s``.
    source_slots : int64 [num_copies]
        Slots of the partial page at the end of each text, once for every beam after the first; the surplus is 0.
    target_slots : int64 [num_copies]
        The same places on the first page of that beam: where the draft's KV is copied to; the surplus is 0.

    Raises
    ------
    SpecRejection
        ROW_TOO_SHORT: the last entry, or the last page, lies past the row; INCONSISTENT_LENGTHS: too few pairs.

    Notes
    -----
    Source: semantics A.9. Attention that reads whole pages finds the end of the prefix on the first page of each beam.
    """
    axes = check_call("assign_draft_cache_locs", locals())
    topk, num_steps, page_size = axes["topk"], axes["num_steps"], axes["page_size"]
    out_cache_loc = np.zeros(axes["request"] * topk * num_steps, dtype=np.int64)
    source_slots = np.zeros(axes["num_copies"], dtype=np.int64)
    target_slots = np.zeros(axes["num_copies"], dtype=np.int64)
    copied = 0
    for request in range(axes["request"]):
        length = int(seq_lens[request])
        slots = req_to_token[req_pool_indices[request]]
        stride = beam_stride(length, topk, num_steps, page_size)
        base = floor_to(length, page_size_of_beams(topk, page_size))
        for beam in range(topk):
            for step in range(num_steps):
                out_cache_loc[(request * topk + beam) * num_steps + step] = slots[length + beam * stride + step]
            for position in range(base, length if beam > 0 else base):
                source_slots[copied] = slots[position]
                target_slots[copied] = slots[position + beam * stride]
                copied += 1
    return AssignDraftCacheLocsOutputs(out_cache_loc, source_slots, target_slots)


def per_step_draft_out_cache_loc(out_cache_loc: Array, topk: int, num_steps: int) -> Array:
    """Turn request-major draft slots into one row a step.

    Parameters
    ----------
    out_cache_loc : int64 [request*topk*step]
        Request-major, then beam, then step.
    topk, num_steps : int
        Beams, and entries a beam.

    Returns
    -------
    step_cache_loc : int64 [step, request*topk]
        Slot that beam t of request b writes at step s, in ``[s, b*topk + t]``.

    Raises
    ------
    SpecRejection
        NOT_DIVISIBLE: the length is no multiple of ``topk*num_steps``.

    Notes
    -----
    Source: semantics A.10.
    """
    axes = check_call("per_step_draft_out_cache_loc", locals())
    topk, num_steps = axes["topk"], axes["num_steps"]
    step_cache_loc = np.zeros((num_steps, axes["request"] * topk), dtype=np.int64)
    for row in range(axes["request"] * topk):
        for step in range(num_steps):
            step_cache_loc[step, row] = out_cache_loc[row * num_steps + step]
    return step_cache_loc


def generate_draft_decode_kv_indices(
    req_pool_indices: Array,
    req_to_token: Array,
    seq_lens: Array,
    positions: Array,
    topk: int,
    num_steps: int,
    page_size: int = 1,
) -> GenerateDraftDecodeKvIndicesOutputs[Array]:
    """List, for every step and beam, the slots that the beam attends to: the prefix and its own entries.

    Parameters
    ----------
    req_pool_indices : int64 [request]
        Row of each request.
    req_to_token : int32 [row, position]
        Slot of each position.
    seq_lens : int64 or int32 [request]
        Committed lengths.
    positions : int64 [request*topk]
        The committed lengths, ``topk`` copies a request.
    topk, num_steps : int
        Beams, and entries a beam.
    page_size : int
        Slots a page; beams of a tree lie on pages of their own.

    Returns
    -------
    kv_indices : int32 [step, request*topk*position]
        Slots, beam after beam; entries past ``kv_indptr[step, -1]`` are undefined.
    kv_indptr : int32 [step, request*topk+1]
        Where the slots of each beam start.

    Raises
    ------
    SpecRejection
        ROW_TOO_SHORT; INCONSISTENT_LENGTHS: positions have already advanced.

    Notes
    -----
    Source: semantics A.11. A beam reads the slots of its own place, whatever sat there at earlier steps.
    """
    axes = check_call("generate_draft_decode_kv_indices", locals())
    topk, num_steps, page_size = axes["topk"], axes["num_steps"], axes["page_size"]
    num_rows = axes["request"] * topk
    kv_indices = np.zeros((num_steps, num_rows * axes["position"]), dtype=np.int32)
    kv_indptr = np.zeros((num_steps, num_rows + 1), dtype=np.int32)
    for step in range(num_steps):
        end = 0
        for row in range(num_rows):
            request, beam = divmod(row, topk)
            length = int(seq_lens[request])
            first = length + beam * beam_stride(length, topk, num_steps, page_size)
            slots = req_to_token[req_pool_indices[request]]
            for visible in (slots[:length], slots[first : first + step + 1]):
                kv_indices[step, end : end + len(visible)] = visible
                end += len(visible)
            kv_indptr[step, row + 1] = end
    return GenerateDraftDecodeKvIndicesOutputs(kv_indices, kv_indptr)


def draft_decode_cascade_metadata(
    req_pool_indices: Array,
    req_to_token: Array,
    seq_lens: Array,
    topk: int,
    num_steps: int,
    page_size: int,
    max_prefix_len: int,
) -> DraftDecodeCascadeMetadataOutputs[Array]:
    """Lay out two passes in whole pages: all beams over the prefix, then every beam over its own pages.

    Parameters
    ----------
    req_pool_indices : int64 [request]
        Row of each request.
    req_to_token : int32 [row, position]
        Slot of each position.
    seq_lens : int64 or int32 [request]
        Committed lengths.
    topk, num_steps : int
        Beams, and entries a beam.
    page_size : int
        Slots a page; beams of a tree lie on pages of their own.
    max_prefix_len : int
        Positions that the page table of the prefix covers: the longest length, or a bound on it.

    Returns
    -------
    cache_seqlens : int32 [request]
        Keys of the first pass: the committed positions on whole pages.
    cu_seqlens_q : int32 [request+1]
        Where the beams of each request start, its queries of the first pass.
    page_table : int32 [request, prefix_page]
        Whole pages of the prefix; columns past them are 0.
    expand_cache_seqlens : int32 [step, request*topk]
        Keys of the second pass at each step: the rest of the prefix, and the beam's own entries up to now.
    expand_page_table : int32 [request*topk, own_page]
        The beam's own pages; a step reads the first ones, as many as its keys take. Columns past the last step's are 0.

    Raises
    ------
    SpecRejection
        ROW_TOO_SHORT; INCONSISTENT_LENGTHS: the page table is too small.

    Notes
    -----
    Source: semantics A.11b. The rest of the prefix lies on the first of a beam's own pages, where it was copied (A.9).
    """
    axes = check_call("draft_decode_cascade_metadata", locals())
    topk, num_steps, page_size = axes["topk"], axes["num_steps"], axes["page_size"]
    num_requests = axes["request"]
    most_own = ceil_to(page_size - 1 + num_steps, page_size) // page_size
    cache_seqlens = np.zeros(num_requests, dtype=np.int32)
    cu_seqlens_q = np.zeros(num_requests + 1, dtype=np.int32)
    page_table = np.zeros((num_requests, axes["max_prefix_len"] // page_size), dtype=np.int32)
    expand_cache_seqlens = np.zeros((num_steps, num_requests * topk), dtype=np.int32)
    expand_page_table = np.zeros((num_requests * topk, most_own), dtype=np.int32)
    for request in range(num_requests):
        length = int(seq_lens[request])
        slots = req_to_token[req_pool_indices[request]]
        base = floor_to(length, page_size)
        cache_seqlens[request] = base
        cu_seqlens_q[request + 1] = cu_seqlens_q[request] + topk
        for page in range(base // page_size):
            page_table[request, page] = slots[page * page_size] // page_size
        for beam in range(topk):
            row = request * topk + beam
            first = base + beam * beam_stride(length, topk, num_steps, page_size)
            for step in range(num_steps):
                expand_cache_seqlens[step, row] = length - base + step + 1
            for page in range(ceil_to(length - base + num_steps, page_size) // page_size):
                expand_page_table[row, page] = slots[first + page * page_size] // page_size
    return DraftDecodeCascadeMetadataOutputs(
        cache_seqlens, cu_seqlens_q, page_table, expand_cache_seqlens, expand_page_table
    )
