"""What one chunk of a row tells about it: largest logit, weight, and the list of its largest logits in token order."""

import triton
import triton.language as tl

from specsim.gpu.kernels.device.succession import follow_previous
from specsim.gpu.kernels.from_logits.lists import has_lists
from specsim.gpu.kernels.from_logits.thresholds import order_of, read_logits, search, value_of, weigh

SPARE = tl.constexpr(14)
"""Logits that a list asks for beyond top-k: room for a chunk that holds more than its share of the largest."""

MOST_ROUNDS = tl.constexpr(8)
"""Rounds in which a row is narrowed down, at most."""

PARTS = tl.constexpr(256)
"""Parts of a chunk, one a thread of eight warps; a bound is first sought among their largest logits."""

WAYS = tl.constexpr(32)
"""Bounds that a round of that search tries: five bits of a float32 on 256 values, 32 comparisons a thread."""

FEW = tl.constexpr(8)
"""Neighbouring weights that are added up in their own type before float64, whose additions cost more."""


@triton.jit
def lowest_of_few(logit, bound, largest, most, SHIFT: tl.constexpr):
    """Return the lowest bound, at least ``bound``, that no more than ``most`` logits of a tile reach."""
    low = order_of(bound, SHIFT)
    high = order_of(largest, SHIFT) + 1
    while high - low > 1:
        middle = low + (high - low) // 2
        is_over = tl.sum((logit >= value_of(middle, SHIFT)).to(tl.int32), axis=0) > most
        low = tl.where(is_over, middle, low)
        high = tl.where(is_over, high, middle)
    return value_of(high, SHIFT)


