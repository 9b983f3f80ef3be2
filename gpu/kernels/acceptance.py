"""Kernels of acceptance by chance; probabilities are added up in float64."""

import triton
import triton.language as tl

from specsim.gpu.kernels.device.drawing import draw, pick, weights_of
from specsim.gpu.kernels.device.hashing import GOLDEN, mix
from specsim.gpu.kernels.device.trying import try_siblings
from specsim.host import sampling, simulated

FINAL_COLUMN = tl.constexpr(sampling.FINAL_COLUMN)
COIN_STEP = tl.constexpr(sampling.COIN_STEP)
UNUSED_BITS = tl.constexpr(32 - sampling.COIN_BITS)
LEAST_THRESHOLD = tl.constexpr(sampling.LEAST_THRESHOLD)
SIMULATED_TOKEN = tl.constexpr(simulated.SIMULATED_TOKEN)


@triton.jit(do_not_specialize=["num_requests", "num_nodes"])
def _generate_coins_kernel(
    seeds_ptr,
    seq_lens_ptr,
    uniform_samples_ptr,
    uniform_samples_for_final_sampling_ptr,
    num_requests,
    num_nodes,
    REQUESTS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    """Hash the coins of a block of requests; the column after the last node holds the final coin."""
    request = tl.program_id(0).to(tl.int64) * REQUESTS + tl.arange(0, REQUESTS)
    is_request = request < num_requests
    column = tl.arange(0, COLUMNS)
    seed = tl.load(seeds_ptr + request, mask=is_request, other=0).to(tl.uint32)
    length = tl.load(seq_lens_ptr + request, mask=is_request, other=0).to(tl.uint32)
    state = mix(mix(seed + GOLDEN) + length)
    hashed = tl.where(column < num_nodes, column, FINAL_COLUMN).to(tl.uint32)
    word = mix(state[:, None] + hashed[None, :])
    coin = (word >> UNUSED_BITS).to(tl.int32).to(tl.float32) * COIN_STEP
    is_node = is_request[:, None] & (column < num_nodes)[None, :]
    tl.store(uniform_samples_ptr + (request * num_nodes)[:, None] + column[None, :], coin, mask=is_node)
    is_final = is_request[:, None] & (column == num_nodes)[None, :]
    tl.store(
        uniform_samples_for_final_sampling_ptr + request[:, None] + tl.zeros_like(column)[None, :], coin, mask=is_final
    )


@triton.jit(do_not_specialize=["num_nodes", "vocab", "num_steps"])
def _tree_speculative_sampling_kernel(
    tree_ptrs,
    coin_ptrs,
    target_probs_ptr,
    draft_probs_ptr,
    threshold_ptrs,
    path_ptrs,
    num_nodes,
    vocab,
    num_steps,
    target_strides,
    draft_strides,
    STRICT: tl.constexpr,
    SKIP_DUPLICATES: tl.constexpr,
    NODES: tl.constexpr,
    WIDTH: tl.constexpr,
    BLOCK: tl.constexpr,
    BLOCKS: tl.constexpr,
):
    """Walk one request's tree, node by node, then draw its last token.

    Both loops, over nodes and over siblings, end after at most as many rounds as there are nodes, whatever the links
    say.
    """
    candidates_ptr, retrieve_index_ptr, retrieve_next_token_ptr, retrieve_next_sibling_ptr = tree_ptrs
    uniform_samples_ptr, uniform_samples_for_final_sampling_ptr = coin_ptrs
    threshold_single_ptr, threshold_acc_ptr = threshold_ptrs
    predict_ptr, accept_index_ptr, num_accepted_drafts_ptr = path_ptrs
    # One program walks one tree, and every thread holds the same node, child and sum; a rejected probability is written
    # by one thread, and read by others only after the barrier.
    target_request_stride, target_node_stride, target_token_stride = target_strides
    draft_request_stride, draft_node_stride, draft_token_stride = draft_strides
    request = tl.program_id(0).to(tl.int64)
    first = request * num_nodes
    target_ptr = target_probs_ptr + request * target_request_stride
    draft_ptr = draft_probs_ptr + request * draft_request_stride
    threshold_single = tl.load(threshold_single_ptr + request).to(tl.float64)
    threshold_acc = tl.load(threshold_acc_ptr + request).to(tl.float64)
    threshold_acc = tl.maximum(threshold_acc, tl.full([], LEAST_THRESHOLD, dtype=tl.float64))
    node = tl.arange(0, NODES)
    token_of = tl.load(candidates_ptr + first + node, mask=node < num_nodes, other=-1)
    predict = tl.zeros([NODES], dtype=tl.int32)
    place = tl.arange(0, WIDTH)
    path = tl.where(place == 0, 0, -1)
    last = tl.full([], 0, dtype=tl.int64)
    num_drafts = tl.full([], 0, dtype=tl.int32)
    num_rejected = tl.full([], 0, dtype=tl.int32)
    is_walking = num_drafts < num_steps
    while is_walking:
        is_accepted, accepted, token, num_rejected = try_siblings(
            tl.load(retrieve_next_token_ptr + first + last),
            token_of,
            candidates_ptr + first,
            retrieve_next_sibling_ptr + first,
            target_ptr + last * target_node_stride,
            target_token_stride,
            draft_ptr + last * draft_node_stride,
            draft_token_stride,
            tl.load(uniform_samples_ptr + first + last).to(tl.float64),
            threshold_single,
            threshold_acc,
            num_nodes,
            vocab,
            STRICT,
            SKIP_DUPLICATES,
            NODES,
        )
        predict = tl.where((node == last) & is_accepted, token.to(tl.int32), predict)
        num_drafts += is_accepted.to(tl.int32)
        last = tl.where(is_accepted, accepted, last)
        path = tl.where((place == num_drafts) & is_accepted, last.to(tl.int32), path)
        is_walking = is_accepted & (num_drafts < num_steps)

    # NOTE: the draw reads the rejected probabilities that single threads have written.
    tl.debug_barrier()
    row_ptr = target_ptr + last * target_node_stride
    other_ptr = draft_ptr + last * draft_node_stride
    is_rejected = (num_rejected > 0) & (num_drafts < num_steps)
    token = draw(
        (row_ptr, target_token_stride, other_ptr, draft_token_stride, is_rejected, -1),
        tl.load(uniform_samples_for_final_sampling_ptr + request).to(tl.float64),
        vocab,
        True,
        BLOCK,
        BLOCKS,
    )
    predict = tl.where(node == last, token, predict)
    tl.store(predict_ptr + first + node, predict, mask=node < num_nodes)
    number = tl.load(retrieve_index_ptr + first + path, mask=path >= 0, other=-1)
    tl.store(accept_index_ptr + request * (num_steps + 1) + place, number.to(tl.int32), mask=place <= num_steps)
    tl.store(num_accepted_drafts_ptr + request, num_drafts)


@triton.jit
def _first_draft(cu_num_drafts_ptr, request, num_drafted):
    """Return where the drafts of a request begin among those of all requests."""
    start = tl.load(cu_num_drafts_ptr + request).to(tl.int64)
    return tl.minimum(tl.maximum(start, 0), num_drafted)


@triton.jit(do_not_specialize=["num_drafted", "vocab", "max_num_drafts", "num_blocks", "blocks_per_program"])
def _accept_chain_kernel(
    draft_tokens_ptr,
    cu_num_drafts_ptr,
    uniform_samples_ptr,
    draft_probs_ptr,
    target_probs_ptr,
    output_tokens_ptr,
    num_accepted_drafts_ptr,
    rejected_token_ptr,
    block_mass_ptr,
    num_drafted,
    vocab,
    max_num_drafts,
    draft_strides,
    target_strides,
    num_blocks,
    blocks_per_program,
    HAS_DRAFT: tl.constexpr,
    WIDTH: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Accept one request's drafts up to the first rejection, and add up some blocks of the row that is drawn from.

    Every program of a request decides for itself, from all drafts at once: that takes as long as one draft, and no
    program waits for another. The first of them writes down what was decided.
    """
    draft_row_stride, draft_token_stride = draft_strides
    target_row_stride, target_token_stride = target_strides
    request = tl.program_id(0).to(tl.int64)
    start = _first_draft(cu_num_drafts_ptr, request, num_drafted)
    end = tl.minimum(tl.load(cu_num_drafts_ptr + request + 1).to(tl.int64), num_drafted)
    length = tl.minimum(end - start, max_num_drafts).to(tl.int32)
    place = tl.arange(0, WIDTH)
    draft = start + place
    is_draft = place < length
    token = tl.load(draft_tokens_ptr + draft, mask=is_draft, other=-1)
    is_token = (token >= 0) & (token < vocab)
    target_row = (draft + request) * target_row_stride
    target = tl.load(target_probs_ptr + target_row + token * target_token_stride, mask=is_token, other=0.0)
    proposal = tl.full([WIDTH], 1.0, dtype=tl.float32)
    if HAS_DRAFT:
        draft_row = draft * draft_row_stride
        proposal = tl.load(draft_probs_ptr + draft_row + token * draft_token_stride, mask=is_token, other=0.0)
    proposal = proposal.to(tl.float64)
    coin = tl.load(uniform_samples_ptr + draft, mask=is_draft, other=0.0).to(tl.float64)
    is_accepted = is_token & (proposal > 0) & (coin * proposal < target.to(tl.float64))
    num_drafts = tl.min(tl.where(is_accepted, WIDTH, place), 0)
    # NOTE: a place without a draft holds -1, as a padded draft does; neither of them is a rejection.
    rejected = tl.max(tl.where(place == num_drafts, token, -1), 0)
    if tl.program_id(1) == 0:
        output = tl.where(place < num_drafts, token, -1).to(tl.int32)
        tl.store(output_tokens_ptr + request * (max_num_drafts + 1) + place, output, mask=place <= max_num_drafts)
        tl.store(num_accepted_drafts_ptr + request, num_drafts)
        tl.store(rejected_token_ptr + request, rejected)

    row_ptr = target_probs_ptr + (start + num_drafts + request) * target_row_stride
    other_ptr = target_probs_ptr
    if HAS_DRAFT:
        other_ptr = draft_probs_ptr + (start + num_drafts) * draft_row_stride
    residual = (row_ptr, target_token_stride, other_ptr, draft_token_stride, rejected >= 0, rejected)
    first = tl.program_id(1) * blocks_per_program
    for block in range(first, tl.minimum(first + blocks_per_program, num_blocks)):
        lane = block * BLOCK + tl.arange(0, BLOCK)
        weight = weights_of(residual, lane, lane < vocab, HAS_DRAFT)
        tl.store(block_mass_ptr + request * num_blocks + block, tl.sum(weight, 0))


@triton.jit(do_not_specialize=["num_drafted", "vocab", "max_num_drafts", "num_blocks"])
def _draw_after_chain_kernel(
    cu_num_drafts_ptr,
    uniform_samples_for_final_sampling_ptr,
    draft_probs_ptr,
    target_probs_ptr,
    output_tokens_ptr,
    num_accepted_drafts_ptr,
    rejected_token_ptr,
    block_mass_ptr,
    num_drafted,
    vocab,
    max_num_drafts,
    draft_strides,
    target_strides,
    num_blocks,
    HAS_DRAFT: tl.constexpr,
    BLOCK: tl.constexpr,
    BLOCKS: tl.constexpr,
):
    """Draw the token after one request's accepted drafts."""
    draft_row_stride, draft_token_stride = draft_strides
    target_row_stride, target_token_stride = target_strides
    request = tl.program_id(0).to(tl.int64)
    num_drafts = tl.load(num_accepted_drafts_ptr + request)
    rejected = tl.load(rejected_token_ptr + request)
    row = _first_draft(cu_num_drafts_ptr, request, num_drafted) + num_drafts
    other_ptr = target_probs_ptr
    if HAS_DRAFT:
        other_ptr = draft_probs_ptr + row * draft_row_stride
    place = tl.arange(0, BLOCKS)
    block_mass = tl.load(block_mass_ptr + request * num_blocks + place, mask=place < num_blocks, other=0.0)
    row_ptr = target_probs_ptr + (row + request) * target_row_stride
    last = pick(
        block_mass,
        (row_ptr, target_token_stride, other_ptr, draft_token_stride, rejected >= 0, rejected),
        tl.load(uniform_samples_for_final_sampling_ptr + request).to(tl.float64),
        vocab,
        HAS_DRAFT,
        BLOCK,
        BLOCKS,
    )
    tl.store(output_tokens_ptr + request * (max_num_drafts + 1) + num_drafts, last)


@triton.jit(do_not_specialize=["num_requests", "simulated_num_tokens", "num_nodes", "width"])
def _generate_simulated_accept_index_kernel(
    accept_index_ptr,
    predict_ptr,
    simulated_accept_index_ptr,
    num_accepted_drafts_ptr,
    num_requests,
    simulated_num_tokens,
    num_nodes,
    width,
    REQUESTS: tl.constexpr,
    NODES: tl.constexpr,
):
    """Fill the rows of a block of requests; a path has no more nodes than its tree."""
    request = tl.program_id(0).to(tl.int64) * REQUESTS + tl.arange(0, REQUESTS)[:, None]
    place = tl.arange(0, NODES)[None, :]
    is_request = request < num_requests
    root = tl.load(accept_index_ptr + request * width, mask=is_request, other=0)
    number = tl.where(place < simulated_num_tokens, root + place, -1)
    tl.store(simulated_accept_index_ptr + request * width + place, number, mask=is_request & (place < width))
    tokens = tl.full([REQUESTS, NODES], SIMULATED_TOKEN, dtype=tl.int32)
    tl.store(predict_ptr + request * num_nodes + place, tokens, mask=is_request & (place < num_nodes))
    num_drafts = tl.zeros_like(root) + (simulated_num_tokens - 1)
    tl.store(num_accepted_drafts_ptr + request, num_drafts, mask=is_request)
