"""Kernels of ``tree_attention``: the keys of a request in tiles, split over programs, and the parts joined.

Exponents are to base 2. A row of a program is one query head of one node; rows of one KV head share its keys.
"""

import triton
import triton.language as tl

from specsim.gpu.kernels.device.succession import follow_previous
from specsim.gpu.kernels.from_logits.thresholds import LOG2_E

LOG_2 = tl.constexpr(0.6931471805599453)


@triton.jit
def multiply(left, right, total, WIDE: tl.constexpr):
    """Add a product of matrices to a total in float32; the interpreter multiplies wide numbers alone."""
    if WIDE:
        left = left.to(tl.float32)
        right = right.to(tl.float32)
    return tl.dot(left, right, total, input_precision="ieee")


@triton.jit
def rounded(number, DTYPE: tl.constexpr, WIDE: tl.constexpr):
    """Round float32 numbers to the nearest of a type; the interpreter cuts what bfloat16 has no digits for."""
    if WIDE and tl.bfloat16 == DTYPE:
        bits = number.to(tl.int32, bitcast=True)
        bits += 0x7FFF + ((bits >> 16) & 1)
        number = (bits & -0x10000).to(tl.float32, bitcast=True)
    return number.to(DTYPE)


@triton.jit
def add_part(largest, mass, exponent):
    """Return the largest exponent with a part that has others, what to subtract, and the decay of what was added up."""
    top = tl.maximum(largest, exponent)
    # NOTE: where nothing is seen yet, -inf is subtracted from nothing.
    shift = tl.where(top == float("-inf"), 0.0, top)
    decay = tl.math.exp2(largest - shift)
    return top, shift, decay, mass * decay


@triton.jit
def attend(
    state,
    query,
    buffer_ptrs,
    slots,
    sees,
    factor,
    strides,
    HEAD_DIM: tl.constexpr,
    COLUMNS: tl.constexpr,
    WIDE: tl.constexpr,
):
    """Take one tile of keys into the largest exponent, the mass and the weighted sum of values of each row."""
    largest, mass, total = state
    slot, is_key = slots
    k_slot_stride, k_stride, v_slot_stride, v_stride = strides
    column = tl.arange(0, COLUMNS)
    across, along = is_key[None, :], is_key[:, None]
    if HEAD_DIM != COLUMNS:
        across = across & (column < HEAD_DIM)[:, None]
        along = along & (column < HEAD_DIM)[None, :]
    key = tl.load(buffer_ptrs[0] + slot[None, :] * k_slot_stride + column[:, None] * k_stride, mask=across, other=0.0)
    value = tl.load(buffer_ptrs[1] + slot[:, None] * v_slot_stride + column[None, :] * v_stride, mask=along, other=0.0)
    score = multiply(query, key, tl.zeros([query.shape[0], key.shape[1]], tl.float32), WIDE) * factor
    score = tl.where(sees, score, float("-inf"))
    top, shift, decay, mass = add_part(largest, mass, tl.max(score, 1))
    weight = tl.math.exp2(score - shift[:, None])
    total = multiply(rounded(weight, value.dtype, WIDE), value, total * decay[:, None], WIDE)
    return top, mass + tl.sum(weight, 1), total