@triton.jit
def bound_of_parts(part_max, largest, wanted, SHIFT: tl.constexpr):
    """Choose a bound that ``wanted`` parts of a chunk reach and few more; a part reaches what its largest logit does.

    As many logits as parts reach it at least. -inf stands for a part without a logit.
    """
    lowest = tl.min(part_max, axis=0)
    if lowest == float("-inf"):
        num_parts = tl.sum((part_max > float("-inf")).to(tl.int32), axis=0)
        wanted = tl.minimum(wanted, (num_parts + 1) // 2)
    low = order_of(lowest, SHIFT)
    high = order_of(largest, SHIFT) + 1
    parts, enough = (part_max, part_max), wanted + wanted // 4
    low = search(parts, None, low, high, wanted, 0.0, enough, False, False, False, SHIFT, WAYS, PARTS)
    return value_of(low, SHIFT)


@triton.jit
def weight_of_blocks(
    row_ptr,
    first,
    vocab,
    column_stride,
    largest,
    temperature,
    PRECISE: tl.constexpr,
    BLOCKS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Return the weight of each block of a chunk, relative to the chunk's largest logit, in float64.

    The logits are read again, from cache.
    """
    base = tl.where(largest > float("-inf"), largest, 0.0)
    temperature = tl.where(temperature == 0, 1.0, temperature)
    logit = read_logits(row_ptr, first + tl.arange(0, BLOCKS * BLOCK), vocab, column_stride)
    weight = tl.reshape(weigh(logit, base, temperature, PRECISE), [BLOCKS, BLOCK // FEW, FEW])
    return tl.sum(tl.sum(weight, axis=2).to(tl.float64), axis=1)


@triton.jit
def list_largest(
    logits_list_ptr,
    tokens_list_ptr,
    row,
    first,
    unit_max,
    bound,
    largest,
    least,
    UNITS: tl.constexpr,
    UNIT: tl.constexpr,
    SLOTS: tl.constexpr,
    SHIFT: tl.constexpr,
):
    """Write the logits of a chunk that reach a bound into its list, and return the bound, raised where they do not fit.

    ``row`` is a pointer to logits, their number and their stride. The numbers of the units that hold such a logit stand
    in the list of tokens until their logits have been read again.
    """
    slot = tl.arange(0, SLOTS)
    place = tl.arange(0, UNIT)[None, :]
    has_listed = ((unit_max >= tl.minimum(bound, largest)) & (unit_max >= least)).to(tl.int32)
    rank = tl.cumsum(has_listed, axis=0) - has_listed
    tl.store(tokens_list_ptr + rank, tl.arange(0, UNITS), mask=(has_listed == 1) & (rank < SLOTS))
    tl.debug_barrier()
    num_units = tl.sum(has_listed, axis=0)
    unit = tl.load(tokens_list_ptr + slot, mask=slot < num_units, other=0)
    tl.debug_barrier()

    token = tl.reshape(first + unit[:, None] * UNIT + place, [SLOTS * UNIT])
    is_unit = tl.reshape((slot < num_units)[:, None] & (place >= 0), [SLOTS * UNIT])
    logit = read_logits(row[0], tl.where(is_unit, token, -1), row[1], row[2])
    if tl.sum((logit >= bound).to(tl.int32), axis=0) > SLOTS:
        bound = lowest_of_few(logit, bound, largest, SLOTS, SHIFT)
    is_listed = ((logit >= tl.minimum(bound, largest)) & (logit >= least)).to(tl.int32)
    # Ranks of listed logits come before the free slots, so that no two threads write one place: no barrier is needed.
    rank = tl.cumsum(is_listed, axis=0) - is_listed
    is_kept = (is_listed == 1) & (rank < SLOTS)
    tl.store(logits_list_ptr + rank, logit, mask=is_kept)
    tl.store(tokens_list_ptr + rank, token, mask=is_kept)
    is_free = slot >= tl.sum(is_listed, axis=0)
    tl.store(logits_list_ptr + slot, float("-inf"), mask=is_free)
    tl.store(tokens_list_ptr + slot, row[1], mask=is_free)
    return bound


@triton.jit(do_not_specialize=["num_nodes", "level"])
def _row_statistics_kernel(
    logits_ptr,
    current_ptr,
    filter_ptrs,
    statistic_ptrs,
    num_nodes,
    level,
    vocab,
    row_stride,
    column_stride,
    UNITS: tl.constexpr,
    UNIT: tl.constexpr,
    SLOTS: tl.constexpr,
    SHIFT: tl.constexpr,
    PRECISE: tl.constexpr,
    BLOCK: tl.constexpr,
    ROUNDS: tl.constexpr,
):
    """Read one chunk of a row; what its list may hold is read again, from cache.

    The row is that of the node which a request's walk has reached at a level, or, where ``level`` is negative, each in
    its turn.

    Every logit of the chunk that reaches the bound is listed. Where the largest logit alone occurs too often, the bound
    lies above it, and the first of its tokens are listed. A bound of -inf says that the list holds the whole chunk, one
    of inf that there is no list, for the row is neither filtered nor greedy. The weights of its blocks are left out
    where top-k makes them meaningless. No program has narrowed a row down yet in any of ROUNDS rounds.
    """
    follow_previous()
    chunk_max_ptr, block_mass_ptr, chunk_bound_ptr = statistic_ptrs[0], statistic_ptrs[1], statistic_ptrs[2]
    listed_logits_ptr, listed_tokens_ptr = statistic_ptrs[3], statistic_ptrs[4]
    place = tl.program_id(0).to(tl.int64)
    chunk = tl.program_id(1)
    nodes = tl.maximum(num_nodes, 1)
    request = tl.where(level < 0, place // nodes, place)
    node = tl.where(level < 0, place % nodes, tl.load(current_ptr + place, mask=level > 0, other=0))
    if node >= 0:
        row_ptr = logits_ptr + (request * num_nodes + node) * row_stride
        first = chunk * (UNITS * UNIT)
        token = first + tl.arange(0, UNITS)[:, None] * UNIT + tl.arange(0, UNIT)[None, :]
        logit = read_logits(row_ptr, token, vocab, column_stride)
        temperature = tl.load(filter_ptrs[0] + request)
        top_k = tl.where(temperature == 0, 1, tl.load(filter_ptrs[1] + request))
        top_p, min_p = tl.load(filter_ptrs[2] + request), tl.load(filter_ptrs[3] + request)
        is_listed = has_lists(temperature == 0, top_k, top_p, min_p, vocab)
        share = place * tl.num_programs(1) + chunk
        unit_max = tl.max(logit, axis=1)
        part_max = tl.max(tl.reshape(unit_max, [UNITS // PARTS, PARTS]), axis=0)
        largest = tl.max(part_max, axis=0)
        bound = tl.full([], float("inf"), dtype=tl.float32)
        if is_listed:
            wanted = tl.minimum(tl.minimum(top_k, SLOTS) + SPARE, SLOTS // 2)
            least = value_of(order_of(tl.full([], float("-inf"), dtype=tl.float32), SHIFT) + 1, SHIFT)
            bound = least
            if tl.sum((unit_max >= least).to(tl.int32), axis=0) > SLOTS:
                bound = tl.maximum(bound_of_parts(part_max, largest, wanted, SHIFT), least)
                if tl.sum((unit_max >= bound).to(tl.int32), axis=0) > SLOTS:
                    bound = lowest_of_few(unit_max, bound, largest, SLOTS, SHIFT)
            bound = list_largest(
                listed_logits_ptr + share * SLOTS,
                listed_tokens_ptr + share * SLOTS,
                (row_ptr, vocab, column_stride),
                first,
                unit_max,
                bound,
                largest,
                least,
                UNITS,
                UNIT,
                SLOTS,
                SHIFT,
            )
            bound = tl.where(bound > least, bound, float("-inf"))
        tl.store(chunk_max_ptr + share, largest)
        if PRECISE | (top_k >= vocab):
            blocks: tl.constexpr = UNITS * UNIT // BLOCK
            mass = weight_of_blocks(row_ptr, first, vocab, column_stride, largest, temperature, PRECISE, blocks, BLOCK)
            tl.store(block_mass_ptr + share * blocks + tl.arange(0, blocks), mass)
        tl.store(chunk_bound_ptr + share, bound)
        if ROUNDS > 0:
            turn = tl.arange(0, MOST_ROUNDS)
            tl.store(statistic_ptrs[7] + place * ROUNDS + turn, 0, mask=turn < tl.where(chunk == 0, ROUNDS, 0))
