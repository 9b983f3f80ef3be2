"""The kernel that keeps the most probable tokens of long rows whose mass reaches a share: top-p.

Rows are split over programs, and go through four stages: they are read from memory, and three times from the cache,
while later rows are read. Probabilities are in the order of their bits as integers, of which three stages find those of
the threshold: the first 7 by the masses of cells, of two binades each, 12 by those of 4,096 bins of one cell, and the
last 12 by those of the numbers in one bin. Bins add integers up, so that the order of additions decides nothing.
"""

import triton
import triton.language as tl

from specsim.gpu.kernels.device.filters import value_of
from specsim.gpu.kernels.device.succession import arrive, follow_previous

CELL = tl.constexpr(24)
"""Bits of an entry below those that say in which cell it lies."""

LEVEL = tl.constexpr(12)
"""Bits that one stage finds."""

BINS = tl.constexpr(4096)
"""Bins of a stage."""

SIDE = tl.constexpr(64)
"""Bins are looked for in a square."""

MOST_CELLS = tl.constexpr(16)
"""A power of two that the cells of a chunk are not more than."""

UNDECIDED = tl.constexpr(-1)
"""Instead of the bits of a threshold: it lies below the cells that are added up, or right between two of them, where
masses in float32 and in float64 differ; or everything is kept."""


UNSCALE = tl.constexpr(2.0**896)
"""What a sum of numbers of ``_widen`` is multiplied by."""


@triton.jit
def _widen(value):
    """Return float32 numbers that are not negative in float64, times 2 ** -896: by two shifts, without rounding."""
    # NOTE: a conversion takes as long as eight other instructions.
    return (value.to(tl.int32, bitcast=True).to(tl.int64) << 29).to(tl.float64, bitcast=True)


@triton.jit
def _wait_for(count_ptr, number):
    """Wait until so many programs have been counted."""
    while tl.atomic_add(count_ptr, 0, sem="acquire") < number:
        pass


@triton.jit
def _unit_of(order):
    """Return the mass of the last bit of the least normal number in the cell of an entry, given by its bits."""
    exponent = tl.maximum((order >> CELL) * 2, 1)
    return ((exponent.to(tl.int64) + (1023 - 150)) << 52).to(tl.float64, bitcast=True)


@triton.jit
def _masses_of(bins_ptr, bin, first, SHIFT: tl.constexpr):
    """Return masses of bins, in units of a cell: a bin has the number of its entries, and the sum of their low bits."""
    content = tl.load(bins_ptr + bin, volatile=True)
    order = first + (bin << SHIFT)
    exponent = order >> 23
    significand = (order & 0x7FFFFF) | ((exponent > 0).to(tl.int32) << 23)
    mass = (content >> 32) * significand + (content & 0xFFFFFFFF)
    return mass << ((exponent & 1) & (exponent > 1).to(tl.int32)).to(tl.int64)


@triton.jit
def _from_cell_on(value, top, depth):
    """Return entries of the cells from the one that lies so far below the largest one on, and 0 for others."""
    # NOTE: a product takes one instruction, together with the addition that follows; a choice takes two.
    return value * (value >= value_of(tl.maximum(top - depth, 0) << CELL)).to(tl.float32)


