"""Kernels of acceptance by chance; probabilities are added up in float64."""

import triton
import triton.language as tl

from specsim.gpu.kernels.device.chains import load_chain
from specsim.gpu.kernels.device.drawing import add_up, pick
from specsim.gpu.kernels.device.hashing import GOLDEN, mix
from specsim.gpu.kernels.device.succession import follow_previous
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
    follow_previous()
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


@triton.jit
def _leave_last_draw(last_draw_ptr, request, target_offset, draft_offset, rejected, place):
    """Leave to the last draw where its rows start, whether a token was rejected, and where the drawn one belongs."""
    tl.store(last_draw_ptr + request * 4, target_offset)
    tl.store(last_draw_ptr + request * 4 + 1, draft_offset)
    tl.store(last_draw_ptr + request * 4 + 2, rejected)
    tl.store(last_draw_ptr + request * 4 + 3, place)


@triton.jit
def _load_links(links_ptr, node, num_nodes):
    """Return the node that each node of a tile is linked to, -1 where there is none in its tree."""
    link = tl.load(links_ptr + node, mask=node < num_nodes, other=-1)
    return tl.where((link >= 0) & (link < num_nodes), link, -1).to(tl.int32)


@triton.jit(do_not_specialize=["num_nodes", "num_steps", "blocks_per_program"])
def _walk_tree_kernel(
    tree_ptrs,
    uniform_samples_ptr,
    target_probs_ptr,
    draft_probs_ptr,
    threshold_ptrs,
    path_ptrs,
    last_draw_ptr,
    block_mass_ptr,
    num_nodes,
    vocab,
    num_steps,
    target_strides,
    draft_strides,
    blocks_per_program,
    STRICT: tl.constexpr,
    SKIP_DUPLICATES: tl.constexpr,
    NODES: tl.constexpr,
    WIDTH: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Walk one request's tree, node by node, and add up some blocks of the row that is drawn from.

    Every program of a request walks for itself, so that none waits for another, and writes the same rejected
    probabilities before it reads them. The first of them writes down where the walk went. Both loops, over nodes and
    over siblings, end after at most as many rounds as there are nodes, whatever the links say.
    """
    follow_previous()
    candidates_ptr, retrieve_index_ptr, retrieve_next_token_ptr, retrieve_next_sibling_ptr = tree_ptrs
    threshold_single_ptr, threshold_acc_ptr = threshold_ptrs
    predict_ptr, accept_index_ptr, num_accepted_drafts_ptr = path_ptrs
    target_request_stride, target_node_stride, target_token_stride = target_strides
    draft_request_stride, draft_node_stride, draft_token_stride = draft_strides
    request = tl.program_id(0).to(tl.int64)
    first = request * num_nodes
    threshold_single = tl.load(threshold_single_ptr + request).to(tl.float64)
    threshold_acc = tl.load(threshold_acc_ptr + request).to(tl.float64)
    threshold_acc = tl.maximum(threshold_acc, tl.full([], LEAST_THRESHOLD, dtype=tl.float64))
    node = tl.arange(0, NODES)
    child_of = _load_links(retrieve_next_token_ptr + first, node, num_nodes)
    sibling_of = _load_links(retrieve_next_sibling_ptr + first, node, num_nodes)
    token_of = tl.load(candidates_ptr + first + node, mask=node < num_nodes, other=-1)
    token_of = tl.where((token_of >= 0) & (token_of < vocab), token_of, -1).to(tl.int32)
    predict = tl.zeros([NODES], dtype=tl.int32)
    place = tl.arange(0, WIDTH)
    path = tl.where(place == 0, 0, -1)
    is_rejected = node < 0
    last = tl.full([], 0, dtype=tl.int32)
    num_drafts = tl.full([], 0, dtype=tl.int32)
    is_walking = num_drafts < num_steps
    while is_walking:
        target_row = request * target_request_stride + last.to(tl.int64) * target_node_stride
        draft_row = request * draft_request_stride + last.to(tl.int64) * draft_node_stride
        # The probabilities of all tokens of the tree arrive together, those that no child has for nothing.
        share_of = tl.load(
            target_probs_ptr + target_row + token_of.to(tl.int64) * target_token_stride, mask=token_of >= 0, other=0.0
        )
        is_accepted, accepted, token, is_rejected = try_siblings(
            tl.sum(tl.where(node == last, child_of, 0), 0),
            token_of,
            sibling_of,
            share_of,
            tl.load(uniform_samples_ptr + first + last).to(tl.float64),
            threshold_single,
            threshold_acc,
            num_nodes,
            STRICT,
            SKIP_DUPLICATES,
            NODES,
        )
        tried_ptr = draft_probs_ptr + draft_row + token_of.to(tl.int64) * draft_token_stride
        tl.store(tried_ptr, share_of, mask=is_rejected & (token_of >= 0))
        predict = tl.where((node == last) & is_accepted, token, predict)
        num_drafts += is_accepted.to(tl.int32)
        last = tl.where(is_accepted, accepted, last)
        path = tl.where((place == num_drafts) & is_accepted, last, path)
        is_walking = is_accepted & (num_drafts < num_steps)

    target_row = request * target_request_stride + last.to(tl.int64) * target_node_stride
    draft_row = request * draft_request_stride + last.to(tl.int64) * draft_node_stride
    rejected = tl.where(is_rejected & (num_drafts < num_steps), token_of, -1)
    any_rejected = tl.max(rejected, 0)
    if tl.program_id(1) == 0:
        tl.store(predict_ptr + first + node, predict, mask=node < num_nodes)
        number = tl.load(retrieve_index_ptr + first + path, mask=path >= 0, other=-1)
        tl.store(accept_index_ptr + request * (num_steps + 1) + place, number.to(tl.int32), mask=place <= num_steps)
        tl.store(num_accepted_drafts_ptr + request, num_drafts)
        _leave_last_draw(last_draw_ptr, request, target_row, draft_row, any_rejected, first + last)

    # NOTE: the sums read rejected probabilities that other threads have written.
    tl.debug_barrier()
    residual = (
        target_probs_ptr + target_row,
        target_token_stride,
        draft_probs_ptr + draft_row,
        draft_token_stride,
        any_rejected >= 0,
        -1,
        1.0,
    )
    mass_ptr = block_mass_ptr + request * tl.cdiv(vocab, BLOCK)
    add_up(residual, rejected, mass_ptr, vocab, blocks_per_program, True, BLOCK)


@triton.jit(do_not_specialize=["num_drafted", "max_num_drafts", "blocks_per_program"])
def _accept_chain_kernel(
    draft_tokens_ptr,
    cu_num_drafts_ptr,
    uniform_samples_ptr,
    draft_probs_ptr,
    target_probs_ptr,
    output_tokens_ptr,
    num_accepted_drafts_ptr,
    last_draw_ptr,
    block_mass_ptr,
    num_drafted,
    vocab,
    max_num_drafts,
    draft_strides,
    target_strides,
    blocks_per_program,
    HAS_DRAFT: tl.constexpr,
    WIDTH: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Accept one request's drafts up to the first rejection, and add up some blocks of the row that is drawn from.

    Every program of a request decides for itself, from all drafts at once: that takes as long as one draft, and no
    program waits for another. The first of them writes down what was decided.
    """
    follow_previous()
    draft_row_stride, draft_token_stride = draft_strides
    target_row_stride, target_token_stride = target_strides
    request = tl.program_id(0).to(tl.int64)
    place = tl.arange(0, WIDTH)
    start, is_draft, token, is_token, target, proposal = load_chain(
        draft_tokens_ptr,
        cu_num_drafts_ptr,
        draft_probs_ptr,
        target_probs_ptr,
        request,
        num_drafted,
        vocab,
        max_num_drafts,
        draft_strides,
        target_strides,
        HAS_DRAFT,
        WIDTH,
    )
    coin = tl.load(uniform_samples_ptr + start + place, mask=is_draft, other=0.0).to(tl.float64)
    is_accepted = is_token & (proposal > 0) & (coin * proposal < target)
    num_drafts = tl.min(tl.where(is_accepted, WIDTH, place), 0)
    # NOTE: a place without a draft holds -1, as a padded draft does; neither of them is a rejection.
    rejected = tl.max(tl.where(place == num_drafts, token, -1), 0)
    target_row = (start + num_drafts + request) * target_row_stride
    draft_row = (start + num_drafts) * draft_row_stride
    if tl.program_id(1) == 0:
        output = tl.where(place < num_drafts, token, -1).to(tl.int32)
        first = request * (max_num_drafts + 1)
        tl.store(output_tokens_ptr + first + place, output, mask=place <= max_num_drafts)
        tl.store(num_accepted_drafts_ptr + request, num_drafts)
        _leave_last_draw(last_draw_ptr, request, target_row, draft_row, rejected, first + num_drafts)

    row_ptr = target_probs_ptr + target_row
    other_ptr = row_ptr
    if HAS_DRAFT:
        other_ptr = draft_probs_ptr + draft_row
    residual = (row_ptr, target_token_stride, other_ptr, draft_token_stride, rejected >= 0, rejected, 1.0)
    mass_ptr = block_mass_ptr + request * tl.cdiv(vocab, BLOCK)
    add_up(residual, None, mass_ptr, vocab, blocks_per_program, HAS_DRAFT, BLOCK)


@triton.jit
def _draw_last_token_kernel(
    uniform_samples_for_final_sampling_ptr,
    target_probs_ptr,
    draft_probs_ptr,
    last_draw_ptr,
    block_mass_ptr,
    drawn_token_ptr,
    vocab,
    target_token_stride,
    draft_token_stride,
    HAS_OTHER: tl.constexpr,
    BLOCK: tl.constexpr,
    BLOCKS: tl.constexpr,
):
    """Draw the token after one request's accepted drafts, from the block that its coin falls into."""
    follow_previous()
    request = tl.program_id(0).to(tl.int64)
    row_ptr = target_probs_ptr + tl.load(last_draw_ptr + request * 4)
    other_ptr = row_ptr
    if HAS_OTHER:
        other_ptr = draft_probs_ptr + tl.load(last_draw_ptr + request * 4 + 1)
    rejected = tl.load(last_draw_ptr + request * 4 + 2)
    place = tl.arange(0, BLOCKS)
    num_blocks = tl.cdiv(vocab, BLOCK)
    token = pick(
        tl.load(block_mass_ptr + request * num_blocks + place, mask=place < num_blocks, other=0.0),
        (row_ptr, target_token_stride, other_ptr, draft_token_stride, rejected >= 0, rejected, 1.0),
        tl.load(uniform_samples_for_final_sampling_ptr + request).to(tl.float64),
        vocab,
        HAS_OTHER,
        BLOCK,
        BLOCKS,
    )
    tl.store(drawn_token_ptr + tl.load(last_draw_ptr + request * 4 + 3), token)


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
    follow_previous()
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
