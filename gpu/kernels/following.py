"""Kernels of ``specsim.gpu.following``."""

import triton
import triton.language as tl

from specsim.gpu.kernels.device.succession import follow_previous


@triton.jit(do_not_specialize=["num_nodes", "vocab", "num_recent", "num_bad_words"])
def _forbid_tokens_kernel(
    draft_token_ptr,
    tree_mask_ptr,
    num_output_tokens_ptr,
    min_tokens_ptr,
    stop_mask_ptr,
    recent_tokens_ptr,
    bad_words_ptr,
    vocab_mask_ptr,
    num_nodes,
    vocab,
    num_recent,
    num_bad_words,
    NODES: tl.constexpr,
    COLUMNS: tl.constexpr,
    BAD_WORDS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Write the mask of one node: everything but stops that come too early, then without the ends of bad words."""
    follow_previous()
    row = tl.program_id(0).to(tl.int64)
    request = row // num_nodes
    node = tl.arange(0, NODES)
    sees = tl.load(tree_mask_ptr + row * num_nodes + node, mask=(node > 0) & (node < num_nodes), other=0) != 0
    depth = tl.sum(sees.to(tl.int32), 0)
    is_short = tl.load(num_output_tokens_ptr + request) + depth < tl.load(min_tokens_ptr + request)
    num_words = tl.cdiv(vocab, 32)
    first = row * num_words
    for start in range(0, num_words, BLOCK):
        word = start + tl.arange(0, BLOCK)
        stops = tl.load(stop_mask_ptr + request * num_words + word, mask=(word < num_words) & is_short, other=0)
        num_bits = tl.minimum(vocab - word * 32, 32)
        is_token = tl.where(num_bits == 32, -1, (tl.zeros_like(word) + 1 << num_bits % 32) - 1)
        tl.store(vocab_mask_ptr + first + word, ~(stops & is_token), mask=word < num_words)
    tl.debug_barrier()

    # Column c of a bad word stands for the token that lies num_recent - c before the one in question.
    column = tl.arange(0, COLUMNS)
    after = num_recent - column
    draft = tl.load(draft_token_ptr + request * num_nodes + node, mask=sees, other=0)
    place = depth - tl.cumsum(sees.to(tl.int32), 0) + 1
    is_there = sees[None, :] & (place[None, :] == after[:, None])
    of_path = tl.sum(tl.where(is_there, draft[None, :], 0), 1)
    kept = column + depth
    recent = tl.load(recent_tokens_ptr + request * num_recent + kept, mask=kept < num_recent, other=-1)
    text = tl.where(after <= depth, of_path, recent)

    number = tl.arange(0, BAD_WORDS)
    entry = (request * num_bad_words + number)[:, None] * (num_recent + 1) + column[None, :]
    is_entry = (number < num_bad_words)[:, None] & (column <= num_recent)[None, :]
    token = tl.load(bad_words_ptr + entry, mask=is_entry, other=-1)
    agrees = (column >= num_recent)[None, :] | (token < 0) | (token == text[None, :])
    is_complete = tl.min(agrees.to(tl.int32), 1) != 0
    last = tl.max(tl.where((column == num_recent)[None, :], token, -1), 1)
    bit = (tl.zeros_like(last) + 1).to(tl.int32) << (last % 32).to(tl.int32)
    tl.atomic_and(vocab_mask_ptr + first + last // 32, ~bit, mask=is_complete & (last >= 0) & (last < vocab))


@triton.jit(do_not_specialize=["width", "num_recent", "num_rows", "num_nodes", "vocab"])
def _commit_output_tokens_kernel(
    req_pool_indices_ptr,
    token_counts_ptr,
    num_output_tokens_ptr,
    recent_tokens_ptr,
    accept_index_ptr,
    predict_ptr,
    counts_all_ptr,
    width,
    num_recent,
    num_rows,
    num_nodes,
    vocab,
    count_row_stride,
    count_token_stride,
    length_stride,
    recent_row_stride,
    recent_stride,
    PLACES: tl.constexpr,
    RECENT: tl.constexpr,
):
    """Count the tokens of one path, and let the last tokens of the output move on. Row 0 is left as it is."""
    follow_previous()
    request = tl.program_id(0).to(tl.int64)
    row = tl.load(req_pool_indices_ptr + request)
    place = tl.arange(0, PLACES)
    is_known = (row > 0) & (row < num_rows)
    row = tl.where(is_known, row, 0)
    node = tl.load(accept_index_ptr + request * width + place, mask=(place < width) & is_known, other=-1)
    is_token = (node >= 0) & (node < num_nodes)
    token = tl.load(predict_ptr + node, mask=is_token, other=0)
    count = tl.sum(is_token.to(tl.int32), 0)
    counts_all = tl.load(counts_all_ptr + request) != 0
    is_counted = is_token & (counts_all | (place == count - 1))
    counter_ptr = token_counts_ptr + row * count_row_stride + token.to(tl.int64) * count_token_stride
    tl.atomic_add(counter_ptr, tl.zeros_like(token) + 1, mask=is_counted & (token >= 0) & (token < vocab))
    tl.atomic_add(num_output_tokens_ptr + row * length_stride, count, mask=count > 0)

    # NOTE: every entry is read before one is written: the entries that move overlap.
    column = tl.arange(0, RECENT)
    kept = column + count
    recent_ptr = recent_tokens_ptr + row * recent_row_stride
    recent = tl.load(recent_ptr + kept.to(tl.int64) * recent_stride, mask=kept < num_recent, other=-1)
    is_there = is_token[None, :] & (place[None, :] == (kept - num_recent)[:, None])
    of_path = tl.sum(tl.where(is_there, token[None, :], 0), 1)
    text = tl.where(kept < num_recent, recent, of_path.to(tl.int64))
    tl.debug_barrier()
    tl.store(recent_ptr + column.to(tl.int64) * recent_stride, text, mask=(column < num_recent) & (count > 0))
