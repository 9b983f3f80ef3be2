"""Chains from raw logits whose target is filtered: each launch takes the walk of every request one draft further."""

import triton
import triton.language as tl

from specsim.contracts import logit_rows
from specsim.gpu.kernels.device.succession import follow_previous
from specsim.gpu.kernels.from_logits.chain_judges import accepts, join_blocks, write_drafts, write_record
from specsim.gpu.kernels.from_logits.chain_rows import walk_of
from specsim.gpu.kernels.from_logits.row_filters import filter_row

EVERY_TOKEN = tl.constexpr(logit_rows.EVERY_TOKEN)


@triton.jit
def fill_neutral(neutral_ptrs, request, is_request):
    """Write filters that keep everything, for those that a call leaves out."""
    tl.store(neutral_ptrs[0] + request, EVERY_TOKEN, mask=is_request)
    tl.store(neutral_ptrs[1] + request, 1.0, mask=is_request)
    tl.store(neutral_ptrs[2] + request, 0.0, mask=is_request)


@triton.jit(do_not_specialize=["num_requests"])
def _fill_neutral_kernel(neutral_ptrs, num_requests, REQUESTS: tl.constexpr):
    """Write filters that keep everything for the requests of a tree's walk."""
    follow_previous()
    request = tl.program_id(0).to(tl.int64) * REQUESTS + tl.arange(0, REQUESTS)
    fill_neutral(neutral_ptrs, request, request < num_requests)


@triton.jit(do_not_specialize=["num_requests", "num_drafted"])
def _start_chains_kernel(
    request_ptrs,
    walk_ptrs,
    progress_ptr,
    neutral_ptrs,
    num_requests,
    num_drafted,
    REQUESTS: tl.constexpr,
):
    """Begin at each request's first row, and write filters that keep everything for those that a call leaves out."""
    follow_previous()
    request = tl.program_id(0).to(tl.int64) * REQUESTS + tl.arange(0, REQUESTS)
    is_request = request < num_requests
    start = tl.load(request_ptrs[0] + request, mask=is_request, other=0).to(tl.int64)
    start = tl.minimum(tl.maximum(start, 0), num_drafted)
    tl.store(walk_ptrs[0] + request, (start + request).to(tl.int32), mask=is_request)
    tl.store(progress_ptr + request[:, None] * 4 + tl.arange(0, 4)[None, :], 0, mask=is_request[:, None])
    fill_neutral(neutral_ptrs, request, is_request)


@triton.jit(do_not_specialize=["num_drafted", "max_num_drafts", "level"])
def _walk_filtered_chains_kernel(
    draft_ptrs,
    request_ptrs,
    target_logits_ptr,
    draft_logits_ptr,
    filter_ptrs,
    statistic_ptrs,
    walk_ptrs,
    record_ptrs,
    output_ptrs,
    num_drafted,
    max_num_drafts,
    level,
    num_chunks,
    row_sizes,
    HAS_DRAFT: tl.constexpr,
    PRECISE: tl.constexpr,
    WIDTHS: tl.constexpr,
    SEARCH: tl.constexpr,
    SHIFT: tl.constexpr,
):
    """Filter the row that a request's walk has reached, and judge its draft; one program a request."""
    follow_previous()
    num_blocks, vocab, target_row_stride, target_column_stride, draft_vocab, draft_row_stride, draft_column_stride = (
        row_sizes
    )
    current_ptr = walk_ptrs[0]
    WIDTH: tl.constexpr = WIDTHS[0]
    BLOCKS: tl.constexpr = WIDTHS[1]
    CHUNKS: tl.constexpr = WIDTHS[2]
    request = tl.program_id(0).to(tl.int64)
    current = tl.load(current_ptr + request)
    if current >= 0:
        walk = walk_of(request, request_ptrs, num_drafted, max_num_drafts)
        _, start, length, temperature, draft_temperature = walk
        top_k = tl.load(filter_ptrs[0] + request)
        top_p = tl.load(filter_ptrs[1] + request).to(tl.float64)
        min_p = tl.load(filter_ptrs[2] + request).to(tl.float64)
        token = tl.load(draft_ptrs[0] + start + level, mask=level < length, other=-1)
        is_token = (token >= 0) & (token < vocab)
        coin = tl.load(draft_ptrs[1] + start + level, mask=level < length, other=0.0)
        row_ptr = target_logits_ptr + current.to(tl.int64) * target_row_stride
        logit_ptr = row_ptr + token * target_column_stride
        logit = tl.load(logit_ptr, mask=is_token, other=float("-inf")).to(tl.float32)
        is_greedy = temperature == 0
        warmth = tl.where(is_greedy, 1.0, temperature)
        filters = (tl.where(is_greedy, 1, top_k), top_p, min_p)
        sizes = (num_chunks, vocab, target_column_stride)
        row, _, _, _, kept = filter_row(
            row_ptr, request, warmth, filters, is_greedy, walk_ptrs, sizes, (0, 0, 0, 0), CHUNKS, SEARCH, SHIFT, PRECISE
        )
        least, choice, mass, _, _, _ = kept
        largest = row[3]

        draft_logit = tl.zeros([], dtype=tl.float32)
        draft_largest = tl.zeros([], dtype=tl.float32)
        draft_total = tl.zeros([], dtype=tl.float64) + 1.0
        is_drawn = (is_greedy == 0) & (draft_temperature > 0) & is_token & HAS_DRAFT
        if HAS_DRAFT:
            draft_row = start + level + tl.arange(0, 1)
            if is_drawn:
                draft_ptr = draft_logits_ptr + (start + level) * draft_row_stride + token * draft_column_stride
                draft_logit = tl.load(draft_ptr, mask=token < draft_vocab, other=float("-inf")).to(tl.float32)
                known_ptrs = (statistic_ptrs[3], statistic_ptrs[4], statistic_ptrs[2])
                joined = join_blocks(
                    known_ptrs, draft_row, draft_row >= 0, num_blocks, draft_temperature, False, PRECISE, BLOCKS
                )
                draft_largest = tl.sum(joined[0], axis=0)
                draft_total = tl.sum(joined[1], axis=0)
        draft_law = (draft_largest, draft_total)
        is_accepted = accepts(logit, largest, mass, warmth, draft_logit, draft_law, draft_temperature, is_drawn, coin)
        is_accepted = is_token & tl.where(is_greedy, token == choice, is_accepted & (logit >= least))
        if is_accepted:
            tl.store(current_ptr + request, current + 1)
        else:
            rejected = tl.where(is_token, token, -1).to(tl.int32)
            chosen = tl.where(is_greedy, choice, -1)
            laws = (largest.to(tl.float64), mass, draft_largest.to(tl.float64), draft_total)
            write_record(record_ptrs, request, level, rejected, chosen, laws)
            tl.store(record_ptrs[2] + request, least)
            tl.store(current_ptr + request, -1)
            write_drafts(output_ptrs, draft_ptrs[0], walk, level, max_num_drafts, WIDTH)