@triton.jit
def slots_at(pages_ptr, position, last, num_slots, page_stride, PAGE_SIZE: tl.constexpr):
    """Return the slots of positions below an end, and which of them are slots of the pool."""
    is_key = position < last
    page = tl.load(pages_ptr + position // PAGE_SIZE * page_stride, mask=is_key, other=0).to(tl.int64)
    slot = page * PAGE_SIZE + position % PAGE_SIZE
    return slot, is_key & (slot >= 0) & (slot < num_slots)


@triton.jit
def _tree_attention_kernel(
    q_ptr,
    k_buffer_ptr,
    v_buffer_ptr,
    cache_seqlens_ptr,
    page_table_ptr,
    tree_mask_ptr,
    softmax_scale_ptr,
    attention_ptr,
    log_sum_exp_ptr,
    part_ptrs,
    num_nodes,
    pool_sizes,
    strides,
    GROUP: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    PAGE_SIZE: tl.constexpr,
    WIDE: tl.constexpr,
    ROWS: tl.constexpr,
    KEYS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    """Attend from a block of rows of one KV head to one share of the keys of their request.

    Programs of one share that differ in KV head or block run side by side: they read the same part of the pool.
    """
    follow_previous()
    num_heads, num_slots, num_pages = pool_sizes
    q_token_stride, q_head_stride, q_stride, k_slot_stride, k_head_stride, k_stride = strides[:6]
    v_slot_stride, v_head_stride, v_stride, table_stride, page_stride, mask_stride = strides[6:]
    request = tl.program_id(2).to(tl.int64)
    num_blocks = tl.cdiv(num_nodes * GROUP, ROWS)
    kv_head = tl.program_id(0) // num_blocks
    row = tl.program_id(0) % num_blocks * ROWS + tl.arange(0, ROWS)
    node = row // GROUP
    is_row = node < num_nodes
    token, head = request * num_nodes + node, kv_head * GROUP + row % GROUP
    column = tl.arange(0, COLUMNS)
    is_entry = is_row[:, None] & (column < HEAD_DIM)[None, :]
    place = token * q_token_stride + head * q_head_stride
    query = tl.load(q_ptr + place[:, None] + column[None, :] * q_stride, mask=is_entry, other=0.0)
    if softmax_scale_ptr is None:
        factor = LOG2_E / tl.sqrt(tl.full([], HEAD_DIM, tl.float32))
    else:
        factor = LOG2_E * tl.load(softmax_scale_ptr)
    pool_head = kv_head.to(tl.int64)
    buffer_ptrs = k_buffer_ptr + pool_head * k_head_stride, v_buffer_ptr + pool_head * v_head_stride
    tile_strides = k_slot_stride, k_stride, v_slot_stride, v_stride
    pages_ptr = page_table_ptr + request * table_stride
    length = tl.minimum(tl.load(cache_seqlens_ptr + request), num_pages * PAGE_SIZE)
    prefix = tl.maximum(length - num_nodes, 0)
    share = tl.cdiv(tl.cdiv(length, KEYS), tl.num_programs(1)) * KEYS
    first = tl.program_id(1) * share
    last = tl.minimum(first + share, length)
    largest = tl.full([ROWS], float("-inf"), tl.float32)
    mass, total = tl.zeros([ROWS], tl.float32), tl.zeros([ROWS, COLUMNS], tl.float32)
    of_prefix = tl.minimum(last, prefix)
    for start in range(first, of_prefix, KEYS):
        position = start + tl.arange(0, KEYS)
        slots = slots_at(pages_ptr, position, of_prefix, num_slots, page_stride, PAGE_SIZE)
        largest, mass, total = attend(
            (largest, mass, total),
            query,
            buffer_ptrs,
            slots,
            (position < of_prefix)[None, :],
            factor,
            tile_strides,
            HEAD_DIM,
            COLUMNS,
            WIDE,
        )
    for start in range(tl.maximum(first, prefix), last, KEYS):
        position = start + tl.arange(0, KEYS)
        slots = slots_at(pages_ptr, position, last, num_slots, page_stride, PAGE_SIZE)
        other = token[:, None] * num_nodes + (position - prefix)[None, :]
        is_other = is_row[:, None] & (position < last)[None, :]
        sees = tl.load(tree_mask_ptr + other * mask_stride, mask=is_other, other=0) != 0
        largest, mass, total = attend(
            (largest, mass, total), query, buffer_ptrs, slots, sees, factor, tile_strides, HEAD_DIM, COLUMNS, WIDE
        )
    sees_any = mass > 0
    mass = tl.where(sees_any, mass, 1.0)
    total = total / mass[:, None]
    exponent = tl.where(sees_any, largest + tl.math.log2(mass), float("-inf"))
    out = token * num_heads + head
    if part_ptrs is None:
        is_out = is_row[:, None] & (column < HEAD_DIM)[None, :]
        number = rounded(total, attention_ptr.dtype.element_ty, WIDE)
        tl.store(attention_ptr + out[:, None] * HEAD_DIM + column[None, :], number, mask=is_out)
        tl.store(log_sum_exp_ptr + out, exponent * LOG_2, mask=is_row)
    else:
        num_rows = tl.num_programs(2).to(tl.int64) * num_nodes * num_heads
        out += tl.program_id(1) * num_rows
        tl.store(part_ptrs[0] + out[:, None] * COLUMNS + column[None, :], total, mask=is_row[:, None])
        tl.store(part_ptrs[1] + out, exponent, mask=is_row)


@triton.jit
def _join_parts_kernel(
    part_ptrs,
    attention_ptr,
    log_sum_exp_ptr,
    num_splits,
    num_rows,
    HEAD_DIM: tl.constexpr,
    WIDE: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    """Join the parts of a block of rows, each weighted by the sum of its weights, always in the same order."""
    follow_previous()
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    column = tl.arange(0, COLUMNS)
    is_row = row < num_rows
    largest = tl.full([ROWS], float("-inf"), tl.float32)
    mass, total = tl.zeros([ROWS], tl.float32), tl.zeros([ROWS, COLUMNS], tl.float32)
    for split in range(num_splits):
        place = tl.cast(split, tl.int64) * num_rows + row
        exponent = tl.load(part_ptrs[1] + place, mask=is_row, other=float("-inf"))
        part = tl.load(part_ptrs[0] + place[:, None] * COLUMNS + column[None, :], mask=is_row[:, None], other=0.0)
        largest, shift, decay, mass = add_part(largest, mass, exponent)
        weight = tl.math.exp2(exponent - shift)
        mass += weight
        total = total * decay[:, None] + part * weight[:, None]
    sees_any = mass > 0
    mass = tl.where(sees_any, mass, 1.0)
    number = rounded(total / mass[:, None], attention_ptr.dtype.element_ty, WIDE)
    is_entry = is_row[:, None] & (column < HEAD_DIM)[None, :]
    tl.store(attention_ptr + row[:, None] * HEAD_DIM + column[None, :], number, mask=is_entry)
    exponent = tl.where(sees_any, largest + tl.math.log2(mass), float("-inf"))
    tl.store(log_sum_exp_ptr + row, exponent * LOG_2, mask=is_row)
