"""Draft cache: the slots that the draft model writes and reads while it drafts."""

import numpy as np

from specsim.conformance.arrays import Array
from specsim.operations.outputs import GenerateDraftDecodeKvIndicesOutputs
from specsim.validation.checking import check_call


def assign_draft_cache_locs(
    req_pool_indices: Array, req_to_token: Array, seq_lens: Array, topk: int, num_steps: int
) -> Array:
    """Read the slots of the draft entries from the request rows, contiguous layout.

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

    Returns
    -------
    out_cache_loc : int64 [request*topk*step]
        Slot of entry s of beam t of request b at ``(b*topk + t)*num_steps + s``.

    Raises
    ------
    SpecRejection
        ROW_TOO_SHORT: the last entry lies past the row.

    Notes
    -----
    Source: semantics A.9.
    """
    axes = check_call("assign_draft_cache_locs", locals())
    topk, num_steps = axes["topk"], axes["num_steps"]
    out_cache_loc = np.zeros(axes["request"] * topk * num_steps, dtype=np.int64)
    for request in range(axes["request"]):
        for beam in range(topk):
            for step in range(num_steps):
                position = seq_lens[request] + beam * num_steps + step
                slot = req_to_token[req_pool_indices[request], position]
                out_cache_loc[(request * topk + beam) * num_steps + step] = slot
    return out_cache_loc


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
    req_pool_indices: Array, req_to_token: Array, seq_lens: Array, positions: Array, topk: int, num_steps: int
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
    topk, num_steps = axes["topk"], axes["num_steps"]
    num_rows = axes["request"] * topk
    kv_indices = np.zeros((num_steps, num_rows * axes["position"]), dtype=np.int32)
    kv_indptr = np.zeros((num_steps, num_rows + 1), dtype=np.int32)
    for step in range(num_steps):
        end = 0
        for row in range(num_rows):
            request, beam = divmod(row, topk)
            length = int(seq_lens[request])
            first = length + beam * num_steps
            slots = req_to_token[req_pool_indices[request]]
            for visible in (slots[:length], slots[first : first + step + 1]):
                kv_indices[step, end : end + len(visible)] = visible
                end += len(visible)
            kv_indptr[step, row + 1] = end
    return GenerateDraftDecodeKvIndicesOutputs(kv_indices, kv_indptr)
