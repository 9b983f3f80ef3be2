"""Attention metadata of the target forward, greedy choice, and acceptance."""

import triton
import triton.language as tl

from specsim.gpu.kernels.device.succession import follow_previous
from specsim.gpu.kernels.device.walking import child_with, entry_of, is_any, load_links

LARGEST_INT32 = tl.constexpr(2**31 - 1)


@triton.jit(do_not_specialize=["num_requests", "tokens_per_request", "num_pages", "page_size"])
def _target_verify_metadata_kernel(
    req_pool_indices_ptr,
    req_to_token_ptr,
    seq_lens_ptr,
    verify_lens_ptr,
    cache_seqlens_ptr,
    cu_seqlens_q_ptr,
    cu_seqlens_k_ptr,
    page_table_ptr,
    num_requests,
    num_rows,
    tokens_per_request,
    num_pages,
    page_size,
    row_stride,
    column_stride,
    REQUESTS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Write a block of one request's pages; the first block also writes its lengths and offsets.

    A request has ``tokens_per_request`` queries, and as many more as its entry of ``verify_lens`` where there is one.
    """
    follow_previous()
    request = tl.program_id(0).to(tl.int64)
    block = tl.program_id(1)
    row = tl.load(req_pool_indices_ptr + request)
    row = tl.where((row >= 0) & (row < num_rows), row, 0)
    page = block.to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = page < num_pages
    source = row * row_stride + page * page_size * column_stride
    slot = tl.load(req_to_token_ptr + source, mask=inside, other=0)
    quotient = slot // page_size
    quotient = tl.where(quotient * page_size > slot, quotient - 1, quotient)
    tl.store(page_table_ptr + request * num_pages + page, quotient, mask=inside)
    if block == 0:
        lane = tl.arange(0, REQUESTS)
        lengths = tl.load(seq_lens_ptr + lane, mask=lane < num_requests, other=0).to(tl.int64)
        lengths += tokens_per_request
        query_end = (request + 1) * tokens_per_request
        if verify_lens_ptr is not None:
            queries = tl.load(verify_lens_ptr + lane, mask=lane < num_requests, other=0).to(tl.int64)
            lengths += queries
            query_end += tl.sum(tl.where(lane <= request, queries, 0), axis=0)
        own_length = tl.sum(tl.where(lane == request, lengths, 0), axis=0)
        end = tl.sum(tl.where(lane <= request, lengths, 0), axis=0)
        tl.store(cache_seqlens_ptr + request, own_length.to(tl.int32))
        tl.store(cu_seqlens_q_ptr + request + 1, query_end.to(tl.int32))
        tl.store(cu_seqlens_k_ptr + request + 1, end.to(tl.int32))
        if request == 0:
            tl.store(cu_seqlens_q_ptr, 0)
            tl.store(cu_seqlens_k_ptr, 0)


@triton.jit
def largest_first(values, index):
    """Return the largest value of a tile and the lowest index that has it."""
    largest = tl.max(values, axis=0)
    return largest, tl.min(tl.where(values == largest, index, LARGEST_INT32), axis=0)


@triton.jit
def load_logits(row_ptr, token, vocab, column_stride, IS_FLOAT: tl.constexpr):
    """Read logits of one row, and the least of their type past the vocabulary."""
    other: tl.constexpr = float("-inf") if IS_FLOAT else -(2**63)
    return tl.load(row_ptr + token.to(tl.int64) * column_stride, mask=token < vocab, other=other)


@triton.jit
def compared(logit):
    """Return logits as they are compared: bfloat16 in float32."""
    return logit.to(tl.float32) if logit.dtype == tl.bfloat16 else logit


@triton.jit(do_not_specialize=["num_blocks_each"])
def _argmax_target_predict_kernel(
    logits_ptr,
    block_values_ptr,
    block_index_ptr,
    target_predict_ptr,
    vocab,
    num_blocks_each,
    row_stride,
    column_stride,
    BLOCK: tl.constexpr,
    IS_FLOAT: tl.constexpr,
):
    """Find the largest logit of one share of a row; every lane keeps its own first largest until the end.

    Lanes past the vocabulary hold the least logit, and some token before them at least that, so that none is chosen.
    """
    follow_previous()
    row = tl.program_id(0).to(tl.int64)
    share = tl.program_id(1)
    first = share * num_blocks_each * BLOCK
    row_ptr = logits_ptr + row * row_stride
    best_index = first + tl.arange(0, BLOCK)
    best = compared(load_logits(row_ptr, best_index, vocab, column_stride, IS_FLOAT))
    if IS_FLOAT:
        best = tl.where(best == best, best, float("-inf"))
    # A block is read while the one before it is compared. NaN is larger than nothing.
    following = load_logits(row_ptr, best_index + BLOCK, vocab, column_stride, IS_FLOAT)
    for block in range(1, num_blocks_each):
        token = first + block * BLOCK + tl.arange(0, BLOCK)
        logit = compared(following)
        following = load_logits(row_ptr, token + BLOCK, vocab, column_stride, IS_FLOAT)
        is_better = logit > best
        best = tl.where(is_better, logit, best)
        best_index = tl.where(is_better, token, best_index)
    value, index = largest_first(best, best_index)
    if target_predict_ptr is not None:
        tl.store(target_predict_ptr + row, index.to(tl.int64))
    else:
        tl.store(block_values_ptr + row * tl.num_programs(1) + share, value)
        tl.store(block_index_ptr + row * tl.num_programs(1) + share, index)


@triton.jit
def _merge_argmax_kernel(block_values_ptr, block_index_ptr, target_predict_ptr, num_shares, SHARES: tl.constexpr):
    """Choose among the shares of one row."""
    follow_previous()
    row = tl.program_id(0).to(tl.int64)
    share = tl.arange(0, SHARES)
    inside = share < num_shares
    value = tl.load(block_values_ptr + row * num_shares + share, mask=inside, other=0)
    index = tl.load(block_index_ptr + row * num_shares + share, mask=inside, other=LARGEST_INT32)
    first_value = tl.load(block_values_ptr + row * num_shares)
    value = tl.where(inside, value, first_value)
    tl.store(target_predict_ptr + row, largest_first(value, index)[1].to(tl.int64))


@triton.jit(do_not_specialize=["num_requests", "num_nodes", "num_steps"])
def _verify_tree_greedy_kernel(
    candidates_ptr,
    retrieve_index_ptr,
    retrieve_next_token_ptr,
    retrieve_next_sibling_ptr,
    target_predict_ptr,
    block_values_ptr,
    block_index_ptr,
    predict_ptr,
    accept_index_ptr,
    num_accepted_drafts_ptr,
    num_requests,
    num_nodes,
    num_steps,
    num_shares,
    REQUESTS: tl.constexpr,
    NODES: tl.constexpr,
    WIDTH: tl.constexpr,
    SHARES: tl.constexpr,
):
    """Walk the trees of a block of requests, which are read at once; choices are given, or shares of rows are merged.

    Tokens have 32 bits, as those that are written. The loop ends after at most as many rounds as there are steps.
    """
    follow_previous()
    request = tl.program_id(0).to(tl.int64) * REQUESTS + tl.arange(0, REQUESTS)[:, None]
    is_request = request < num_requests
    node = tl.arange(0, NODES)[None, :]
    inside = is_request & (node < num_nodes)
    number = request * num_nodes + node
    links = load_links(retrieve_next_token_ptr, retrieve_next_sibling_ptr, number, inside, num_nodes)
    tokens = tl.load(candidates_ptr + number, mask=inside, other=-1).to(tl.int32)
    index = tl.load(retrieve_index_ptr + number, mask=inside, other=-1).to(tl.int32)
    if target_predict_ptr is not None:
        target = tl.load(target_predict_ptr + number, mask=inside, other=0).to(tl.int32)
    else:
        share = tl.arange(0, SHARES)[None, None, :]
        is_share = inside[:, :, None] & (share < num_shares)
        part = number[:, :, None] * num_shares + share
        value = tl.load(block_values_ptr + part, mask=is_share, other=float("-inf"))
        token = tl.load(block_index_ptr + part, mask=is_share, other=LARGEST_INT32)
        largest = tl.max(value, axis=2, keep_dims=True)
        target = tl.min(tl.where(value == largest, token, LARGEST_INT32), axis=2)

    place = tl.arange(0, WIDTH)[None, :]
    last = tl.zeros([REQUESTS, 1], dtype=tl.int32)
    path = tl.where(place == 0, entry_of(index, node, last), -1)
    is_accepted = node == last
    num_drafts = tl.zeros([REQUESTS, 1], dtype=tl.int32)
    is_walking = is_request
    step = 0
    while is_any(is_walking) & (step < num_steps):
        step += 1
        child = child_with(entry_of(target, node, last), last, is_walking, node, tokens, links, num_nodes)
        is_walking = child >= 0
        num_drafts += is_walking.to(tl.int32)
        path = tl.where(is_walking & (place == step), entry_of(index, node, child), path)
        is_accepted = is_accepted | (node == child)
        last = tl.where(is_walking, child, last)

    tl.store(predict_ptr + number, tl.where(is_accepted, target, 0), mask=inside)
    tl.store(accept_index_ptr + request * (num_steps + 1) + place, path, mask=is_request & (place <= num_steps))
    tl.store(num_accepted_drafts_ptr + request, num_drafts, mask=is_request)


@triton.jit(do_not_specialize=["num_requests", "num_drafted", "max_num_drafts"])
def _verify_chain_greedy_kernel(
    draft_tokens_ptr,
    cu_num_drafts_ptr,
    target_predict_ptr,
    output_tokens_ptr,
    num_accepted_drafts_ptr,
    num_requests,
    num_drafted,
    max_num_drafts,
    REQUESTS: tl.constexpr,
    WIDTH: tl.constexpr,
):
    """Accept a block of ragged chains: all drafts are compared at once, and the first that differs ends each.

    Accepted drafts are the target's choices, so that these are the whole output.
    """
    follow_previous()
    request = tl.program_id(0).to(tl.int64) * REQUESTS + tl.arange(0, REQUESTS)
    is_request = request < num_requests
    start = tl.load(cu_num_drafts_ptr + request, mask=is_request, other=0).to(tl.int64)
    start = tl.minimum(tl.maximum(start, 0), num_drafted)
    end = tl.load(cu_num_drafts_ptr + request + 1, mask=is_request, other=0).to(tl.int64)
    length = tl.maximum(tl.minimum(tl.minimum(end, num_drafted) - start, max_num_drafts), 0)
    place = tl.arange(0, WIDTH)
    draft = start[:, None] + place[None, :]
    is_draft = is_request[:, None] & (place[None, :] < length[:, None])
    in_row = is_request[:, None] & (place[None, :] <= length[:, None])
    token = tl.load(draft_tokens_ptr + draft, mask=is_draft, other=-1)
    chosen = tl.load(target_predict_ptr + draft + request[:, None], mask=in_row, other=-1)
    num_drafts = tl.min(tl.where(is_draft & (token == chosen), WIDTH, place[None, :]), axis=1)
    output = tl.where(place[None, :] <= num_drafts[:, None], chosen, -1).to(tl.int32)
    row = (request * (max_num_drafts + 1))[:, None]
    is_output = is_request[:, None] & (place <= max_num_drafts)[None, :]
    tl.store(output_tokens_ptr + row + place[None, :], output, mask=is_output)
    tl.store(num_accepted_drafts_ptr + request, num_drafts, mask=is_request)
