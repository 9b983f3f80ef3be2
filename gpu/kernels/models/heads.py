"""Kernels of the toy models' heads: integers on unsigned words, and dyadic fractions that float32 holds exactly."""

import triton
import triton.language as tl

from specsim.gpu.kernels.device.hashing import (
    BEST_PROBABILITY,
    COIN_SALT,
    DRAFT_GOLDEN,
    GOLDEN,
    PROBABILITY_STEP,
    digest_row,
    mix,
)
from specsim.gpu.kernels.device.succession import follow_previous


@triton.jit
def _hash_logits(state, token):
    """Return logits of 22 hashed bits and the token id: positive, and no two tokens alike."""
    word = mix(state[:, None] + ((token + 1).to(tl.uint32) * GOLDEN)[None, :])
    return ((word & 0x3FFFFF) << 10) | token.to(tl.uint32)[None, :]


@triton.jit
def _bucket(context_word, order, num_buckets):
    """Return the bucket of the last ``order`` tokens."""
    tokens = (context_word & ((tl.full([], 1, tl.int64) << (8 * order)) - 1)).to(tl.uint32)
    return mix(tokens + tl.full([], GOLDEN, tl.uint32) * order).to(tl.int64) % num_buckets


@triton.jit(do_not_specialize=["seed"])
def _hash_target_logits_kernel(
    hidden_states_ptr,
    logits_ptr,
    seed,
    num_tokens,
    num_words,
    vocab_size,
    ROWS: tl.constexpr,
    TOKENS: tl.constexpr,
):
    follow_previous()
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS).to(tl.int64)
    token = tl.program_id(1) * TOKENS + tl.arange(0, TOKENS)
    is_row = row < num_tokens
    state = digest_row(hidden_states_ptr, row, is_row, num_words, num_words - 1, ROWS) + seed.to(tl.uint32)
    mask = is_row[:, None] & (token < vocab_size)[None, :]
    logits = _hash_logits(state, token).to(tl.int64)
    tl.store(logits_ptr + row[:, None] * vocab_size + token[None, :], logits, mask=mask)


@triton.jit(do_not_specialize=["seed", "deepest"])
def _hash_sampling_logits_kernel(
    hidden_states_ptr,
    logits_ptr,
    seed,
    deepest,
    num_tokens,
    num_words,
    vocab_size,
    ROWS: tl.constexpr,
    VOCAB: tl.constexpr,
):
    """Take the best token of each row out, round by round; whatever is left lies at the deepest place."""
    follow_previous()
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS).to(tl.int64)
    token = tl.arange(0, VOCAB)
    is_row = row < num_tokens
    is_token = (token < vocab_size)[None, :]
    state = digest_row(hidden_states_ptr, row, is_row, num_words, num_words - 1, ROWS) + seed.to(tl.uint32)
    key = tl.where(is_token, _hash_logits(state, token).to(tl.int64), -1)
    logit = tl.zeros([ROWS, VOCAB], dtype=tl.int32) - deepest
    for place in range(1, deepest):
        is_best = key == tl.max(key, 1)[:, None]
        logit = tl.where(is_best, -place, logit)
        key = tl.where(is_best, -1, key)
    mask = is_row[:, None] & is_token
    tl.store(logits_ptr + row[:, None] * vocab_size + token[None, :], logit.to(tl.float32), mask=mask)


@triton.jit
def _text_target_logits_kernel(
    hidden_states_ptr,
    ngram_counts_ptr,
    logits_ptr,
    num_tokens,
    num_words,
    num_buckets,
    vocab_size,
    NUM_ORDERS: tl.constexpr,
    ROWS: tl.constexpr,
    TOKENS: tl.constexpr,
):
    follow_previous()
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS).to(tl.int64)
    token = tl.program_id(1) * TOKENS + tl.arange(0, TOKENS)
    is_row = row < num_tokens
    mask = is_row[:, None] & (token < vocab_size)[None, :]
    state = digest_row(hidden_states_ptr, row, is_row, num_words, num_words - 1, ROWS)
    context_word = tl.load(hidden_states_ptr + row * num_words + num_words - 1, mask=is_row, other=0)
    logits = tl.zeros([ROWS, TOKENS], dtype=tl.int64)
    for order in tl.static_range(NUM_ORDERS):
        bucket = order * num_buckets + _bucket(context_word, order, num_buckets)
        counts = tl.load(ngram_counts_ptr + bucket[:, None] * vocab_size + token[None, :], mask=mask, other=0)
        logits += counts.to(tl.int64) << (8 * order)
    low_bits = mix(state[:, None] + (token.to(tl.uint32) * GOLDEN)[None, :]) & 0xFF
    logits = (logits << 8) | low_bits.to(tl.int64)
    tl.store(logits_ptr + row[:, None] * vocab_size + token[None, :], logits, mask=mask)