@triton.jit
def _add_cells_up(source, parts, bins_ptr, CHUNK: tl.constexpr, CELLS: tl.constexpr):
    """Store the mass of a chunk, its largest cell and the masses from each cell on, and empty its share of the bins."""
    row_ptr, step, length, part, num_chunks = source
    mass_ptr, _, top_ptr, cell_ptr = parts
    place = tl.arange(0, CHUNK)
    value = tl.load(row_ptr + place.to(tl.int64) * step, mask=place < length, other=0.0)
    tl.store(mass_ptr + part, tl.sum(value.to(tl.float64)))
    top = tl.maximum(tl.max(value), 0.0).to(tl.int32, bitcast=True) >> CELL
    tl.store(top_ptr + part, top)
    for cell in tl.static_range(0, CELLS, 4):
        # NOTE: four sums together need as many barriers as one.
        first = tl.join(_from_cell_on(value, top, cell), _from_cell_on(value, top, cell + 1))
        last = tl.join(_from_cell_on(value, top, cell + 2), _from_cell_on(value, top, cell + 3))
        place = tl.arange(0, 2)[:, None] + tl.arange(0, 2)[None, :] * 2
        tl.store(cell_ptr + part * CELLS + cell + place, tl.sum(tl.join(first, last), 0))
    STEP: tl.constexpr = 1024
    first = part % num_chunks * STEP
    bin = tl.arange(0, STEP)
    while first < BINS * 2:
        tl.store(bins_ptr + first + bin, tl.zeros([STEP], dtype=tl.int64), mask=first + bin < BINS * 2)
        first += num_chunks * STEP


@triton.jit
def _find_cell(parts, part, num_chunks, top_p, CHUNKS: tl.constexpr, CELLS: tl.constexpr):
    """Return the cell of the threshold of a row, or UNDECIDED, the mass that it should reach and that of the row."""
    mass_ptr, _, top_ptr, cell_ptr = parts
    chunk = tl.arange(0, CHUNKS)
    is_chunk = chunk < num_chunks
    total = tl.sum(tl.load(mass_ptr + part + chunk, mask=is_chunk, other=0.0, volatile=True))
    top = tl.load(top_ptr + part + chunk, mask=is_chunk, other=0, volatile=True)
    highest = tl.max(top)
    depth = tl.arange(0, MOST_CELLS)
    # NOTE: a chunk has nothing above its largest cell, and its cells end no higher than those of the highest chunk.
    below = top[:, None] - highest + depth[None, :]
    is_stored = is_chunk[:, None] & (below >= 0) & (below < CELLS)
    place = (part + chunk)[:, None] * CELLS + below
    mass = tl.sum(tl.load(cell_ptr + place, mask=is_stored, other=0.0, volatile=True).to(tl.float64), 0)
    goal = top_p * total
    number = tl.sum(((mass < goal) & (depth < CELLS)).to(tl.int32))
    is_found = (top_p < 1) & (number < CELLS) & (number <= highest)
    return tl.where(is_found, (highest - number) << CELL, UNDECIDED), goal, total


@triton.jit
def _find_bin(bins_ptr, first, above, base, goal, SHIFT: tl.constexpr):
    """Return the last bin from which on the mass reaches a goal, -1 if none does, and the masses after and from it on.

    Masses are in units, ``base`` is what lies in the cell after these bins, and ``above`` the mass above the cell.
    """
    unit = _unit_of(first)
    index = tl.arange(0, SIDE)
    line = tl.sum(_masses_of(bins_ptr, index[:, None] * SIDE + index[None, :], first, SHIFT), 1)
    reached = base + tl.sum(line) - tl.cumsum(line, 0) + line
    number = tl.sum((above + reached.to(tl.float64) * unit >= goal).to(tl.int32))
    base += tl.sum(tl.where(index >= number, line, 0))
    start = tl.maximum(number - 1, 0) * SIDE
    mass = _masses_of(bins_ptr, start + index, first, SHIFT)
    reached = base + tl.sum(mass) - tl.cumsum(mass, 0) + mass
    place = tl.sum((above + reached.to(tl.float64) * unit >= goal).to(tl.int32))
    base += tl.sum(tl.where(index >= place, mass, 0))
    kept = above + (base + tl.sum(tl.where(index == place - 1, mass, 0))).to(tl.float64) * unit
    return tl.where(number > 0, start + place - 1, -1), base, kept


