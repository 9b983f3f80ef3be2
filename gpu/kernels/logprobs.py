"""Kernel of ``specsim.gpu.logprobs``; weights are float32, their sums and the logarithms float64."""

import triton
import triton.language as tl

LEAST_FINITE = tl.constexpr(-3.4028234663852886e38)


@triton.jit
def _load_logits(row_ptr, token, mask, column_stride):
    return tl.load(row_ptr + token.to(tl.int64) * column_stride, mask=mask, other=float("-inf")).to(tl.float32)


@triton.jit
def _logprob_of(logit, base, temperature, log_mass, IS_CLAMPED: tl.constexpr):
    logprob = (logit.to(tl.float64) - base) / temperature - log_mass
    if IS_CLAMPED:
        logprob = tl.maximum(logprob, LEAST_FINITE)
    return logprob.to(tl.float32)


@triton.jit(do_not_specialize=["num_entries", "num_rows", "num_top"])
def _gather_output_logprobs_kernel(
    logits_ptr,
    accept_index_ptr,
    predict_ptr,
    temperature_ptr,
    token_ids_ptr,
    output_logprobs_ptr,
    top_logprobs_ptr,
    top_tokens_ptr,
    listed_logprobs_ptr,
    num_entries,
    num_rows,
    vocab,
    width,
    num_top,
    num_listed,
    strides,
    IS_CLAMPED: tl.constexpr,
    LISTED: tl.constexpr,
    ENTRIES: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Score entries; one without a node is 0 and reads nothing."""
    row_stride, column_stride = strides
    entry = tl.program_id(0).to(tl.int64) * ENTRIES + tl.arange(0, ENTRIES)[:, None]
    is_entry = entry < num_entries
    node = tl.load(accept_index_ptr + entry, mask=is_entry, other=-1).to(tl.int64)
    is_read = is_entry & (node >= 0) & (node < num_rows)
    node = tl.where(is_read, node, 0)
    row_ptr = logits_ptr + node * row_stride
    if temperature_ptr is None:
        temperature = tl.full([ENTRIES, 1], 1.0, dtype=tl.float32)
    else:
        temperature = tl.load(temperature_ptr + entry // width, mask=is_entry, other=1.0)
        temperature = tl.where(temperature == 0, 1.0, temperature)
    best = tl.full([ENTRIES, BLOCK], float("-inf"), dtype=tl.float32)
    for start in range(0, vocab, BLOCK):
        column = start + tl.arange(0, BLOCK)[None, :]
        best = tl.maximum(best, _load_logits(row_ptr, column, is_read & (column < vocab), column_stride))
    largest = tl.max(best, 1, keep_dims=True)
    base = tl.where(largest > float("-inf"), largest, 0.0)
    mass = tl.zeros([ENTRIES, BLOCK], dtype=tl.float64)
    for start in range(0, vocab, BLOCK):
        column = start + tl.arange(0, BLOCK)[None, :]
        value = _load_logits(row_ptr, column, is_read & (column < vocab), column_stride)
        mass += tl.exp((value - base) / temperature).to(tl.float64)
    total = tl.sum(mass, 1, keep_dims=True)
    log_mass = tl.log(tl.where(total > 0, total, 1.0))
    base, temperature = base.to(tl.float64), temperature.to(tl.float64)

    token = tl.load(predict_ptr + node, mask=is_read, other=-1)
    logit = _load_logits(row_ptr, token, is_read & (token >= 0) & (token < vocab), column_stride)
    logprob = _logprob_of(logit, base, temperature, log_mass, IS_CLAMPED)
    tl.store(output_logprobs_ptr + entry, tl.where(is_read, logprob, 0.0), mask=is_entry)

    if LISTED > 0:
        place = tl.arange(0, LISTED)[None, :]
        is_place = is_entry & (place < num_listed)
        token = tl.load(token_ids_ptr + entry // width * num_listed + place, mask=is_place, other=-1)
        is_token = is_read & (token >= 0) & (token < vocab)
        logit = _load_logits(row_ptr, token, is_token, column_stride)
        logprob = _logprob_of(logit, base, temperature, log_mass, IS_CLAMPED)
        logprob = tl.where(is_token, logprob, 0.0)
        tl.store(listed_logprobs_ptr + entry * num_listed + place, logprob, mask=is_place)

    last, last_token = tl.full([ENTRIES, 1], float("inf"), dtype=tl.float32), tl.full([ENTRIES, 1], -1, dtype=tl.int32)
    for rank in range(num_top):
        best = tl.full([ENTRIES, BLOCK], float("-inf"), dtype=tl.float32)
        best_token = tl.full([ENTRIES, BLOCK], 2147483647, dtype=tl.int32)
        for start in range(0, vocab, BLOCK):
            column = start + tl.arange(0, BLOCK)[None, :]
            is_column = is_read & (column < vocab)
            value = _load_logits(row_ptr, column, is_column, column_stride)
            is_next = is_column & ((value < last) | ((value == last) & (column > last_token)))
            # NOTE: tokens of a lane ascend, so a later one has to be better; any is better than none.
            is_better = is_next & ((value > best) | (best_token == 2147483647))
            best = tl.where(is_better, value, best)
            best_token = tl.where(is_better, column, best_token)
        last = tl.max(best, 1, keep_dims=True)
        last_token = tl.min(tl.where(best == last, best_token, 2147483647), 1, keep_dims=True)
        is_there = is_read & (last_token < vocab)
        top_logprob = _logprob_of(last, base, temperature, log_mass, IS_CLAMPED)
        out = entry * num_top + rank
        tl.store(top_logprobs_ptr + out, tl.where(is_there, top_logprob, 0.0), mask=is_entry)
        tl.store(top_tokens_ptr + out, tl.where(is_there, last_token, 0).to(tl.int64), mask=is_entry)
