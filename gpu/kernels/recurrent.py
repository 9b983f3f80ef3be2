"""Kernels of ``specsim.gpu.recurrent``."""

import triton
import triton.language as tl

from specsim.gpu.kernels.device.succession import follow_previous


@triton.jit
def _step_at(accept_index_ptr, request, place, is_request, num_nodes, width):
    """Return the number of the node at a place of a request's path, inside its tree; -1 without one."""
    is_inside = is_request & (place >= 0) & (place < width)
    node = tl.load(accept_index_ptr + request * width + place, mask=is_inside, other=-1).to(tl.int64)
    step = node - request * num_nodes
    return tl.where((node >= 0) & (step >= 0) & (step < num_nodes), step, -1)


@triton.jit
def _get_recurrent_steps_kernel(
    accept_index_ptr,
    num_accepted_tokens_ptr,
    seq_lens_ptr,
    commit_step_ptr,
    snapshot_step_ptr,
    num_requests,
    num_nodes,
    width,
    interval,
    HAS_SNAPSHOTS: tl.constexpr,
    REQUESTS: tl.constexpr,
):
    follow_previous()
    request = tl.program_id(0).to(tl.int64) * REQUESTS + tl.arange(0, REQUESTS)
    is_request = request < num_requests
    count = tl.load(num_accepted_tokens_ptr + request, mask=is_request, other=1).to(tl.int64)
    commit = _step_at(accept_index_ptr, request, count - 1, is_request, num_nodes, width)
    tl.store(commit_step_ptr + request, commit, mask=is_request)
    if HAS_SNAPSHOTS:
        length = tl.load(seq_lens_ptr + request, mask=is_request, other=0).to(tl.int64)
        crossing = (length + count) // interval * interval
        has_crossed = is_request & (crossing > length)
        snapshot = _step_at(accept_index_ptr, request, crossing - length - 1, has_crossed, num_nodes, width)
    else:
        snapshot = tl.full((REQUESTS,), -1, dtype=tl.int64)
    tl.store(snapshot_step_ptr + request, snapshot, mask=is_request)


@triton.jit
def _copy_states(
    states_ptr,
    steps_ptr,
    slots_ptr,
    step_ptr,
    request,
    word,
    is_word,
    state_stride,
    request_stride,
    node_stride,
    num_requests,
    num_states,
    num_nodes,
    IS_ALIGNED: tl.constexpr,
):
    is_request = request < num_requests
    slot = tl.load(slots_ptr + request, mask=is_request, other=-1)
    step = tl.load(step_ptr + request, mask=is_request, other=-1)
    is_kept = is_request & (slot >= 0) & (slot < num_states) & (step >= 0) & (step < num_nodes)
    mask = is_kept[:, None] & is_word[None, :]
    from_ptr = steps_ptr + (request * request_stride + step * node_stride)[:, None] + word[None, :]
    to_ptr = states_ptr + (slot * state_stride)[:, None] + word[None, :]
    if IS_ALIGNED:
        from_ptr = tl.max_contiguous(tl.multiple_of(from_ptr, (1, 16)), (1, 2))
        to_ptr = tl.max_contiguous(tl.multiple_of(to_ptr, (1, 16)), (1, 2))
    tl.store(to_ptr, tl.load(from_ptr, mask=mask), mask=mask)


@triton.jit
def _commit_recurrent_states_kernel(
    states_ptr,
    steps_ptr,
    state_slots_ptr,
    commit_step_ptr,
    snapshot_slots_ptr,
    snapshot_step_ptr,
    num_requests,
    num_states,
    num_nodes,
    num_tiles,
    WORD: tl.constexpr,
    STATE_SCALE: tl.constexpr,
    STEP_SCALE: tl.constexpr,
    IS_ALIGNED: tl.constexpr,
    REQUESTS: tl.constexpr,
    WORDS: tl.constexpr,
):
    """Copy states of one strip; a row of a table is address, one stride, the other, words, and of states one twice."""
    follow_previous()
    strip = tl.program_id(0) // num_tiles
    state_strip_ptr, step_strip_ptr = states_ptr + strip * 4, steps_ptr + strip * 4
    num_words = tl.load(state_strip_ptr + 3) * STATE_SCALE
    if IS_ALIGNED:
        num_words = tl.multiple_of(num_words, 2)
    word = tl.program_id(0) % num_tiles * WORDS + tl.arange(0, WORDS)
    request = tl.program_id(1).to(tl.int64) * REQUESTS + tl.arange(0, REQUESTS)
    state_ptr = tl.load(state_strip_ptr).to(tl.pointer_type(WORD))
    step_ptr = tl.load(step_strip_ptr).to(tl.pointer_type(WORD))
    state_stride = tl.load(state_strip_ptr + 1) * STATE_SCALE
    request_stride = tl.load(step_strip_ptr + 1) * STEP_SCALE
    node_stride = tl.load(step_strip_ptr + 2) * STEP_SCALE
    _copy_states(
        state_ptr,
        step_ptr,
        state_slots_ptr,
        commit_step_ptr,
        request,
        word,
        word < num_words,
        state_stride,
        request_stride,
        node_stride,
        num_requests,
        num_states,
        num_nodes,
        IS_ALIGNED,
    )
    _copy_states(
        state_ptr,
        step_ptr,
        snapshot_slots_ptr,
        snapshot_step_ptr,
        request,
        word,
        word < num_words,
        state_stride,
        request_stride,
        node_stride,
        num_requests,
        num_states,
        num_nodes,
        IS_ALIGNED,
    )