@triton.jit
def _read_parts(row_ptr, step, length, CHUNK: tl.constexpr):
    """Load a chunk in four parts, none of which waits for another."""
    PART: tl.constexpr = CHUNK // 4
    place = tl.arange(0, PART)
    row_ptr += place.to(tl.int64) * step
    part_1 = tl.load(row_ptr, mask=place < length, other=0.0)
    part_2 = tl.load(row_ptr + PART * step, mask=place + PART < length, other=0.0)
    part_3 = tl.load(row_ptr + 2 * PART * step, mask=place + 2 * PART < length, other=0.0)
    part_4 = tl.load(row_ptr + 3 * PART * step, mask=place + 3 * PART < length, other=0.0)
    return part_1, part_2, part_3, part_4


@triton.jit
def _add_part_up(value, above, bins_ptr, first, SHIFT: tl.constexpr):
    """Add the entries of a part from one bit pattern on to bins, and widened ones above the last bin to their mass."""
    beyond = first + (BINS << SHIFT)
    beyond = tl.where(beyond < 0, float("inf"), value_of(beyond))
    # A zero with a sign has a negative distance, or is far above.
    distance = value.to(tl.int32, bitcast=True) - first
    bin = distance >> SHIFT
    one = (distance - (bin << SHIFT)).to(tl.int64) + (1 << 32)
    tl.atomic_add(bins_ptr + bin, one, mask=(bin >= 0) & (bin < BINS), sem="relaxed")
    return above + _widen(tl.where(value >= beyond, value, 0.0))


@triton.jit
def _add_bins_up(values, bins_ptr, first, SHIFT: tl.constexpr):
    """Add the entries of a chunk from one bit pattern on to bins, and return the mass above the last bin."""
    above = tl.zeros(values[0].shape, dtype=tl.float64)
    above = _add_part_up(values[0], above, bins_ptr, first, SHIFT)
    above = _add_part_up(values[1], above, bins_ptr, first, SHIFT)
    above = _add_part_up(values[2], above, bins_ptr, first, SHIFT)
    above = _add_part_up(values[3], above, bins_ptr, first, SHIFT)
    return tl.sum(above) * UNSCALE


@triton.jit
def _is_any_from(value, first):
    """Return whether any entry lies in a bin from one bit pattern on."""
    distance = value.to(tl.int32, bitcast=True) - first
    return tl.max(((distance >= 0) & (distance < BINS)).to(tl.int32)) > 0


@triton.jit
def _settle_stage(row, parts, num_chunks, bins_ptr, found, threshold_ptr, STAGE: tl.constexpr, CHUNKS: tl.constexpr):
    """Find the bin of the threshold of a row, in the last stage its value."""
    bits_ptr, base_ptr, goal_ptr, kept_ptr = found
    SHIFT: tl.constexpr = CELL - LEVEL * (STAGE + 1)
    first, chunk = tl.load(bits_ptr + row, volatile=True), tl.arange(0, CHUNKS)
    above = tl.load(parts[1] + row * num_chunks + chunk, mask=chunk < num_chunks, other=0.0, volatile=True)
    above, goal = tl.sum(above), tl.load(goal_ptr + row, volatile=True)
    base = tl.load(base_ptr + row, volatile=True)
    bin, base, kept = _find_bin(bins_ptr, first, above, base, goal, SHIFT)
    found_bits = tl.where((bin >= 0) & (above < goal), first | (bin << SHIFT), UNDECIDED)
    if STAGE == 0:
        tl.store(bits_ptr + row, found_bits)
        tl.store(base_ptr + row, base)
    else:
        tl.store(threshold_ptr + row, found_bits)
        tl.store(kept_ptr + row, kept)


