"""What one chunk of a row tells about it: largest logit, weight, and the list of its largest logits in token order."""

import triton
import triton.language as tl

from specsim.gpu.kernels.thresholds import order_of, read_logits, search, value_of, weigh

SPARE = tl.constexpr(14)
NUM_PARTS = tl.constexpr(256)


@triton.jit
def count_from(logit, bound):
    """Return how many logits of a tile reach a bound."""
    return tl.sum(tl.sum((logit >= bound).to(tl.int32), axis=1), axis=0)


@triton.jit
def lower_bound(logit, group_max, largest, wanted, SLOTS: tl.constexpr, SHIFT: tl.constexpr):
    """Choose a bound that about ``wanted`` logits of a chunk reach, and at most SLOTS; -inf if the whole chunk fits.

    The chunk is cut into parts: if ``wanted`` of their largest logits reach a bound, as many logits do, and few more.
    """
    part_max = tl.max(tl.reshape(group_max, [group_max.shape[0] // NUM_PARTS, NUM_PARTS]), axis=0)
    lowest = tl.min(part_max, axis=0)
    low = order_of(lowest, SHIFT)
    high = order_of(largest, SHIFT) + 1
    has_few = False
    if lowest == float("-inf"):
        num_parts = tl.sum((part_max > float("-inf")).to(tl.int32), axis=0)
        wanted = tl.minimum(wanted, (num_parts + 1) // 2)
        has_few = count_from(logit, value_of(low + 1, SHIFT)) <= SLOTS
    bound = lowest
    if not has_few:
        enough = wanted + wanted // 4
        low = search((part_max, part_max), None, low, high, wanted, 0.0, enough, False, False, False, SHIFT, 16, 1)
        bound = value_of(low, SHIFT)
        if count_from(logit, bound) > SLOTS:
            while high - low > 1:
                middle = low + (high - low) // 2
                is_over = count_from(logit, value_of(middle, SHIFT)) > SLOTS
                low = tl.where(is_over, middle, low)
                high = tl.where(is_over, high, middle)
            bound = value_of(high, SHIFT)
    return bound


@triton.jit(do_not_specialize=["num_nodes", "level"])
def _row_statistics_kernel(
    logits_ptr,
    current_ptr,
    temperature_ptr,
    top_k_ptr,
    chunk_max_ptr,
    chunk_mass_ptr,
    chunk_bound_ptr,
    listed_logits_ptr,
    listed_tokens_ptr,
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
):
    """Read one chunk of the row that a request's walk has reached; what its list may hold is read again, from cache.

    Every logit of the chunk that reaches the bound is listed. Where the largest logit alone occurs too often, the bound
    lies above it, and the first of its tokens are listed.
    """
    request = tl.program_id(0).to(tl.int64)
    chunk = tl.program_id(1)
    node = tl.where(level == 0, 0, tl.load(current_ptr + request))
    if node >= 0:
        row_ptr = logits_ptr + (request * num_nodes + node) * row_stride
        first = chunk * (UNITS * UNIT)
        place = tl.arange(0, UNIT)[None, :]
        logit = read_logits(row_ptr, first + tl.arange(0, UNITS)[:, None] * UNIT + place, vocab, column_stride)
        temperature = tl.load(temperature_ptr + request)
        top_k = tl.where(temperature == 0, 1, tl.load(top_k_ptr + request))
        wanted = tl.minimum(tl.minimum(top_k, SLOTS) + SPARE, SLOTS // 2)
        group_max = tl.max(logit, axis=1)
        largest = tl.max(group_max, axis=0)
        bound = lower_bound(logit, group_max, largest, wanted, SLOTS, SHIFT)
        base = tl.where(largest > float("-inf"), largest, 0.0)
        weight = weigh(logit, base, tl.where(temperature == 0, 1.0, temperature), PRECISE)
        mass = tl.sum(tl.sum(weight, axis=1), axis=0)

        share = request * tl.num_programs(1) + chunk
        share_logits_ptr = listed_logits_ptr + share * SLOTS
        share_tokens_ptr = listed_tokens_ptr + share * SLOTS
        listed_from = tl.minimum(bound, largest)
        has_listed = ((group_max >= listed_from) & (group_max > float("-inf"))).to(tl.int32)
        rank = tl.cumsum(has_listed, axis=0) - has_listed
        tl.store(share_tokens_ptr + rank, tl.arange(0, UNITS), mask=(has_listed == 1) & (rank < SLOTS))
        tl.debug_barrier()
        slot = tl.arange(0, SLOTS)
        num_groups = tl.sum(has_listed, axis=0)
        group = tl.load(share_tokens_ptr + slot, mask=slot < num_groups, other=0)
        tl.debug_barrier()

        token = tl.reshape(first + group[:, None] * UNIT + place, [SLOTS * UNIT])
        is_group = tl.reshape((slot < num_groups)[:, None] & (place >= 0), [SLOTS * UNIT])
        logit = read_logits(row_ptr, tl.where(is_group, token, -1), vocab, column_stride)
        is_listed = ((logit >= listed_from) & (logit > float("-inf"))).to(tl.int32)
        rank = tl.cumsum(is_listed, axis=0) - is_listed
        is_kept = (is_listed == 1) & (rank < SLOTS)
        tl.store(share_logits_ptr + rank, logit, mask=is_kept)
        tl.store(share_tokens_ptr + rank, token, mask=is_kept)
        is_free = slot >= tl.sum(is_listed, axis=0)
        tl.store(share_logits_ptr + slot, float("-inf"), mask=is_free)
        tl.store(share_tokens_ptr + slot, vocab, mask=is_free)
        tl.store(chunk_max_ptr + share, largest)
        tl.store(chunk_mass_ptr + share, mass.to(tl.float64))
        tl.store(chunk_bound_ptr + share, bound)
