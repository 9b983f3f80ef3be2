"""Kernels of ``specsim.gpu.logprobs``; weights are float32, their sums and the logarithms float64."""

import triton
import triton.language as tl

from specsim.gpu.kernels.device.filters import value_of
from specsim.gpu.kernels.device.succession import follow_previous
from specsim.gpu.kernels.draft import LARGEST_INDEX, NO_KEY, pack_keys, unpack_index

LEAST_FINITE = tl.constexpr(-3.4028234663852886e38)


@triton.jit
def _entries_of(accept_index_ptr, temperature_ptr, num_entries, num_rows, width, row_stride, ENTRIES: tl.constexpr):
    """Return a program's entries, whether they exist, their nodes or -1, where their rows start, and temperatures."""
    entry = tl.program_id(0).to(tl.int64) * ENTRIES + tl.arange(0, ENTRIES)[:, None]
    is_entry = entry < num_entries
    node = tl.load(accept_index_ptr + entry, mask=is_entry, other=-1).to(tl.int64)
    node = tl.where(node < num_rows, node, -1)
    if temperature_ptr is None:
        temperature = tl.full([ENTRIES, 1], 1.0, dtype=tl.float32)
    else:
        temperature = tl.load(temperature_ptr + entry // width, mask=is_entry, other=1.0)
        temperature = tl.where(temperature == 0, 1.0, temperature)
    return entry, is_entry, node, tl.maximum(node, 0) * row_stride, temperature


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
def _score_chunks_kernel(
    logits_ptr,
    accept_index_ptr,
    temperature_ptr,
    chunk_ptrs,
    num_entries,
    num_rows,
    vocab,
    width,
    num_top,
    strides,
    ENTRIES: tl.constexpr,
    UNITS: tl.constexpr,
    UNIT: tl.constexpr,
):
    """Write a chunk's largest logit, its weight relative to that, and the keys of its most probable tokens in order.

    A unit of neighbours stands with the key of its largest logit; only the unit that a token is taken from is read
    again, from the cache. An entry without a node reads nothing, and nothing is written of it.
    """
    follow_previous()
    chunk_max_ptr, chunk_mass_ptr, top_keys_ptr = chunk_ptrs
    row_stride, column_stride = strides
    entry, _, node, offset, temperature = _entries_of(
        accept_index_ptr, temperature_ptr, num_entries, num_rows, width, row_stride, ENTRIES
    )
    if tl.max(node) < 0:
        return
    row_ptr = logits_ptr + offset
    is_read = node >= 0
    unit = tl.program_id(1) * (UNITS * UNIT) + tl.arange(0, UNITS)[None, :] * UNIT
    token = unit[:, :, None] + tl.arange(0, UNIT)[None, None, :]
    logit = _load_logits(row_ptr[:, :, None], token, is_read[:, :, None] & (token < vocab), column_stride)
    unit_max = tl.max(logit, 2)
    largest = tl.max(unit_max, 1, keep_dims=True)
    base = tl.where(largest > float("-inf"), largest, 0.0)
    weight = tl.exp((logit - base[:, :, None]) / temperature[:, :, None])
    part = entry * tl.num_programs(1) + tl.program_id(1)
    tl.store(chunk_max_ptr + part, largest, mask=is_read)
    tl.store(chunk_mass_ptr + part, tl.sum(tl.sum(weight, 2).to(tl.float64), 1, keep_dims=True), mask=is_read)

    unit_key = tl.where(unit < vocab, pack_keys(unit_max, unit), NO_KEY)
    last = tl.full([ENTRIES, 1], 2**63 - 1, dtype=tl.int64)
    for rank in range(num_top):
        best = tl.max(unit_key, 1, keep_dims=True)
        first = unpack_index(best)
        neighbour = first + tl.arange(0, UNIT)[None, :]
        is_token = neighbour < vocab
        key = pack_keys(_load_logits(row_ptr, neighbour, is_read & is_token, column_stride), neighbour)
        # What was taken before has keys from the last one on.
        key = tl.where(is_token & (key < last), key, NO_KEY)
        last = tl.max(key, 1, keep_dims=True)
        left = tl.max(tl.where(key < last, key, NO_KEY), 1, keep_dims=True)
        left = tl.where(left > NO_KEY, (left >> 32 << 32) | (LARGEST_INDEX - first), NO_KEY)
        unit_key = tl.where(unit_key == best, left, unit_key)
        tl.store(top_keys_ptr + part * num_top + rank, last, mask=is_read)


@triton.jit(do_not_specialize=["num_entries", "num_rows", "num_top"])
def _gather_output_logprobs_kernel(
    logits_ptr,
    accept_index_ptr,
    predict_ptr,
    temperature_ptr,
    token_ids_ptr,
    report_ptrs,
    chunk_ptrs,
    num_entries,
    num_rows,
    vocab,
    width,
    num_top,
    num_listed,
    num_chunks,
    strides,
    IS_CLAMPED: tl.constexpr,
    LISTED: tl.constexpr,
    ENTRIES: tl.constexpr,
    CHUNKS: tl.constexpr,
):
    """Score entries by what their chunks hold; one without a node is 0 and reads nothing."""
    follow_previous()
    output_logprobs_ptr, top_logprobs_ptr, top_tokens_ptr, listed_logprobs_ptr = report_ptrs
    chunk_max_ptr, chunk_mass_ptr, top_keys_ptr = chunk_ptrs
    row_stride, column_stride = strides
    entry, is_entry, node, offset, temperature = _entries_of(
        accept_index_ptr, temperature_ptr, num_entries, num_rows, width, row_stride, ENTRIES
    )
    row_ptr = logits_ptr + offset
    is_read = node >= 0
    temperature = temperature.to(tl.float64)
    chunk = tl.arange(0, CHUNKS)[None, :]
    part = entry * num_chunks + chunk
    is_part = is_read & (chunk < num_chunks)
    peak = tl.load(chunk_max_ptr + part, mask=is_part, other=float("-inf"))
    mass = tl.load(chunk_mass_ptr + part, mask=is_part, other=0.0)
    largest = tl.max(peak, 1, keep_dims=True)
    base = tl.where(largest > float("-inf"), largest, 0.0).to(tl.float64)
    # NOTE: fused with the sum, a product is rounded another way in each thread that holds the row, and those differ.
    mass = tl.where(is_part, mass * tl.exp((peak.to(tl.float64) - base) / temperature), 0.0)
    total = tl.sum(mass, 1, keep_dims=True)
    log_mass = tl.log(tl.where(total > 0, total, 1.0))

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

    # The best of all chunks is the best of their first, each without what was taken from it.
    num_taken = tl.zeros([ENTRIES, CHUNKS], dtype=tl.int32)
    key = tl.load(top_keys_ptr + part * num_top, mask=is_part & (num_top > 0), other=NO_KEY)
    for rank in range(num_top):
        best = tl.max(key, 1, keep_dims=True)
        is_there = best > NO_KEY
        top_logprob = _logprob_of(value_of((best >> 32).to(tl.int32)), base, temperature, log_mass, IS_CLAMPED)
        out = entry * num_top + rank
        tl.store(top_logprobs_ptr + out, tl.where(is_there, top_logprob, 0.0), mask=is_entry)
        tl.store(top_tokens_ptr + out, tl.where(is_there, unpack_index(best), 0), mask=is_entry)
        is_taken = is_there & (key == best)
        num_taken += is_taken.to(tl.int32)
        is_left = is_taken & (num_taken < num_top)
        following = tl.load(top_keys_ptr + part * num_top + num_taken, mask=is_left, other=NO_KEY)
        key = tl.where(is_taken, following, key)
