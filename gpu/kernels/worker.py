"""Kernels that workers launch in the place of several operations around a verify."""

import triton
import triton.language as tl

from specsim import counts
from specsim.gpu.kernels.device.succession import follow_previous
from specsim.gpu.kernels.draft_cache import load_pages, load_slots

BONUS = tl.constexpr(counts.BONUS_TOKENS_PER_VERIFY)


@triton.jit
def _copy_rows_kernel(
    req_pool_indices_ptr,
    field_ptrs,
    entry_ptrs,
    widths,
    num_requests,
    num_rows,
    NUM_FIELDS: tl.constexpr,
    GATHERS: tl.constexpr,
    REQUESTS: tl.constexpr,
    WORDS: tl.constexpr,
):
    """Copy words of one field of a block of requests between their rows and their places."""
    follow_previous()
    request = tl.program_id(0).to(tl.int64) * REQUESTS + tl.arange(0, REQUESTS)
    word = tl.program_id(1) * WORDS + tl.arange(0, WORDS)
    is_request = request < num_requests
    row = tl.load(req_pool_indices_ptr + request, mask=is_request, other=0)
    row = tl.where((row >= 0) & (row < num_rows), row, 0)
    # Requests that pad a batch read row 0 and leave it as it is.
    is_kept = is_request if GATHERS else is_request & (row > 0)
    for field in tl.static_range(NUM_FIELDS):
        if field == tl.program_id(2):
            mask = is_kept[:, None] & (word < widths[field])[None, :]
            row_ptr = field_ptrs[field] + row[:, None] * widths[field] + word[None, :]
            place_ptr = entry_ptrs[field] + request[:, None] * widths[field] + word[None, :]
            if GATHERS:
                tl.store(place_ptr, tl.load(row_ptr, mask=mask), mask=mask)
            else:
                tl.store(row_ptr, tl.load(place_ptr, mask=mask), mask=mask)


@triton.jit
def _finish_paths_kernel(
    predict_ptr,
    accept_index_ptr,
    num_accepted_drafts_ptr,
    out_cache_loc_ptr,
    num_accepted_tokens_ptr,
    bonus_tokens_ptr,
    source_slots_ptr,
    target_slots_ptr,
    num_requests,
    num_nodes,
    width,
    EVERYONE: tl.constexpr,
    REQUESTS: tl.constexpr,
    PLACES: tl.constexpr,
):
    """Finish the paths of a block of requests, after a count of what the requests before it accept."""
    follow_previous()
    offset = tl.arange(0, REQUESTS)
    place = tl.arange(0, PLACES)
    first = tl.program_id(0) * REQUESTS
    other = tl.arange(0, EVERYONE)
    counts = tl.load(num_accepted_drafts_ptr + other, mask=other < first, other=-BONUS) + BONUS
    before = tl.sum(counts, 0)
    request = first + offset
    is_request = request < num_requests
    count = tl.load(num_accepted_drafts_ptr + request, mask=is_request, other=0) + BONUS
    count = tl.where(is_request, tl.minimum(count, width), 0)
    tl.store(num_accepted_tokens_ptr + request, count, mask=is_request)

    entry = request[:, None] * width + place[None, :]
    is_entry = is_request[:, None] & (place < width)[None, :]
    is_kept = is_entry & (place[None, :] < count[:, None])
    node = tl.load(accept_index_ptr + entry, mask=is_kept, other=-1)
    is_node = is_kept & (node >= 0) & (node < num_requests * num_nodes)
    is_last = is_node & (place[None, :] == count[:, None] - 1)
    bonus = tl.sum(tl.load(predict_ptr + node, mask=is_last, other=0), 1)
    tl.store(bonus_tokens_ptr + request, bonus, mask=is_request)

    # Kept entries stand at the front in order and the others at the end, so that every place is taken once.
    rank = (before + tl.cumsum(count, 0) - count)[:, None] + tl.minimum(place[None, :], count[:, None])
    to = tl.where(is_kept, rank, num_requests * width - 1 - (entry - rank))
    source = tl.load(out_cache_loc_ptr + node, mask=is_node, other=0)
    tl.store(source_slots_ptr + to, source, mask=is_entry)
    own = request[:, None] * num_nodes + place[None, :]
    target = tl.load(out_cache_loc_ptr + own, mask=is_kept & (place < num_nodes)[None, :], other=0)
    tl.store(target_slots_ptr + to, target, mask=is_entry)


