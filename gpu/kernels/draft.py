"""Top-k selection, beam expansion and pruning.

A candidate is compared as one 64-bit key: the score's bits in ascending order above, the complemented index below, so
that equal scores order by lower index and no two keys are equal.
"""

import triton
import triton.language as tl

from specsim.gpu.kernels.device.succession import follow_previous

NO_KEY = tl.constexpr(-(2**63))
NO_ORDER = tl.constexpr(-(2**31))
LARGEST_INDEX = tl.constexpr(0xFFFFFFFF)


@triton.jit
def order_of(scores):
    """Return integers in the order of scores: NaN as -inf, and -0.0 as 0.0."""
    scores = tl.where(scores == scores, scores, float("-inf"))
    bits = tl.where(scores == 0.0, 0, scores.to(tl.int32, bitcast=True))
    return bits ^ ((bits >> 31) & 0x7FFFFFFF)


@triton.jit
def join_index(order, index):
    """Return the key of an entry, or of the first of several that have the largest order among them."""
    return (order.to(tl.int64) << 32) | (LARGEST_INDEX - index.to(tl.int64))


@triton.jit
def pack_keys(scores, index):
    """Order NaN like -inf and -0.0 like 0.0."""
    return join_index(order_of(scores), index)


@triton.jit
def unpack_index(keys):
    """Return the index of each key."""
    return LARGEST_INDEX - (keys & LARGEST_INDEX)


@triton.jit
def top_keys(keys, COUNT: tl.constexpr, WIDTH: tl.constexpr, ONE_BY_ONE: tl.constexpr):
    """Return the COUNT largest keys in descending order, in a tile of WIDTH, a power of two; NO_KEY past COUNT."""
    place = tl.arange(0, WIDTH)
    if ONE_BY_ONE:
        best = tl.full([WIDTH], NO_KEY, dtype=tl.int64)
        for taken in range(COUNT):
            largest = tl.max(keys, axis=0)
            best = tl.where(place == taken, largest, best)
            keys = tl.where(keys == largest, NO_KEY, keys)
    else:
        best = tl.where(place < COUNT, tl.topk(keys, WIDTH), NO_KEY)
    return best


@triton.jit
def best_groups(row, start, SIZE: tl.constexpr, COUNT: tl.constexpr, WIDTH: tl.constexpr, ONE_BY_ONE: tl.constexpr):
    """Return where the COUNT groups of SIZE columns start that hold the COUNT largest entries, in a tile of WIDTH.

    Each group that is left out has COUNT others whose largest entry comes before all of its own. ``row`` is where its
    values lie, its length and its stride; past COUNT stands its length.
    """
    values_ptr, num_columns, column_stride = row
    column = start[:, None] + tl.arange(0, SIZE)[None, :]
    inside = column < num_columns
    values = tl.load(values_ptr + column * column_stride, mask=inside, other=0.0)
    order = tl.max(tl.where(inside, order_of(values), NO_ORDER), axis=1)
    best = top_keys(join_index(order, start), COUNT, WIDTH, ONE_BY_ONE)
    return tl.where(best == NO_KEY, num_columns, unpack_index(best))


