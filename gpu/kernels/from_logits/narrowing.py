"""The least weight that top-p keeps of rows whose lists do not suffice: several programs a row narrow it down.

A row is searched in rounds. Its programs add up, block by block, the weight that each of several bounds would keep, and
those of the next round choose two neighbouring bounds. Bounds are integers of ``order_of``; a bound keeps the logits
that weigh as much as its own value at least, so that logits of one weight stay together.

``walk_ptrs`` points to the current nodes and to the statistics of chunks; to STATE numbers for each row and round: the
highest bound known to be reached, the lowest known not to be, and where the weights with the first one stand, -1 for
nowhere; to the weights of each row, round, block and bound; and to how many programs of each row and round are done.
There are ROUNDS rounds, of 2**BITS bounds. ``row`` is as in ``thresholds``.
"""

import triton
import triton.language as tl

from specsim.gpu.kernels.from_logits.lists import load_chunks, load_listed, weigh_blocks
from specsim.gpu.kernels.from_logits.statistics import MOST_ROUNDS
from specsim.gpu.kernels.from_logits.thresholds import (
    lowest_of_top_p,
    mass_from,
    order_of,
    read_logits,
    value_of,
    weigh,
)

STATE = tl.constexpr(4)
"""Numbers of a round, one of them spare."""


