"""Kernels that filter rows, of logits or of probabilities: a row is read once, and its output written once.

Rows of several chunks are split over programs. A program lists the largest entries of its chunk, about a sixth of it at
most, and writes zeros; then one program of each row finds the thresholds in the lists, and writes what they keep. Where
the lists do not decide, and where a chunk is a whole row, a program looks at the row itself. Rows without filters are
written by the programs that read them, a few rows later.
"""

import triton
import triton.language as tl

from specsim.gpu.kernels.device.filters import (
    bound_of_best,
    largest_of,
    least_of_share,
    measure,
    order_of,
    read,
    search,
    value_of,
    weigh,
    write_shares,
)
from specsim.gpu.kernels.device.succession import follow_previous
from specsim.gpu.kernels.from_logits.residuals import NO_TOKEN
from specsim.gpu.kernels.from_logits.thresholds import LOG2_E

LOWEST = tl.constexpr(-3.4028234663852886e38)
"""The least logit of a possible token."""

LEAST = tl.constexpr(2.0**-149)
"""The least float32 above 0: what has no mass is kept or dropped with the same result, and is not listed."""


@triton.jit
def settings_of(filter_ptrs, request, vocab):
    """Return temperature in float64, scale of logits, top-k, top-p and min-p of requests; those left out keep all.

    A greedy request has temperature 0, and filters that keep its largest logits.
    """
    temperature_ptr, top_k_ptr, top_p_ptr, min_p_ptr = filter_ptrs
    temperature = (request * 0).to(tl.float64) + 1
    top_k = (request * 0).to(tl.int32) + vocab
    top_p, min_p = temperature, temperature.to(tl.float32) * 0
    if top_k_ptr is not None:
        top_k = tl.load(top_k_ptr + request)
    if top_p_ptr is not None:
        top_p = tl.load(top_p_ptr + request).to(tl.float64)
    if min_p_ptr is not None:
        min_p = tl.load(min_p_ptr + request)
    if temperature_ptr is not None:
        temperature = tl.load(temperature_ptr + request).to(tl.float64)
        is_greedy = temperature == 0
        top_k = tl.where(is_greedy, 1, top_k)
        top_p, min_p = tl.where(is_greedy, 1.0, top_p), tl.where(is_greedy, 0.0, min_p)
    scale = (1 / tl.where(temperature == 0, 1.0, temperature) * LOG2_E).to(tl.float32)
    return temperature, scale, top_k, top_p, min_p


@triton.jit
def is_filtered(settings, vocab):
    """Return whether filters drop anything of a row."""
    return (settings[2] < vocab) | (settings[3] < 1) | (settings[4] > 0)


@triton.jit(do_not_specialize=["num_rows"])
def _forget_rows_kernel(count_ptr, num_rows, BLOCK: tl.constexpr):
    """Set the numbers of programs that have finished a stage of each row to 0."""
    follow_previous()
    row = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(count_ptr + row, 0, mask=row < num_rows)