@triton.jit
def columns_of(start, SIZE: tl.constexpr, STEP: tl.constexpr):
    """Return every STEP-th column of groups of SIZE columns, one after another."""
    return tl.reshape(start[:, None] + (tl.arange(0, SIZE // STEP) * STEP)[None, :], [start.shape[0] * SIZE // STEP])


@triton.jit
def _fast_topk_kernel(
    values_ptr,
    keys_ptr,
    kept_keys_ptr,
    topk_values_ptr,
    topk_index_ptr,
    num_columns,
    row_stride,
    column_stride,
    K: tl.constexpr,
    WIDTH: tl.constexpr,
    BLOCK: tl.constexpr,
    FROM_KEYS: tl.constexpr,
    IS_LAST: tl.constexpr,
    GROUP: tl.constexpr,
    PART: tl.constexpr,
    ONE_BY_ONE: tl.constexpr,
):
    """Reduce one block of a row to its K largest keys; the last pass has one block and writes values and columns.

    Where GROUP exceeds 1, the best groups of so many columns are chosen first, then the best parts of these.
    """
    follow_previous()
    row = tl.program_id(0).to(tl.int64)
    block = tl.program_id(1)
    first = block.to(tl.int64) * BLOCK
    column = first + tl.arange(0, BLOCK)
    if GROUP > 1:
        source = (values_ptr + row * row_stride, num_columns, column_stride)
        start = best_groups(source, first + tl.arange(0, BLOCK // GROUP) * GROUP, GROUP, K, WIDTH, ONE_BY_ONE)
        if PART < GROUP:
            start = best_groups(source, columns_of(start, GROUP, PART), PART, K, WIDTH, ONE_BY_ONE)
        column = columns_of(start, PART, 1)
    inside = column < num_columns
    if FROM_KEYS:
        keys = tl.load(keys_ptr + row * num_columns + column, mask=inside, other=NO_KEY)
    else:
        values = tl.load(values_ptr + row * row_stride + column * column_stride, mask=inside, other=0.0)
        keys = tl.where(inside, pack_keys(values, column), NO_KEY)
    best = top_keys(keys, K, WIDTH, ONE_BY_ONE)
    place = tl.arange(0, WIDTH)
    if IS_LAST:
        index = unpack_index(best)
        kept = place < K
        values = tl.load(values_ptr + row * row_stride + index * column_stride, mask=kept, other=0.0)
        tl.store(topk_values_ptr + row * K + place, values, mask=kept)
        tl.store(topk_index_ptr + row * K + place, index, mask=kept)
    else:
        tl.store(kept_keys_ptr + (row * tl.num_programs(1) + block) * WIDTH + place, best)


@triton.jit
def carry_hidden(
    hidden_states_ptr,
    next_hidden_states_ptr,
    request,
    chosen,
    share,
    hidden_size,
    hidden_strides,
    BRANCH: tl.constexpr,
    TOPK: tl.constexpr,
    WIDTH: tl.constexpr,
    HIDDEN_BLOCK: tl.constexpr,
):
    """Copy a share of the hidden columns of the branches that chosen candidates are on."""
    place = tl.arange(0, WIDTH)
    column = share.to(tl.int64) * HIDDEN_BLOCK + tl.arange(0, HIDDEN_BLOCK)
    inside = (place < TOPK)[:, None] & (column < hidden_size)[None, :]
    source = (request * BRANCH + chosen // TOPK)[:, None] * hidden_strides[0] + column[None, :] * hidden_strides[1]
    hidden = tl.load(hidden_states_ptr + source, mask=inside)
    target = (request * TOPK + place)[:, None] * hidden_size + column[None, :]
    tl.store(next_hidden_states_ptr + target, hidden, mask=inside)


@triton.jit
def _select_top_k_tokens_kernel(
    topk_p_ptr,
    topk_index_ptr,
    hidden_states_ptr,
    scores_ptr,
    input_ids_ptr,
    next_hidden_states_ptr,
    next_scores_ptr,
    score_block_ptr,
    token_block_ptr,
    parent_block_ptr,
    step_index,
    hidden_size,
    hidden_strides,
    TOPK: tl.constexpr,
    WIDTH: tl.constexpr,
    BLOCK: tl.constexpr,
    HIDDEN_BLOCK: tl.constexpr,
    IS_FIRST: tl.constexpr,
    HAS_HIDDEN: tl.constexpr,
    ONE_BY_ONE: tl.constexpr,
):
    """Choose one request's beams; every program of a request chooses again and copies its share of hidden columns."""
    follow_previous()
    request = tl.program_id(0).to(tl.int64)
    share = tl.program_id(1)
    BRANCH: tl.constexpr = 1 if IS_FIRST else TOPK
    candidate = tl.arange(0, BLOCK)
    is_candidate = candidate < BRANCH * TOPK
    first = request * BRANCH * TOPK
    score = tl.load(topk_p_ptr + first + candidate, mask=is_candidate, other=0.0)
    if not IS_FIRST:
        score = tl.load(scores_ptr + request * TOPK + candidate // TOPK, mask=is_candidate, other=0.0) * score

    place = tl.arange(0, WIDTH)
    is_beam = place < TOPK
    if IS_FIRST:
        chosen = place.to(tl.int64)
    else:
        keys = tl.where(is_candidate, pack_keys(score, candidate), NO_KEY)
        chosen = unpack_index(top_keys(keys, TOPK, WIDTH, ONE_BY_ONE))

    # What a request has once, its first program writes, and only later launches read it.
    if share == 0:
        token = tl.load(topk_index_ptr + first + candidate, mask=is_candidate, other=0)
        tl.store(score_block_ptr + first + candidate, score, mask=is_candidate)
        tl.store(token_block_ptr + first + candidate, token, mask=is_candidate)
        chosen_score = tl.load(topk_p_ptr + first + chosen, mask=is_beam, other=0.0)
        if IS_FIRST:
            parent = parent_block_ptr + request * (TOPK + 1)
            tl.store(parent + place + 1, chosen, mask=is_beam)
            tl.store(parent + place, -1, mask=place == 0)
        else:
            chosen_score = tl.load(scores_ptr + request * TOPK + chosen // TOPK, mask=is_beam, other=0.0) * chosen_score
            first_id = TOPK + TOPK * TOPK * (step_index - 1)
            tl.store(parent_block_ptr + request * TOPK + place, first_id + chosen, mask=is_beam)
        chosen_token = tl.load(topk_index_ptr + first + chosen, mask=is_beam, other=0)
        tl.store(next_scores_ptr + request * TOPK + place, chosen_score, mask=is_beam)
        tl.store(input_ids_ptr + request * TOPK + place, chosen_token, mask=is_beam)

    if HAS_HIDDEN:
        carry_hidden(
            hidden_states_ptr,
            next_hidden_states_ptr,
            request,
            chosen,
            share,
            hidden_size,
            hidden_strides,
            BRANCH,
            TOPK,
            WIDTH,
            HIDDEN_BLOCK,
        )


@triton.jit
def keep_best(
    score_list_ptrs,
    token_list_ptrs,
    parents_list_ptrs,
    parent_list_ptr,
    top_scores_index_ptr,
    draft_tokens_ptr,
    request,
    NUM_STEPS: tl.constexpr,
    TOPK: tl.constexpr,
    NUM_KEPT: tl.constexpr,
    WIDTH: tl.constexpr,
    BLOCK: tl.constexpr,
    PARENT_BLOCK: tl.constexpr,
    ONE_BY_ONE: tl.constexpr,
):
    """Prune one request: find the smallest kept key, keep what is not below it, in flat-id order by a prefix sum."""
    candidate = tl.arange(0, BLOCK)
    score = tl.zeros([BLOCK], dtype=tl.float32)
    token = tl.zeros([BLOCK], dtype=tl.int64)
    for step in tl.static_range(NUM_STEPS):
        first = 0 if step == 0 else TOPK + (step - 1) * TOPK * TOPK
        count = TOPK if step == 0 else TOPK * TOPK
        inside = (candidate >= first) & (candidate < first + count)
        offset = request * count + candidate - first
        score = tl.where(inside, tl.load(score_list_ptrs[step] + offset, mask=inside, other=0.0), score)
        token = tl.where(inside, tl.load(token_list_ptrs[step] + offset, mask=inside, other=0), token)
    keys = tl.where(candidate < TOPK + (NUM_STEPS - 1) * TOPK * TOPK, pack_keys(score, candidate), NO_KEY)
    best = top_keys(keys, NUM_KEPT, WIDTH, ONE_BY_ONE)
    smallest = tl.min(tl.where(tl.arange(0, WIDTH) < NUM_KEPT, best, -NO_KEY - 1), axis=0)
    kept = keys >= smallest
    place = request * NUM_KEPT + tl.cumsum(kept.to(tl.int32), axis=0) - 1
    tl.store(top_scores_index_ptr + place, candidate.to(tl.int64), mask=kept)
    tl.store(draft_tokens_ptr + place, token, mask=kept)

    column = tl.arange(0, PARENT_BLOCK)
    for step in tl.static_range(NUM_STEPS - 1):
        count = TOPK + 1 if step == 0 else TOPK
        start = 0 if step == 0 else 1 + step * TOPK
        parent = tl.load(parents_list_ptrs[step] + request * count + column, mask=column < count)
        target = request * (TOPK * (NUM_STEPS - 1) + 1) + start + column
        tl.store(parent_list_ptr + target, parent, mask=column < count)


@triton.jit
def _organize_draft_results_kernel(
    score_list_ptrs,
    token_list_ptrs,
    parents_list_ptrs,
    parent_list_ptr,
    top_scores_index_ptr,
    draft_tokens_ptr,
    NUM_STEPS: tl.constexpr,
    TOPK: tl.constexpr,
    NUM_KEPT: tl.constexpr,
    WIDTH: tl.constexpr,
    BLOCK: tl.constexpr,
    PARENT_BLOCK: tl.constexpr,
    ONE_BY_ONE: tl.constexpr,
):
    """Prune one request."""
    follow_previous()
    keep_best(
        score_list_ptrs,
        token_list_ptrs,
        parents_list_ptrs,
        parent_list_ptr,
        top_scores_index_ptr,
        draft_tokens_ptr,
        tl.program_id(0).to(tl.int64),
        NUM_STEPS,
        TOPK,
        NUM_KEPT,
        WIDTH,
        BLOCK,
        PARENT_BLOCK,
        ONE_BY_ONE,
    )


@triton.jit
def _organize_chain_draft_results_kernel(
    token_list_ptrs,
    parent_list_ptr,
    top_scores_index_ptr,
    draft_tokens_ptr,
    num_requests,
    NUM_STEPS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Copy a block of requests, one step after another."""
    follow_previous()
    request = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = request < num_requests
    for step in tl.static_range(NUM_STEPS):
        target = request * NUM_STEPS + step
        token = tl.load(token_list_ptrs[step] + request, mask=inside)
        tl.store(draft_tokens_ptr + target, token, mask=inside)
        tl.store(top_scores_index_ptr + target, step, mask=inside)
        if NUM_STEPS > 1:
            tl.store(parent_list_ptr + target, step - 1, mask=inside)


@triton.jit
def _map_hot_tokens_kernel(
    topk_index_ptr,
    hot_token_id_ptr,
    token_index_ptr,
    num_entries,
    num_columns,
    draft_vocab,
    row_stride,
    column_stride,
    BLOCK: tl.constexpr,
):
    """Gather a block of entries; an id outside the draft vocabulary reads nothing and maps to 0."""
    follow_previous()
    entry = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = entry < num_entries
    source = entry // num_columns * row_stride + entry % num_columns * column_stride
    draft_id = tl.load(topk_index_ptr + source, mask=inside, other=0)
    in_vocab = inside & (draft_id >= 0) & (draft_id < draft_vocab)
    token = tl.load(hot_token_id_ptr + draft_id, mask=in_vocab, other=0)
    tl.store(token_index_ptr + entry, token, mask=inside)