@triton.jit
def bound_of(low, high, way, is_first, SHIFT: tl.constexpr, BITS: tl.constexpr):
    """Return one of the bounds of a round, from ``low`` for the first way to ``high`` for the one after the last.

    In the first round they are as far apart as logits: zero may lie between them, around which floating-point numbers
    are dense and logits are not. Later they are as far apart as integers.
    """
    least = value_of(low, SHIFT)
    by_value = order_of(least + (value_of(high, SHIFT) - least) * way / (1 << BITS), SHIFT)
    bound = tl.where(is_first, by_value, low + (high - low) * way // (1 << BITS))
    bound = tl.maximum(tl.minimum(bound, high - 1), low)
    return tl.where(way == 0, low, tl.where(way == 1 << BITS, high, bound))


@triton.jit
def bounds_after(
    walk_ptrs,
    place,
    goal,
    num_rounds,
    num_blocks,
    ROUNDS: tl.constexpr,
    BITS: tl.constexpr,
    BLOCKS: tl.constexpr,
    SHIFT: tl.constexpr,
):
    """Return the two bounds of a row after some rounds, where the weights with the lower one stand, and what is new.

    That is whether the last of these rounds has tried bounds.
    """
    last = place * ROUNDS + num_rounds - 1
    low = tl.load(walk_ptrs[6] + last * STATE, volatile=True).to(tl.int64)
    high = tl.load(walk_ptrs[6] + last * STATE + 1, volatile=True).to(tl.int64)
    source = tl.load(walk_ptrs[6] + last * STATE + 2, volatile=True)
    is_open = high - low > 1
    if is_open:
        way, block = tl.arange(0, 1 << BITS)[None, :], tl.arange(0, BLOCKS)[:, None]
        part_ptr = walk_ptrs[7] + ((last * num_blocks + block) << BITS) + way
        mass = tl.sum(tl.load(part_ptr, mask=block < num_blocks, other=0.0, volatile=True), axis=0)
        # NOTE: the lowest bound is reached, whatever rounding makes of it.
        num_reached = tl.maximum(tl.sum((mass >= goal).to(tl.int32), axis=0), 1)
        source = ((num_rounds - 1) << BITS) + num_reached - 1
        reached = bound_of(low, high, num_reached - 1, num_rounds == 1, SHIFT, BITS)
        high = bound_of(low, high, num_reached, num_rounds == 1, SHIFT, BITS)
        low = reached
    return low, high, source, is_open


@triton.jit
def wait_for_round(walk_ptrs, number, programs_per_row):
    """Wait until all programs of a row have done a round."""
    while tl.atomic_add(walk_ptrs[8] + number, 0, sem="acquire") < programs_per_row:
        pass


@triton.jit
def kept_of_narrowed(
    walk_ptrs,
    place,
    row,
    total,
    filters,
    shares,
    ROUNDS: tl.constexpr,
    BITS: tl.constexpr,
    BLOCKS: tl.constexpr,
    SHIFT: tl.constexpr,
):
    """Return the least logit that is kept of a narrowed row, the weight kept of each block, and whether that is known.

    Waits for the programs that narrow it down, of lower number. It is not known where the rounds have not sufficed, and
    where min-p keeps less.
    """
    goal = filters[1] * total
    num_blocks = shares[3]
    wait_for_round(walk_ptrs, place * ROUNDS + ROUNDS - 1, shares[1])
    low, high, source, _ = bounds_after(walk_ptrs, place, goal, ROUNDS, num_blocks, ROUNDS, BITS, BLOCKS, SHIFT)
    decisive = weigh(value_of(low, SHIFT), row[3], row[4], False)
    is_known = (source >= 0) & (high - low <= 1) & (decisive.to(tl.float64) >= filters[2])
    # The lowest of the numbers that have this weight in float32; mostly there is no other.
    middle = low - 1
    below = tl.minimum(order_of(tl.full([], float("-inf"), dtype=tl.float32), SHIFT), middle)
    while low - below > 1:
        has_weight = weigh(value_of(middle, SHIFT), row[3], row[4], False) >= decisive
        low = tl.where(has_weight, middle, low)
        below = tl.where(has_weight, below, middle)
        middle = below + (low - below) // 2
    block = tl.arange(0, BLOCKS)
    number = ((place * ROUNDS + (source >> BITS)) * num_blocks + block) << BITS
    mass_ptr = walk_ptrs[7] + number + (source & ((1 << BITS) - 1))
    block_mass = tl.load(mass_ptr, mask=block < tl.where(is_known, num_blocks, 0), other=0.0)
    return value_of(low, SHIFT), block_mass, is_known


@triton.jit
def join_halves(tiles, COUNT: tl.constexpr):
    """Join each tile of the first half of a tuple with one of the second half, on a last axis of its own."""
    joined = ()
    for number in tl.static_range(COUNT // 2):
        joined += (tl.join(tiles[number], tiles[number + COUNT // 2]),)
    return joined


@triton.jit
def mass_of_ways(weight, bounds, BITS: tl.constexpr):
    """Return the weight, in float64, of the entries of a tile that weigh as much as each of 2**BITS bounds."""
    # A thread adds up its own entries for every bound first; then all bounds go through the threads at once.
    masses = ()
    for way in tl.static_range(1 << BITS):
        masses += (tl.sum(tl.where(weight >= bounds[way], weight, 0.0), axis=1),)
    for bit in tl.static_range(BITS):
        masses = join_halves(masses, (1 << BITS) >> bit)
    return tl.sum(tl.reshape(masses[0], [weight.shape[0], 1 << BITS]), axis=0).to(tl.float64)


@triton.jit
def narrow_row(
    program,
    logits_ptr,
    filter_ptrs,
    walk_ptrs,
    num_nodes,
    level,
    holds_all,
    num_rows,
    shares,
    row_sizes,
    CHUNKS: tl.constexpr,
    SEARCH: tl.constexpr,
    SHIFT: tl.constexpr,
):
    """Try the bounds of one round on some blocks of a row; all rows of a round come before those of the next.

    The row is that of the node which a request's walk has reached at a level, or, with ``holds_all``, each in its turn.
    A program waits for the round before: for programs of lower number alone, which have started before it.
    A row has no more rounds once its bounds are neighbours, and none where its lists suffice.
    """
    _, programs_per_row, blocks_per_program, num_blocks = shares
    num_chunks, vocab, row_stride, column_stride = row_sizes
    BLOCK: tl.constexpr = SEARCH[3]
    RATIO: tl.constexpr = SEARCH[4]
    ROUNDS: tl.constexpr = SEARCH[5]
    BITS: tl.constexpr = SEARCH[6]
    UNIT: tl.constexpr = SEARCH[7]
    part = program % programs_per_row
    place = (program // programs_per_row % num_rows).to(tl.int64)
    turn = program // programs_per_row // num_rows
    request = tl.where(holds_all, place // num_nodes, place)
    # NOTE: a walk may have left this level meanwhile: one that does not wait for its row, and needs nothing of it.
    node = tl.load(walk_ptrs[0] + place, mask=(level > 0) & (holds_all == 0), other=0)
    node = tl.where(holds_all, place % num_nodes, node)
    temperature = tl.load(filter_ptrs[0] + request)
    top_k = tl.load(filter_ptrs[1] + request)
    top_p = tl.load(filter_ptrs[2] + request).to(tl.float64)
    if (node >= 0) & (temperature != 0) & (top_k >= vocab) & (top_p < 1):
        # NOTE: a block is read before it is needed, and the first one before the wait.
        row_ptr = logits_ptr + (request * num_nodes + node) * row_stride
        entry = tl.arange(0, BLOCK // UNIT)[:, None] * UNIT + tl.arange(0, UNIT)[None, :]
        first = part * blocks_per_program
        logit = read_logits(row_ptr, first * BLOCK + entry, vocab, column_stride)
        chunk_max, chunk_bound = load_chunks(walk_ptrs[1], walk_ptrs[3], place, num_chunks, CHUNKS)
        largest = tl.max(chunk_max, axis=0)
        largest = tl.where(largest > float("-inf"), largest, 0.0)
        row = (row_ptr, vocab, column_stride, largest, temperature)
        total = weigh_blocks(walk_ptrs[2], walk_ptrs[1], row, top_k, place, num_chunks, False, CHUNKS, RATIO)[1]
        goal = top_p * total
        if turn == 0:
            listed_logit = load_listed(walk_ptrs[4], walk_ptrs[5], place, num_chunks, vocab, True, SEARCH[0], CHUNKS)[0]
            known_from = tl.max(chunk_bound, axis=0)
            listed = (listed_logit, weigh(listed_logit, largest, temperature, False))
            high = tl.minimum(order_of(largest, SHIFT) + 1, order_of(known_from, SHIFT))
            low = lowest_of_top_p(row, total, top_p, tl.full([], float("-inf"), dtype=tl.float32), high, SHIFT)
            suffices = mass_from(listed, row, known_from, False, False, BLOCK) >= goal
            low = tl.where(suffices, high, low)
            source = tl.full([], -1, dtype=tl.int32)
            is_open = True
        else:
            wait_for_round(walk_ptrs, place * ROUNDS + turn - 1, programs_per_row)
            low, high, source, is_open = bounds_after(
                walk_ptrs, place, goal, turn, num_blocks, ROUNDS, BITS, CHUNKS * RATIO, SHIFT
            )
        if high - low > 1:
            bounds = ()
            for way in tl.static_range(1 << BITS):
                bound = value_of(bound_of(low, high, way, turn == 0, SHIFT, BITS), SHIFT)
                bounds += (weigh(bound, largest, temperature, False),)
            for block in range(first, tl.minimum(first + blocks_per_program, num_blocks)):
                weight = weigh(logit, largest, temperature, False)
                logit = read_logits(row_ptr, (block + 1) * BLOCK + entry, vocab, column_stride)
                number = ((place * ROUNDS + turn) * num_blocks + block) << BITS
                tl.store(walk_ptrs[7] + number + tl.arange(0, 1 << BITS), mass_of_ways(weight, bounds, BITS))
        if is_open:
            # What stands after this round stands after all rounds to come as well where bounds are neighbours.
            coming = tl.arange(0, MOST_ROUNDS)
            is_settled = (coming >= turn) & (coming < tl.where(high - low > 1, turn + 1, ROUNDS))
            number = place * ROUNDS + coming
            if part == 0:
                tl.store(walk_ptrs[6] + number * STATE, low.to(tl.int32), mask=is_settled)
                tl.store(walk_ptrs[6] + number * STATE + 1, high.to(tl.int32), mask=is_settled)
                tl.store(walk_ptrs[6] + number * STATE + 2, source, mask=is_settled)
            # All threads have stored before one of them says so.
            tl.debug_barrier()
            tl.atomic_add(walk_ptrs[8] + number, 1, mask=is_settled, sem="release")