@triton.jit(do_not_specialize=["seed", "agreement"])
def _hash_draft_probabilities_kernel(
    hidden_states_ptr,
    context_ptr,
    probabilities_ptr,
    seed,
    agreement,
    num_tokens,
    num_words,
    vocab_size,
    ROWS: tl.constexpr,
    VOCAB: tl.constexpr,
):
    follow_previous()
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS).to(tl.int64)
    token = tl.arange(0, VOCAB)
    is_row = row < num_tokens
    is_token = (token < vocab_size)[None, :]
    mask = is_row[:, None] & is_token
    state = digest_row(hidden_states_ptr, row, is_row, num_words, num_words - 1, ROWS) + seed.to(tl.uint32)
    logits = tl.where(is_token, _hash_logits(state, token).to(tl.int64), -1)
    best = (tl.max(logits, 1) & 0x3FF).to(tl.int32)
    state += tl.load(context_ptr + row, mask=is_row, other=0).to(tl.uint32)
    word = mix(state[:, None] + ((token + 1).to(tl.uint32) * DRAFT_GOLDEN)[None, :])
    numerator = (((word & 0xFFF) << 10) | token.to(tl.uint32)[None, :]).to(tl.int32)
    agrees = mix(state + COIN_SALT).to(tl.int64) < agreement
    preferred = tl.where(agrees[:, None], BEST_PROBABILITY | token[None, :], numerator)
    preferred = tl.where(agreement < 0, 0, preferred)
    numerator = tl.where(token[None, :] == best[:, None], preferred, numerator)
    probability = numerator.to(tl.float32) * PROBABILITY_STEP
    probability = tl.where(agreement < -1, float("nan"), probability)
    tl.store(probabilities_ptr + row[:, None] * vocab_size + token[None, :], probability, mask=mask)


@triton.jit
def _text_draft_probabilities_kernel(
    hidden_states_ptr,
    context_ptr,
    ngram_counts_ptr,
    probabilities_ptr,
    num_tokens,
    num_words,
    num_buckets,
    vocab_size,
    NUM_ORDERS: tl.constexpr,
    ROWS: tl.constexpr,
    VOCAB: tl.constexpr,
):
    follow_previous()
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS).to(tl.int64)
    token = tl.arange(0, VOCAB)
    is_row = row < num_tokens
    mask = is_row[:, None] & (token < vocab_size)[None, :]
    state = digest_row(hidden_states_ptr, row, is_row, num_words, num_words - 1, ROWS)
    state += tl.load(context_ptr + row, mask=is_row, other=0).to(tl.uint32)
    context_word = tl.load(hidden_states_ptr + row * num_words + num_words - 1, mask=is_row, other=0)
    weight = tl.zeros([ROWS, VOCAB], dtype=tl.int64)
    for order in tl.static_range(NUM_ORDERS):
        bucket = order * num_buckets + _bucket(context_word, order, num_buckets)
        counts = tl.load(ngram_counts_ptr + bucket[:, None] * vocab_size + token[None, :], mask=mask, other=0)
        weight += counts.to(tl.int64) << (6 * order)
    total = tl.maximum(tl.sum(weight, 1), 1)
    low_bits = mix(state[:, None] + (token.to(tl.uint32) * GOLDEN)[None, :]) & 0xF
    numerator = (((weight << 11) // total[:, None]) << 4) | low_bits.to(tl.int64)
    probability = numerator.to(tl.float32) * (1.0 / 65536.0)
    tl.store(probabilities_ptr + row[:, None] * vocab_size + token[None, :], probability, mask=mask)
