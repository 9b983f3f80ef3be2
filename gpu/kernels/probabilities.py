"""Kernels of ``specsim.gpu.probabilities``; their sums are in float64, and every stage rounds to float32."""

import triton
import triton.language as tl

from specsim.gpu.kernels.device.filters import (
    append,
    bound_of_top_p,
    goal_of_top_p,
    largest_of,
    least_of_best,
    measure,
    order_of,
    search,
    shares,
    shrink,
    value_of,
)
from specsim.gpu.kernels.from_logits.thresholds import LOG2_E


@triton.jit(do_not_specialize=["num_rows", "num_nodes"])
def _prepare_logits_kernel(
    logits_ptr,
    scaling_penalty_ptr,
    additive_penalty_ptr,
    logit_bias_ptr,
    vocab_mask_ptr,
    prepared_logits_ptr,
    num_rows,
    num_nodes,
    vocab,
    num_words,
    row_stride,
    column_stride,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Prepare a tile. Every operation rounds once: launch it without fusion of products and sums."""
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)[:, None]
    token = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)[None, :]
    inside = (row < num_rows) & (token < vocab)
    of_request = row // num_nodes * vocab + token
    logit = tl.load(logits_ptr + row * row_stride + token.to(tl.int64) * column_stride, mask=inside, other=0.0)
    logit = logit.to(tl.float32)
    if additive_penalty_ptr is not None:
        logit += tl.load(additive_penalty_ptr + of_request, mask=inside, other=0.0)
    if scaling_penalty_ptr is not None:
        scale = tl.load(scaling_penalty_ptr + of_request, mask=inside, other=1.0)
        logit = tl.where(logit > 0, tl.math.div_rn(logit, scale), logit * scale)
    if logit_bias_ptr is not None:
        logit += tl.load(logit_bias_ptr + of_request, mask=inside, other=0.0)
    if vocab_mask_ptr is not None:
        word = tl.load(vocab_mask_ptr + row * num_words + token // 32, mask=inside, other=0)
        logit = tl.where((word >> (token % 32)) & 1 == 1, logit, float("-inf"))
    tl.store(prepared_logits_ptr + row * vocab + token, logit, mask=inside)


@triton.jit
def best_of(row_ptr, column_stride, vocab, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    """Largest logits of each row at the same place of every block, in float32."""
    best = tl.full([ROWS, BLOCK], float("-inf"), dtype=tl.float32)
    for block in range(tl.cdiv(vocab, BLOCK)):
        token = block * BLOCK + tl.arange(0, BLOCK)[None, :]
        logit = tl.load(row_ptr + token.to(tl.int64) * column_stride, mask=token < vocab, other=float("-inf"))
        best = tl.maximum(best, logit.to(tl.float32))
    return best


@triton.jit
def total_of(row_ptr, column_stride, vocab, temperature, greatest, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    """Add up each row's weights relative to its greatest logit, in float64, and find the first token that has it."""
    peak = greatest.to(tl.float64) / temperature
    total = tl.zeros([ROWS, BLOCK], dtype=tl.float64)
    choice = tl.full([ROWS, BLOCK], 2**31 - 1, dtype=tl.int32)
    for block in range(tl.cdiv(vocab, BLOCK)):
        token = block * BLOCK + tl.arange(0, BLOCK)[None, :]
        logit = tl.load(row_ptr + token.to(tl.int64) * column_stride, mask=token < vocab, other=float("-inf"))
        logit = logit.to(tl.float32)
        total += tl.exp(logit.to(tl.float64) / temperature - peak)
        choice = tl.minimum(choice, tl.where((token < vocab) & (logit == greatest), token, choice))
    return tl.sum(total, 1, keep_dims=True), tl.min(choice, 1, keep_dims=True)


@triton.jit
def _softened(logit, temperature, peak, total):
    """Return the probabilities of logits, in float32."""
    return (tl.exp(logit.to(tl.float64) / temperature - peak) / total).to(tl.float32)


@triton.jit
def _is_unfiltered(temperature_ptr, top_k_ptr, top_p_ptr, min_p_ptr, request, vocab):
    """Return whether a request samples, and its filters keep everything."""
    is_sampled = tl.load(temperature_ptr + request) > 0
    keeps_all = (tl.load(top_k_ptr + request) >= vocab) & (tl.load(top_p_ptr + request) >= 1)
    return is_sampled & keeps_all & (tl.load(min_p_ptr + request) <= 0)


@triton.jit
def _weights(logits, peak, scale, PRECISE: tl.constexpr):
    """Return powers of 2 of scaled differences to a peak, in float64 where PRECISE; a peak of -inf stands for 0."""
    # NOTE: ``from_logits.thresholds.weigh`` divides by the temperature in float32. That is near enough for a decision
    # with a margin, but not for a probability, whose bound is that of its exponent.
    peak = tl.where(peak == float("-inf"), 0.0, peak)
    return tl.exp2((logits.to(tl.float64 if PRECISE else tl.float32) - peak) * tl.abs(scale))


@triton.jit(do_not_specialize=["num_rows", "num_groups", "lag"])
def _soften_kernel(
    logits_ptr,
    scale_ptr,
    target_probs_ptr,
    num_read_ptr,
    chunk_max_ptr,
    chunk_mass_ptr,
    num_rows,
    num_groups,
    lag,
    num_chunks,
    vocab,
    row_stride,
    column_stride,
    ROWS: tl.constexpr,
    CHUNK: tl.constexpr,
    CHUNKS: tl.constexpr,
    PRECISE: tl.constexpr,
):
    """Write the softmax of the rows that have a scale: log2(e) over their temperature, but -1 where a row has filters.

    A group of rows is split over ``num_chunks`` programs. Each reads its chunk of a group for the group's largest
    logits and sums, and writes its chunk of the group ``lag`` groups before, whose logits the cache still holds. It
    waits for programs of lower number alone, which have started before it.
    """
    group = tl.program_id(0) // num_chunks
    chunk = tl.program_id(0) % num_chunks
    token = chunk * CHUNK + tl.arange(0, CHUNK)[None, :]
    column = token.to(tl.int64) * column_stride
    # Rows with filters are read as well: logits need not wait for what decides about them.
    if group < num_groups:
        row = tl.minimum(group.to(tl.int64) * ROWS + tl.arange(0, ROWS)[:, None], num_rows - 1)
        logit = tl.load(logits_ptr + row * row_stride + column, mask=token < vocab, other=float("-inf"))
        logit = logit.to(tl.float32)
        greatest = tl.max(logit, 1, keep_dims=True)
        mass = tl.sum(_weights(logit, greatest, tl.load(scale_ptr + row), PRECISE), 1, keep_dims=True)
        tl.store(chunk_max_ptr + row * num_chunks + chunk, greatest)
        tl.store(chunk_mass_ptr + row * num_chunks + chunk, mass)
        # All threads have stored before one of them says so.
        tl.debug_barrier()
        tl.atomic_add(num_read_ptr + group, 1, sem="release")
    if group >= lag:
        row = (group - lag).to(tl.int64) * ROWS + tl.arange(0, ROWS)[:, None]
        is_inside = row < num_rows
        row = tl.minimum(row, num_rows - 1)
        logit = tl.load(logits_ptr + row * row_stride + column, mask=token < vocab, other=float("-inf"))
        logit = logit.to(tl.float32)
        scale = tl.load(scale_ptr + row)
        while tl.atomic_add(num_read_ptr + group - lag, 0, sem="acquire") < num_chunks:
            pass
        if CHUNKS == 1:
            peak = tl.load(chunk_max_ptr + row)
            total = tl.load(chunk_mass_ptr + row)
        else:
            # A group is one row here. Its parts are a tile of their own: that of the logits would load each of them
            # dozens of times.
            tl.static_assert(ROWS == 1)
            part = tl.arange(0, CHUNKS)
            parts = (group - lag).to(tl.int64) * num_chunks + part
            peaks = tl.load(chunk_max_ptr + parts, mask=part < num_chunks, other=float("-inf"), volatile=True)
            masses = tl.load(chunk_mass_ptr + parts, mask=part < num_chunks, other=0.0, volatile=True)
            peak = tl.max(peaks, 0)
            total = tl.sum(masses * _weights(peaks, peak, tl.load(scale_ptr + group - lag), PRECISE), 0)
        if PRECISE:
            share = (_weights(logit, peak, scale, PRECISE) / total).to(tl.float32)
        else:
            share = _weights(logit, peak, scale, PRECISE) * (1 / total)
        tl.store(target_probs_ptr + row * vocab + token, share, mask=is_inside & (scale > 0) & (token < vocab))


@triton.jit(do_not_specialize=["num_rows", "num_nodes"])
def _target_probabilities_kernel(
    logits_ptr,
    temperature_ptr,
    top_k_ptr,
    top_p_ptr,
    min_p_ptr,
    target_probs_ptr,
    num_read_ptr,
    scale_ptr,
    num_rows,
    num_nodes,
    vocab,
    row_stride,
    column_stride,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Soften and filter whole rows, but for those that ``_soften_kernel`` writes: it gives them a scale.

    Rows past the last one repeat it. A row's logits are read four times.
    """
    row = tl.minimum(tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)[:, None], num_rows - 1)
    request = row // num_nodes
    is_filtered = _is_unfiltered(temperature_ptr, top_k_ptr, top_p_ptr, min_p_ptr, request, vocab) == 0
    tl.store(num_read_ptr + tl.program_id(0), 0)
    temperature = tl.load(temperature_ptr + request).to(tl.float64)
    is_greedy = temperature == 0
    temperature = tl.where(is_greedy, 1.0, temperature)
    tl.store(scale_ptr + row, tl.where(is_filtered, -1.0, 1 / temperature * LOG2_E))
    if tl.max(is_filtered.to(tl.int32)) == 0:
        return
    top_k = tl.where(is_greedy, 1, tl.load(top_k_ptr + request))
    top_p = tl.load(top_p_ptr + request).to(tl.float64)
    row_ptr = logits_ptr + row * row_stride
    list_ptr = target_probs_ptr + row * vocab
    num_blocks = tl.cdiv(vocab, BLOCK)

    best = best_of(row_ptr, column_stride, vocab, ROWS, BLOCK)
    greatest = tl.max(best, 1, keep_dims=True)
    peak = greatest.to(tl.float64) / temperature
    total, choice = total_of(row_ptr, column_stride, vocab, temperature, greatest, ROWS, BLOCK)

    # NOTE: one step below, for an exponential that decreases in its last bit where its argument grows.
    least = _softened(least_of_best(best, top_k), temperature, peak, total)
    least = value_of(tl.maximum(order_of(least) - 1, 0))
    length = tl.zeros([ROWS, 1], dtype=tl.int32)
    for block in range(num_blocks):
        token = block * BLOCK + tl.arange(0, BLOCK)[None, :]
        logit = tl.load(row_ptr + token.to(tl.int64) * column_stride, mask=token < vocab, other=float("-inf"))
        softened = _softened(logit.to(tl.float32), temperature, peak, total)
        length = append(list_ptr, length, softened, (token < vocab) & (softened >= least))
    tl.debug_barrier()

    largest = largest_of(list_ptr, length, ROWS, BLOCK)
    by_k = search(list_ptr, length, least, largest, top_k, False, ROWS, BLOCK)
    mass_k = measure(list_ptr, length, by_k, ROWS, BLOCK)[1]
    length = shrink(list_ptr, length, by_k, mass_k, ROWS, BLOCK)

    everything = tl.zeros([ROWS, 1], dtype=tl.float64)
    mass = measure(list_ptr, length, everything, ROWS, BLOCK)[1]
    least = bound_of_top_p(top_p, mass, length)
    length = shrink(list_ptr, length, least.to(tl.float64), everything + 1, ROWS, BLOCK)
    largest = largest_of(list_ptr, length, ROWS, BLOCK)
    by_p = search(list_ptr, length, least, largest, goal_of_top_p(top_p, mass), True, ROWS, BLOCK)
    mass_p = measure(list_ptr, length, by_p, ROWS, BLOCK)[1]
    length = shrink(list_ptr, length, by_p, mass_p, ROWS, BLOCK)

    by_min = tl.load(min_p_ptr + request).to(tl.float64)
    by_min *= largest_of(list_ptr, length, ROWS, BLOCK).to(tl.float64)
    mass_min = measure(list_ptr, length, by_min, ROWS, BLOCK)[1]
    tl.debug_barrier()

    for block in range(num_blocks):
        token = block * BLOCK + tl.arange(0, BLOCK)[None, :]
        logit = tl.load(row_ptr + token.to(tl.int64) * column_stride, mask=token < vocab, other=float("-inf"))
        kept = shares(_softened(logit.to(tl.float32), temperature, peak, total), by_k, mass_k)
        kept = shares(shares(kept, by_p, mass_p), by_min, mass_min)
        kept = tl.where(is_greedy, (token == choice).to(tl.float32), kept)
        tl.store(list_ptr + token, kept, mask=is_filtered & (token < vocab))