@triton.jit
def _compact_paths_kernel(
    predict_ptr,
    hidden_states_ptr,
    accept_index_ptr,
    num_accepted_tokens_ptr,
    seq_lens_ptr,
    input_ids_ptr,
    tokens_ptr,
    compacted_ptr,
    positions_ptr,
    forward_seq_lens_ptr,
    select_index_ptr,
    committed_lens_ptr,
    num_rows,
    num_nodes,
    width,
    num_words,
    IS_CHAIN: tl.constexpr,
    ROWS: tl.constexpr,
    WORDS: tl.constexpr,
):
    """Bring a tile of rows and words to the front; the first programs of rows also write what has no words."""
    follow_previous()
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    is_row = row < num_rows
    request = row // num_nodes
    place = row % num_nodes
    source = row.to(tl.int64)
    if not IS_CHAIN:
        is_path = is_row & (place < width)
        node = tl.load(accept_index_ptr + request * width + place, mask=is_path, other=0)
        source = tl.where(is_path, tl.maximum(node, 0), row).to(tl.int64)
    is_source = is_row & (source < num_rows)
    if tl.program_id(1) == 0:
        token = tl.load(predict_ptr + source, mask=is_source, other=0)
        tl.store(tokens_ptr + row, token, mask=is_row)
        tl.store(input_ids_ptr + row, token.to(tl.int64), mask=is_row)
        length = tl.load(seq_lens_ptr + request, mask=is_row, other=0).to(tl.int64)
        tl.store(positions_ptr + row, length + place, mask=is_row)
        is_root = is_row & (place == 0)
        count = tl.load(num_accepted_tokens_ptr + request, mask=is_root, other=1).to(tl.int64)
        tl.store(forward_seq_lens_ptr + request, length + num_nodes, mask=is_root)
        tl.store(select_index_ptr + request, row + count - 1, mask=is_root)
        tl.store(committed_lens_ptr + request, length + count, mask=is_root)
    if hidden_states_ptr is not None:
        word = tl.program_id(1) * WORDS + tl.arange(0, WORDS)
        is_word = (word < num_words)[None, :]
        words = tl.load(
            hidden_states_ptr + source[:, None] * num_words + word[None, :], mask=is_source[:, None] & is_word
        )
        to = row.to(tl.int64)[:, None] * num_words + word[None, :]
        tl.store(compacted_ptr + to, words, mask=is_row[:, None] & is_word)


@triton.jit(do_not_specialize=["num_nodes"])
def _lay_out_nodes_kernel(
    req_pool_indices_ptr,
    req_to_token_ptr,
    seq_lens_ptr,
    out_cache_loc_ptr,
    cache_seqlens_ptr,
    cu_seqlens_q_ptr,
    page_table_ptr,
    num_nodes,
    num_pages,
    rows,
    NODES: tl.constexpr,
    PAGE_SIZE: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Write a block of one request's pages; the first program also writes the slots of its nodes, and its lengths."""
    follow_previous()
    request = tl.program_id(0).to(tl.int64)
    row = tl.load(req_pool_indices_ptr + request)
    column = tl.program_id(1).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    page = load_pages(req_to_token_ptr, row, column * PAGE_SIZE, column < num_pages, rows, PAGE_SIZE)
    tl.store(page_table_ptr + request * num_pages + column, page, mask=column < num_pages)
    if tl.program_id(1) == 0:
        length = tl.load(seq_lens_ptr + request).to(tl.int64)
        node = tl.arange(0, NODES)
        slot = load_slots(req_to_token_ptr, row, length + node, node < num_nodes, rows)
        tl.store(out_cache_loc_ptr + request * num_nodes + node, slot.to(tl.int64), mask=node < num_nodes)
        tl.store(cache_seqlens_ptr + request, (length + num_nodes).to(tl.int32))
        tl.store(cu_seqlens_q_ptr + request + 1, ((request + 1) * num_nodes).to(tl.int32))
        if request == 0:
            tl.store(cu_seqlens_q_ptr, 0)
