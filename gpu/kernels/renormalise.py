"""Kernels that filter rows of probabilities and renormalise them; no row is sorted, and no program waits for another.

A row is split over programs. What they find of its chunks narrows where the row's threshold lies, until so few entries
are left in between that one program looks at them all. A tile holds ROWS rows, and what a row has once is [ROWS, 1].
"""

import triton
import triton.language as tl

from specsim.gpu.kernels.device.filters import goal_of_top_p, least_of_best, order_of, value_of

TOP_K = tl.constexpr(0)
TOP_P = tl.constexpr(1)
MIN_P = tl.constexpr(2)

WAYS = tl.constexpr(8)
"""Thresholds above which a chunk adds up its entries at once."""

COARSEST, OCTAVES = tl.constexpr(125), tl.constexpr(3)
"""Exponent of the first threshold that is tried, 1/4 as float32 has it, and powers of 2 from one to the next."""

INFINITE_ORDER = tl.constexpr(0x7F800000)

LEAST = tl.constexpr(2.0**-149)
"""The least float32 above 0: what has no mass is kept or dropped with the same result, and is not listed."""

FRACTION_BITS = 42
"""Bits of an entry relative to the largest; sums of a million such integers have room in 64 bits."""

SCALED_EXPONENT = tl.constexpr(1023 + 127 + FRACTION_BITS)
"""Sum of the exponents, as float32 and float64 have them, of the largest entry and of what it is multiplied by."""