@triton.jit
def _list_chunk(source, entry, settings, lists, IS_LOGITS: tl.constexpr, UNITS: tl.constexpr):
    """List the largest entries of a chunk unit by unit, and return from which value on, and how many.

    They are those of the units that hold the largest ones, as many as top-k at least or three of four, and others that
    are as large. Nothing is listed where there are more of them than slots.
    """
    listed_ptr, place_ptr, SLOTS, SHIFT = lists
    unit_max = tl.maximum(tl.max(entry, 0), tl.full([], LOWEST if IS_LOGITS else LEAST, dtype=tl.float32))
    bound = bound_of_best(unit_max, tl.minimum(settings[2], UNITS * 3 // 4), SHIFT)
    by_min = least_of_share(settings[4], tl.max(unit_max), settings[1], SHIFT, IS_LOGITS)
    bound = tl.maximum(bound, by_min)
    of_unit = tl.sum((entry >= bound).to(tl.int32), 0)
    number = tl.sum(of_unit)
    if number > SLOTS:
        bound = float("inf")
    # NOTE: entries are read once more, from the cache: places of a whole chunk would take all registers.
    slot = tl.cumsum(of_unit, 0) - of_unit
    unit = tl.arange(0, UNITS)
    for depth in range(entry.shape[0]):
        place = depth * UNITS + unit
        value = tl.load(source[0] + place.to(tl.int64) * source[1], mask=place < source[2], other=float("-inf"))
        value = value.to(tl.float32)
        is_listed = value >= bound
        tl.store(listed_ptr + slot, value, mask=is_listed)
        tl.store(place_ptr + slot, place.to(tl.int16), mask=is_listed)
        slot += is_listed.to(tl.int32)
    return bound, tl.where(number <= SLOTS, number, 0)


@triton.jit(do_not_specialize=["num_rows", "num_nodes", "lag"])
def _read_chunks_kernel(
    values_ptr,
    temperature_ptr,
    top_k_ptr,
    top_p_ptr,
    min_p_ptr,
    count_ptr,
    chunk_ptrs,
    list_ptrs,
    filtered_ptr,
    num_rows,
    num_nodes,
    lag,
    row_sizes,
    KEEPS_OPEN: tl.constexpr,
    TILE: tl.constexpr,
    CHUNKS: tl.constexpr,
    SHIFT: tl.constexpr,
):
    """Read a chunk of a row: its largest entry, its weight, and of a row with filters the list of its largest entries.

    A row without filters is written by the programs of the row ``lag`` rows later, which find its chunks in the cache.
    They wait for programs of lower number alone, which have started before them. With ``KEEPS_OPEN`` such rows are
    neither read nor written.
    """
    follow_previous()
    IS_LOGITS: tl.constexpr = temperature_ptr is not None
    UNITS: tl.constexpr = TILE[0]
    CHUNK: tl.constexpr = TILE[1]
    SLOTS: tl.constexpr = TILE[2]
    num_chunks, vocab, row_stride, column_stride = row_sizes
    chunk_max_ptr, chunk_mass_ptr, chunk_bound_ptr, num_listed_ptr = chunk_ptrs
    filter_ptrs = (temperature_ptr, top_k_ptr, top_p_ptr, min_p_ptr)
    row = (tl.program_id(0) // num_chunks).to(tl.int64)
    chunk = tl.program_id(0) % num_chunks
    earlier = row - lag
    settings_of_earlier = settings_of(filter_ptrs, tl.maximum(earlier, 0) // num_nodes, vocab)
    # Pointers to a chunk, and how much of it lies in the vocabulary.
    first = chunk.to(tl.int64) * CHUNK
    length = (vocab - first).to(tl.int32)
    values_ptr += first * column_stride
    filtered_ptr += first
    place = tl.arange(0, CHUNK // UNITS)[:, None] * UNITS + tl.arange(0, UNITS)[None, :]
    column = place.to(tl.int64) * column_stride
    settings = settings_of(filter_ptrs, tl.minimum(row, num_rows - 1) // num_nodes, vocab)
    if (row < num_rows) & ((KEEPS_OPEN == 0) | is_filtered(settings, vocab)):
        nothing = float("-inf") if IS_LOGITS else 0.0
        entry = tl.load(values_ptr + row * row_stride + column, mask=place < length, other=nothing).to(tl.float32)
        largest = tl.max(entry)
        weight = weigh(entry, largest, settings[1], IS_LOGITS)
        part = row * num_chunks + chunk
        tl.store(chunk_max_ptr + part, largest)
        tl.store(chunk_mass_ptr + part, tl.sum(weight if IS_LOGITS else weight.to(tl.float64)))
        if is_filtered(settings, vocab):
            tl.store(filtered_ptr + row * vocab + place, tl.zeros_like(entry), mask=place < length)
            lists = (list_ptrs[0] + part * SLOTS, list_ptrs[1] + part * SLOTS, SLOTS, SHIFT)
            source = (values_ptr + row * row_stride, column_stride, length)
            bound, number = _list_chunk(source, entry, settings, lists, IS_LOGITS, UNITS)
            tl.store(chunk_bound_ptr + part, bound)
            tl.store(num_listed_ptr + part, number)
        else:
            # All threads have stored before one of them says so.
            tl.debug_barrier()
            tl.atomic_add(count_ptr + row, 1, sem="release")
    if (KEEPS_OPEN == 0) & (earlier >= 0) & (is_filtered(settings_of_earlier, vocab) == 0):
        scale = settings_of_earlier[1]
        entry = tl.load(values_ptr + earlier * row_stride + column, mask=place < length, other=0.0).to(tl.float32)
        while tl.atomic_add(count_ptr + earlier, 0, sem="acquire") < num_chunks:
            pass
        peak, total = _total_of(chunk_max_ptr, chunk_mass_ptr, earlier, num_chunks, scale, IS_LOGITS, CHUNKS)
        share = (weigh(entry, peak, scale, IS_LOGITS) * (1 / total)).to(tl.float32)
        tl.store(filtered_ptr + earlier * vocab + place, share, mask=place < length)


@triton.jit
def _total_of(chunk_max_ptr, chunk_mass_ptr, row, num_chunks, scale, IS_LOGITS: tl.constexpr, CHUNKS: tl.constexpr):
    """Return the largest entry of a row, and its weight."""
    # NOTE: a tile of its own, for that of the entries would load each part dozens of times.
    chunk = tl.arange(0, CHUNKS)
    part, is_part = row * num_chunks + chunk, chunk < num_chunks
    nothing = float("-inf") if IS_LOGITS else 0.0
    largest = tl.load(chunk_max_ptr + part, mask=is_part, other=nothing, volatile=True)
    mass = tl.load(chunk_mass_ptr + part, mask=is_part, other=0.0, volatile=True)
    peak = tl.max(largest)
    if IS_LOGITS:
        # NOTE: a product fused with the sum would be rounded another way in each thread.
        mass = tl.where(is_part, mass * weigh(largest, peak, scale, IS_LOGITS), 0.0)
    return peak, tl.sum(mass)


@triton.jit
def _settle_by_list(
    row,
    settings,
    lists,
    filtered_ptr,
    row_sizes,
    TILE: tl.constexpr,
    CHUNKS: tl.constexpr,
    SHIFT: tl.constexpr,
    IS_LOGITS: tl.constexpr,
):
    """Write what the filters keep of a row, if its lists decide; return whether they do.

    They hold every entry from the largest of the bounds of its chunks on.
    """
    CHUNK: tl.constexpr = TILE[1]
    SLOTS: tl.constexpr = TILE[2]
    WIDTH: tl.constexpr = TILE[3]
    FEW: tl.constexpr = TILE[4]
    num_chunks, vocab, _, _ = row_sizes
    chunk_ptrs, list_ptrs, gathered_ptr = lists
    chunk_max_ptr, chunk_mass_ptr, chunk_bound_ptr, num_listed_ptr = chunk_ptrs
    _, scale, top_k, top_p, min_p = settings
    lowest = tl.full([], LOWEST if IS_LOGITS else LEAST, dtype=tl.float32)
    chunk = tl.arange(0, CHUNKS)[None, :]
    known = tl.load(chunk_bound_ptr + row * num_chunks + chunk, mask=chunk < num_chunks, other=lowest)
    known = tl.max(known, 1, keep_dims=True)
    peak, total = _total_of(chunk_max_ptr, chunk_mass_ptr, tl.max(row), num_chunks, tl.max(scale), IS_LOGITS, CHUNKS)
    peak = tl.zeros([1, 1], dtype=tl.float32) + peak
    lane = tl.arange(0, CHUNKS * WIDTH)[None, :]
    part = lane // WIDTH
    number = tl.load(num_listed_ptr + row * num_chunks + part, mask=part < num_chunks, other=0)
    num_blocks = (number - lane % WIDTH + WIDTH - 1) // WIDTH
    first = (row * num_chunks + part) * SLOTS + lane % WIDTH
    entries = (list_ptrs[0] + first, WIDTH, num_blocks, tl.max(num_blocks), peak, scale)

    low, high = order_of(known, SHIFT), order_of(peak, SHIFT) + 1
    number, mass = measure(entries, known, IS_LOGITS)
    total = mass * 0 + total
    has_all, has_k = known <= lowest, (top_k >= vocab) | (number >= top_k)
    is_sought = (top_k < vocab) & (number >= top_k)
    low, number, mass = search(
        entries, gathered_ptr, (low, number, mass, high), top_k, is_sought, False, SHIFT, IS_LOGITS, FEW
    )
    goal = top_p * tl.where(top_k < vocab, mass, total)
    has_p = mass >= goal
    is_sought = (top_p < 1) & has_k & has_p
    low, _, _ = search(entries, gathered_ptr, (low, number, mass, high), goal, is_sought, True, SHIFT, IS_LOGITS, FEW)
    by_min = least_of_share(min_p, peak, scale, SHIFT, IS_LOGITS)
    threshold = tl.maximum(value_of(low, SHIFT), by_min)
    # What min-p drops need not be known, unless its mass decides what top-p keeps.
    is_decided = ((by_min >= known) & (has_k | (top_p >= 1))) | (has_k & tl.where(top_p < 1, has_p, top_k < vocab))
    is_decided = tl.max((is_decided | has_all).to(tl.int32)) > 0
    if is_decided:
        number, mass = measure(entries, threshold, IS_LOGITS)
        inverse = 1 / tl.where(mass > 0, mass, 1.0)
        # The first of a greedy row's largest logits.
        is_greedy, choice = settings[0] == 0, tl.full(lane.shape, NO_TOKEN, dtype=tl.int32)
        for block in range(tl.max(tl.where(is_greedy, entries[3], 0))):
            token = tl.load(list_ptrs[1] + first + block * WIDTH, mask=block < num_blocks, other=0)
            is_kept = (block < num_blocks) & (read(entries, block)[0] >= threshold)
            choice = tl.minimum(choice, tl.where(is_kept, part * CHUNK + token, NO_TOKEN))
        choice = tl.min(choice, 1, keep_dims=True)
        for block in range(entries[3]):
            entry, is_inside = read(entries, block)
            is_kept = is_inside & (entry >= threshold)
            token = part * CHUNK + tl.load(list_ptrs[1] + first + block * WIDTH, mask=is_kept, other=0)
            share = (weigh(entry, peak, scale, IS_LOGITS).to(tl.float64) * inverse).to(tl.float32)
            share = tl.where(is_greedy, (token == choice).to(tl.float32), share)
            tl.store(filtered_ptr + row * vocab + token, share, mask=is_kept)
    return is_decided


@triton.jit
def _soften_rows(row_ptr, out_ptr, vocab, column_stride, temperature, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    """Write the softmax of whole rows, in float64 inside, and return the first of each row's largest logits."""
    lane = tl.arange(0, BLOCK)[None, :]
    best = tl.full([ROWS, BLOCK], float("-inf"), dtype=tl.float32)
    for block in range(tl.cdiv(vocab, BLOCK)):
        token = block * BLOCK + lane
        logit = tl.load(row_ptr + token.to(tl.int64) * column_stride, mask=token < vocab, other=float("-inf"))
        best = tl.maximum(best, logit.to(tl.float32))
    greatest = tl.max(best, 1, keep_dims=True)
    peak = greatest.to(tl.float64) / temperature
    total = tl.zeros([ROWS, BLOCK], dtype=tl.float64)
    choice = tl.full([ROWS, BLOCK], NO_TOKEN, dtype=tl.int32)
    for block in range(tl.cdiv(vocab, BLOCK)):
        token = block * BLOCK + lane
        logit = tl.load(row_ptr + token.to(tl.int64) * column_stride, mask=token < vocab, other=float("-inf"))
        logit = logit.to(tl.float32)
        total += tl.exp(logit.to(tl.float64) / temperature - peak)
        choice = tl.minimum(choice, tl.where((token < vocab) & (logit == greatest), token, choice))
    total = tl.sum(total, 1, keep_dims=True)
    for block in range(tl.cdiv(vocab, BLOCK)):
        token = block * BLOCK + lane
        logit = tl.load(row_ptr + token.to(tl.int64) * column_stride, mask=token < vocab, other=float("-inf"))
        softened = tl.exp(logit.to(tl.float32).to(tl.float64) / temperature - peak) / total
        tl.store(out_ptr + token, softened.to(tl.float32), mask=token < vocab)
    tl.debug_barrier()
    return tl.min(choice, 1, keep_dims=True)


@triton.jit(do_not_specialize=["num_rows", "num_nodes"])
def _settle_rows_kernel(
    values_ptr,
    temperature_ptr,
    top_k_ptr,
    top_p_ptr,
    min_p_ptr,
    chunk_ptrs,
    list_ptrs,
    threshold_ptr,
    gathered_ptr,
    filtered_ptr,
    num_rows,
    num_nodes,
    row_sizes,
    IS_LISTED: tl.constexpr,
    TILE: tl.constexpr,
    CHUNKS: tl.constexpr,
    SHIFT: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Filter rows: by their lists, or each stage on whole rows and rounded to float32, where there are no lists.

    Rows past the last one repeat it. The stages stand in the output, which a row without filters is as well. Rows for
    which other programs have found a threshold have been written.
    """
    follow_previous()
    IS_LOGITS: tl.constexpr = temperature_ptr is not None
    FEW: tl.constexpr = TILE[4]
    _, vocab, row_stride, column_stride = row_sizes
    row = tl.minimum(tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)[:, None], num_rows - 1)
    settings = settings_of((temperature_ptr, top_k_ptr, top_p_ptr, min_p_ptr), row // num_nodes, vocab)
    temperature, _, top_k, top_p, min_p = settings
    has_filters = tl.max(is_filtered(settings, vocab).to(tl.int32)) > 0
    gathered_ptr += row * FEW
    if threshold_ptr is not None and tl.max(tl.load(threshold_ptr + row)) >= 0:
        return
    if IS_LISTED:
        is_left = has_filters
        if has_filters:
            lists = (chunk_ptrs, list_ptrs, gathered_ptr)
            is_left = (
                _settle_by_list(row, settings, lists, filtered_ptr, row_sizes, TILE, CHUNKS, SHIFT, IS_LOGITS) == 0
            )
        if is_left == 0:
            return
    lane = tl.arange(0, BLOCK)[None, :]
    num_blocks = row.to(tl.int32) * 0 + (vocab - lane + BLOCK - 1) // BLOCK
    out_ptr = filtered_ptr + row * vocab + lane
    row_ptr = values_ptr + row * row_stride
    last = tl.cdiv(vocab, BLOCK)
    if IS_LOGITS:
        is_greedy = temperature == 0
        temperature = tl.where(is_greedy, 1.0, temperature)
        choice = _soften_rows(row_ptr, filtered_ptr + row * vocab, vocab, column_stride, temperature, ROWS, BLOCK)
        if has_filters == 0:
            return
        entries = (out_ptr, BLOCK, num_blocks, last, 0.0, 1.0)
    else:
        entries = (row_ptr + lane.to(tl.int64) * column_stride, BLOCK * column_stride, num_blocks, last, 0.0, 1.0)
    nothing, beyond = row * 0, order_of(largest_of(entries)) + 1
    if top_k_ptr is not None:
        number, mass = measure(entries, 0.0, False)
        bounds = (nothing, number, mass, beyond)
        least, _, mass = search(entries, gathered_ptr, bounds, top_k, top_k < vocab, False, 0, False, FEW)
        write_shares(entries, out_ptr, BLOCK, value_of(least), mass)
    if top_p_ptr is not None:
        if IS_LOGITS:
            beyond = order_of(largest_of(entries)) + 1
        number, mass = measure(entries, 0.0, False)
        bounds = (nothing, number, mass, beyond)
        least, _, mass = search(entries, gathered_ptr, bounds, top_p * mass, top_p < 1, True, 0, False, FEW)
        write_shares(entries, out_ptr, BLOCK, value_of(least), mass)
    if min_p_ptr is not None:
        least = least_of_share(min_p, largest_of(entries), 1.0, 0, False)
        mass = measure(entries, least, False)[1]
        write_shares(entries, out_ptr, BLOCK, least, mass)
    if IS_LOGITS:
        for block in range(tl.max(tl.where(is_greedy, last, 0))):
            token = block * BLOCK + lane
            tl.store(out_ptr + block * BLOCK, (token == choice).to(tl.float32), mask=is_greedy & (token < vocab))