@triton.jit(do_not_specialize=["num_rows", "lag", "pitch"])
def _keep_top_p_kernel(
    values_ptr,
    top_p_ptr,
    count_ptr,
    part_ptrs,
    bins_ptr,
    found_ptrs,
    threshold_ptr,
    filtered_ptr,
    num_rows,
    lag,
    pitch,
    row_sizes,
    CHUNK: tl.constexpr,
    CHUNKS: tl.constexpr,
    CELLS: tl.constexpr,
):
    """Read a chunk of a row, and take chunks of earlier rows through the later stages, ``lag`` rows apart.

    A program waits only for programs of lower number, which have started before it. The last program of a row to end a
    stage finds the next bits of its threshold, and counts once more. Rows without a threshold are left to the next
    kernel. ``pitch`` is the distance of rows, of which the compiler must not know that it is aligned: threads then load
    entries one by one, as atomic operations take them.
    """
    follow_previous()
    num_chunks, vocab, row_stride, step = row_sizes
    bits_ptr, base_ptr, goal_ptr, kept_ptr = found_ptrs
    chunk = tl.program_id(0) % num_chunks
    row = (tl.program_id(0) // num_chunks).to(tl.int64)
    begin = chunk.to(tl.int64) * CHUNK
    length = (vocab - begin).to(tl.int32)
    values_ptr += begin * step
    if row < num_rows:
        source = (values_ptr + row * row_stride, step, length, row * num_chunks + chunk, num_chunks)
        _add_cells_up(source, part_ptrs, bins_ptr + row * BINS * 2, CHUNK, CELLS)
        if arrive(count_ptr + row) == num_chunks - 1:
            top_p = tl.load(top_p_ptr + row).to(tl.float64)
            first, goal, total = _find_cell(part_ptrs, row * num_chunks, num_chunks, top_p, CHUNKS, CELLS)
            tl.store(bits_ptr + row, first)
            tl.store(base_ptr + row, 0)
            tl.store(goal_ptr + row, goal)
            tl.store(threshold_ptr + row, tl.where(top_p < 1, UNDECIDED, 0))
            tl.store(kept_ptr + row, total)
            arrive(count_ptr + row)
    # Entries are on their way before it is known what is sought among them.
    row -= lag
    if (row >= 0) & (row < num_rows):
        values = _read_parts(values_ptr + row * pitch, step, length, CHUNK)
        _wait_for(count_ptr + row, num_chunks + 1)
        first = tl.load(bits_ptr + row, volatile=True)
        bins = bins_ptr + row * 2 * BINS
        if first >= 0:
            tl.store(part_ptrs[1] + row * num_chunks + chunk, _add_bins_up(values, bins, first, LEVEL))
        if arrive(count_ptr + row) == num_chunks * 2:
            if first >= 0:
                _settle_stage(row, part_ptrs, num_chunks, bins, found_ptrs, threshold_ptr, 0, CHUNKS)
            arrive(count_ptr + row)
    row -= lag
    if (row >= 0) & (row < num_rows):
        place = tl.arange(0, CHUNK)
        value = tl.load(values_ptr + row * row_stride + place.to(tl.int64) * step, mask=place < length, other=0.0)
        _wait_for(count_ptr + row, (num_chunks + 1) * 2)
        first = tl.load(bits_ptr + row, volatile=True)
        bins = bins_ptr + (row * 2 + 1) * BINS
        # Few chunks have an entry in the bin of the threshold.
        if first >= 0 and _is_any_from(value, first):
            _add_bins_up(_read_parts(values_ptr + row * pitch, step, length, CHUNK), bins, first, 0)
        if arrive(count_ptr + row) == num_chunks * 3 + 1:
            if first >= 0:
                _settle_stage(row, part_ptrs, num_chunks, bins, found_ptrs, threshold_ptr, 1, CHUNKS)
            arrive(count_ptr + row)
    row -= lag
    if row >= 0:
        place = tl.arange(0, CHUNK)
        value = tl.load(values_ptr + row * row_stride + place.to(tl.int64) * step, mask=place < length, other=0.0)
        _wait_for(count_ptr + row, (num_chunks + 1) * 3)
        threshold = tl.load(threshold_ptr + row, volatile=True)
        if threshold != UNDECIDED:
            inverse = 1 / tl.load(kept_ptr + row, volatile=True)
            share = (value.to(tl.float64) * inverse).to(tl.float32)
            share = tl.where(value >= value_of(threshold), share, 0.0)
            tl.store(filtered_ptr + row * vocab + begin + place, share, mask=place < length)