@triton.jit
def _chunk_of(num_rows, num_chunks, ROWS: tl.constexpr):
    """Return the rows of a program, whether they exist, and which of their chunks it has."""
    row, is_row = _rows_of(tl.program_id(0) // num_chunks, num_rows, ROWS)
    return row, is_row, tl.program_id(0) % num_chunks


@triton.jit
def _rows_of(group, num_rows, ROWS: tl.constexpr):
    """Rows of a group, and whether they are there; those past the last one repeat it, and write the same."""
    row = group.to(tl.int64) * ROWS + tl.arange(0, ROWS)[:, None]
    return tl.minimum(row, num_rows - 1), row < num_rows


@triton.jit
def _read(probabilities_ptr, row, first, vocab, row_stride, column_stride, TILE: tl.constexpr):
    """Load the entries of the tokens from ``first`` on, 0 past the vocabulary; return both."""
    token = first + tl.arange(0, TILE)[None, :]
    offset = row * row_stride + token.to(tl.int64) * column_stride
    return token, tl.load(probabilities_ptr + offset, mask=token < vocab, other=0.0)


@triton.jit
def _sum_of_parts(parts_ptr, row, num_chunks, CHUNKS: tl.constexpr):
    """Add up what the chunks of each row have, always in the same order."""
    chunk = tl.arange(0, CHUNKS)[None, :]
    is_chunk = chunk < num_chunks
    parts = tl.load(parts_ptr + row * num_chunks + chunk, mask=is_chunk, other=0.0)
    return tl.sum(parts, 1, keep_dims=True)


@triton.jit
def _way(low, high, way, IS_FINE: tl.constexpr):
    """Return thresholds, as integers in their order: powers of 2, or some between two others."""
    if IS_FINE:
        return low + (high - low) * (way + 1) // (WAYS + 1)
    return low * 0 + ((way * -OCTAVES + COARSEST) << 23)


@triton.jit
def _add_up_ways(masses_ptr, entry, low, high, IS_FINE: tl.constexpr):
    """Write the sums of a chunk's entries above several thresholds; in float32, as they only say where to look."""
    for way in tl.static_range(WAYS):
        threshold = value_of(_way(low, high, way, IS_FINE).to(tl.int32))
        tl.store(masses_ptr + way, tl.sum(tl.where(entry >= threshold, entry, 0.0), 1, keep_dims=True))


@triton.jit
def _narrow(masses_ptr, row, num_chunks, goal, low, high, IS_FINE: tl.constexpr, CHUNKS: tl.constexpr):
    """Return neighbouring thresholds of which one reaches the goal and the other does not."""
    chunk, way = tl.arange(0, CHUNKS)[None, :, None], tl.arange(0, WAYS)
    place = (row[:, :, None] * num_chunks + chunk) * WAYS + way[None, None, :]
    masses = tl.load(masses_ptr + place, mask=chunk < num_chunks, other=0.0)
    is_reached = tl.sum(masses.to(tl.float64), 1) >= goal
    order = _way(low, high, way[None, :], IS_FINE)
    reached = tl.max(tl.where(is_reached, order, low), 1, keep_dims=True)
    return reached, tl.min(tl.where(is_reached, high, order), 1, keep_dims=True)


@triton.jit
def _add_up(entries_ptr, stride, length, threshold, scale, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    """Count the entries that reach a threshold, and add them up as integers: the same in any order."""
    number = tl.zeros([ROWS, BLOCK], dtype=tl.int32)
    weight = tl.zeros([ROWS, BLOCK], dtype=tl.int64)
    for block in range(tl.cdiv(tl.max(length), BLOCK)):
        place = block * BLOCK + tl.arange(0, BLOCK)[None, :]
        entry = tl.load(entries_ptr + place.to(tl.int64) * stride, mask=place < length, other=-1.0)
        is_reached = entry >= threshold
        number += is_reached.to(tl.int32)
        weight += tl.where(is_reached, (tl.maximum(entry, 0.0).to(tl.float64) * scale).to(tl.int64), 0)
    return tl.sum(number, 1, keep_dims=True), tl.sum(weight, 1, keep_dims=True)


@triton.jit
def _settle(
    entries_ptr, stride, length, above, low, goal, BY_MASS: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr
):
    """Find the largest threshold that reaches a goal among entries, and the mass that reaches it.

    ``low`` reaches it, or nothing does. The search ends where one entry is left between the threshold that reaches the
    goal and the one that does not.
    """
    best = tl.zeros([ROWS, BLOCK], dtype=tl.float32)
    for block in range(tl.cdiv(tl.max(length), BLOCK)):
        place = block * BLOCK + tl.arange(0, BLOCK)[None, :]
        entry = tl.load(entries_ptr + place.to(tl.int64) * stride, mask=place < length, other=0.0)
        best = tl.maximum(best, entry)
    largest = order_of(tl.max(best, 1, keep_dims=True)).to(tl.int64)
    scale = (((largest >> 23) * -1 + SCALED_EXPONENT) << 52).to(tl.float64, bitcast=True)
    low, high = order_of(low.to(tl.float32)).to(tl.int64), largest + 1
    num_low, num_high = length, length * 0
    is_open = (high - low > 1) & (num_low - num_high > 1)
    while tl.max(is_open.to(tl.int32)) > 0:
        middle = low + (high - low) // 2
        number, weight = _add_up(entries_ptr, stride, length, value_of(middle.to(tl.int32)), scale, ROWS, BLOCK)
        is_reached = number >= goal
        if BY_MASS:
            is_reached = above + weight.to(tl.float64) / scale >= goal
        low = tl.where(is_open & is_reached, middle, low)
        num_low = tl.where(is_open & is_reached, number, num_low)
        high = tl.where(is_open & (is_reached == 0), middle, high)
        num_high = tl.where(is_open & (is_reached == 0), number, num_high)
        is_open = is_open & (high - low > 1) & (num_low - num_high > 1)
    threshold = value_of(low.to(tl.int32))
    weight = _add_up(entries_ptr, stride, length, threshold, scale, ROWS, BLOCK)[1]
    return threshold.to(tl.float64), above + weight.to(tl.float64) / scale


@triton.jit(do_not_specialize=["num_rows"])
def _bracket_by_maxima_kernel(
    filter_ptr,
    sketch_ptr,
    bracket_ptr,
    num_rows,
    num_chunks,
    vocab,
    FILTER: tl.constexpr,
    ROWS: tl.constexpr,
    CHUNKS: tl.constexpr,
    LANES: tl.constexpr,
):
    """Bracket a row's threshold by its largest entries: so many tokens reach the k-th of them, at the least."""
    row, _ = _rows_of(tl.program_id(0), num_rows, ROWS)
    place = tl.arange(0, CHUNKS * LANES)[None, :]
    is_there = place < num_chunks * LANES
    maxima = tl.load(sketch_ptr + row * num_chunks * LANES + place, mask=is_there, other=0.0)
    parameter = tl.load(filter_ptr + row)
    if FILTER == MIN_P:
        low = parameter.to(tl.float64) * tl.max(maxima, 1, keep_dims=True).to(tl.float64)
        high = low
    else:
        keeps_all = parameter >= vocab
        low = tl.where(keeps_all, 0.0, tl.maximum(least_of_best(maxima, parameter).to(tl.float64), LEAST))
        high = tl.where(keeps_all, 0.0, low + float("inf"))
    tl.store(bracket_ptr + row * 2, low)
    tl.store(bracket_ptr + row * 2 + 1, high)


@triton.jit(do_not_specialize=["num_rows"])
def _sketch_chunks_kernel(
    probabilities_ptr,
    filter_ptr,
    sketch_ptr,
    fine_sketch_ptr,
    total_ptr,
    count_ptr,
    num_rows,
    num_chunks,
    vocab,
    strides,
    FILTER: tl.constexpr,
    IS_FINE: tl.constexpr,
    ROWS: tl.constexpr,
    CHUNK: tl.constexpr,
    CHUNKS: tl.constexpr,
    LANES: tl.constexpr,
):
    """Write what a chunk tells of its row's threshold, and empty the row's list.

    For top-p these are the sums of its entries above several thresholds, for the others its largest entries, one of
    every LANES-th token.
    """
    row_stride, column_stride = strides
    row, _, chunk = _chunk_of(num_rows, num_chunks, ROWS)
    part = row * num_chunks + chunk
    _, entry = _read(probabilities_ptr, row, chunk * CHUNK, vocab, row_stride, column_stride, CHUNK)
    if FILTER == TOP_P:
        least, most = row * 0, row * 0 + INFINITE_ORDER
        if IS_FINE:
            total = _sum_of_parts(total_ptr, row, num_chunks, CHUNKS)
            goal = goal_of_top_p(tl.load(filter_ptr + row).to(tl.float64), total)
            least, most = _narrow(sketch_ptr, row, num_chunks, goal, least, most, False, CHUNKS)
            _add_up_ways(fine_sketch_ptr + part * WAYS, entry, least, most, True)
        else:
            tl.store(total_ptr + part, tl.sum(entry.to(tl.float64), 1, keep_dims=True))
            _add_up_ways(sketch_ptr + part * WAYS, entry, least, most, False)
    else:
        maxima = tl.max(tl.reshape(entry, [ROWS, CHUNK // LANES, LANES]), 1)
        tl.store(sketch_ptr + part * LANES + tl.arange(0, LANES)[None, :], maxima)
    tl.store(count_ptr + row, tl.zeros([ROWS, 1], dtype=tl.int32))


@triton.jit(do_not_specialize=["num_rows"])
def _list_chunks_kernel(
    probabilities_ptr,
    filter_ptr,
    sketch_ptr,
    fine_sketch_ptr,
    total_ptr,
    bracket_ptr,
    above_ptr,
    count_ptr,
    listed_ptr,
    num_rows,
    num_chunks,
    vocab,
    strides,
    FILTER: tl.constexpr,
    ROWS: tl.constexpr,
    CHUNK: tl.constexpr,
    CHUNKS: tl.constexpr,
    SLOTS: tl.constexpr,
    TILE: tl.constexpr,
):
    """Add up the entries of a chunk above the row's bracket, and list those inside, as far as there is room."""
    row_stride, column_stride = strides
    row, is_row, chunk = _chunk_of(num_rows, num_chunks, ROWS)
    if FILTER == TOP_P:
        parameter = tl.load(filter_ptr + row).to(tl.float64)
        goal = goal_of_top_p(parameter, _sum_of_parts(total_ptr, row, num_chunks, CHUNKS))
        least, most = row * 0, row * 0 + INFINITE_ORDER
        least, most = _narrow(sketch_ptr, row, num_chunks, goal, least, most, False, CHUNKS)
        least, most = _narrow(fine_sketch_ptr, row, num_chunks, goal, least, most, True, CHUNKS)
        low = tl.where(parameter < 1, tl.maximum(value_of(least.to(tl.int32)).to(tl.float64), LEAST), 0.0)
        high = tl.where(parameter < 1, value_of(most.to(tl.int32)).to(tl.float64), 0.0)
        # NOTE: every program of the row writes the same.
        tl.store(bracket_ptr + row * 2, low)
        tl.store(bracket_ptr + row * 2 + 1, high)
    else:
        low = tl.load(bracket_ptr + row * 2)
        high = tl.load(bracket_ptr + row * 2 + 1)
    above = tl.zeros([ROWS, 1], dtype=tl.float64)
    # NOTE: a tile is as large as fits into registers together with its places in the list.
    for first in range(chunk * CHUNK, tl.minimum(chunk * CHUNK + CHUNK, vocab), TILE):
        token, entry = _read(probabilities_ptr, row, first, vocab, row_stride, column_stride, TILE)
        exact = entry.to(tl.float64)
        above += tl.sum(tl.where(exact >= high, exact, 0.0), 1, keep_dims=True)
        if FILTER != MIN_P:
            is_listed = is_row & (token < vocab) & (exact >= low) & (exact < high)
            # NOTE: a prefix sum here keeps LLVM busy for an hour in the compiler of Triton 3.7.
            slot = tl.atomic_add(count_ptr + row + token * 0, 1, mask=is_listed, sem="relaxed")
            tl.store(listed_ptr + row * SLOTS + slot, entry, mask=is_listed & (slot < SLOTS))
    tl.store(above_ptr + row * num_chunks + chunk, above)


@triton.jit(do_not_specialize=["num_rows"])
def _settle_rows_kernel(
    probabilities_ptr,
    filter_ptr,
    total_ptr,
    bracket_ptr,
    above_ptr,
    count_ptr,
    listed_ptr,
    settled_ptr,
    num_rows,
    num_chunks,
    vocab,
    strides,
    FILTER: tl.constexpr,
    ROWS: tl.constexpr,
    CHUNKS: tl.constexpr,
    SLOTS: tl.constexpr,
    LISTED: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Find the threshold of each row and the mass that reaches it: in its list, or in the row if that is too long."""
    row_stride, column_stride = strides
    row, _ = _rows_of(tl.program_id(0), num_rows, ROWS)
    low = tl.load(bracket_ptr + row * 2)
    above = _sum_of_parts(above_ptr, row, num_chunks, CHUNKS)
    threshold, mass = low, above
    if FILTER != MIN_P:
        count, goal = tl.load(count_ptr + row), tl.load(filter_ptr + row)
        keeps_all = tl.load(bracket_ptr + row * 2 + 1) == 0
        if FILTER == TOP_P:
            goal = goal_of_top_p(goal.to(tl.float64), _sum_of_parts(total_ptr, row, num_chunks, CHUNKS))
        length = tl.where(keeps_all | (count > SLOTS), 0, count)
        threshold, mass = _settle(listed_ptr + row * SLOTS, 1, length, above, low, goal, FILTER == TOP_P, ROWS, LISTED)
        is_long = count > SLOTS
        if FILTER == TOP_P:
            # NOTE: the masses that led to the bracket were in float32.
            is_long = is_long | (above >= goal) | (mass < goal)
        is_long = is_long & (keeps_all == 0)
        if tl.max(is_long.to(tl.int32)) > 0:
            row_ptr = probabilities_ptr + row * row_stride
            length = tl.where(is_long, vocab, 0)
            by_row = _settle(row_ptr, column_stride, length, above * 0, low * 0, goal, FILTER == TOP_P, ROWS, BLOCK)
            threshold = tl.where(is_long, by_row[0], threshold)
            mass = tl.where(is_long, by_row[1], mass)
    tl.store(settled_ptr + row * 2, threshold)
    tl.store(settled_ptr + row * 2 + 1, 1 / tl.where(mass > 0, mass, 1.0))


@triton.jit(do_not_specialize=["num_rows"])
def _write_shares_kernel(
    probabilities_ptr,
    settled_ptr,
    renormalised_ptr,
    num_rows,
    num_chunks,
    vocab,
    strides,
    ROWS: tl.constexpr,
    CHUNK: tl.constexpr,
):
    """Write a chunk: the shares of what reaches the threshold, 0 elsewhere."""
    row_stride, column_stride = strides
    row, _, chunk = _chunk_of(num_rows, num_chunks, ROWS)
    token, entry = _read(probabilities_ptr, row, chunk * CHUNK, vocab, row_stride, column_stride, CHUNK)
    threshold, inverse = tl.load(settled_ptr + row * 2), tl.load(settled_ptr + row * 2 + 1)
    exact = entry.to(tl.float64)
    share = tl.where(exact >= threshold, exact * inverse, 0.0).to(tl.float32)
    tl.store(renormalised_ptr + row * vocab + token, share, mask=token < vocab)
