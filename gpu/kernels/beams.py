"""Kernels that workers launch in the place of several operations while they draft."""

import triton
import triton.language as tl

from specsim.gpu.kernels.device.succession import follow_previous
from specsim.gpu.kernels.draft import NO_KEY, carry_hidden, keep_best, pack_keys, top_keys, unpack_index
from specsim.gpu.kernels.draft_cache import beam_stride, list_beam_keys, list_copies, load_slots
from specsim.gpu.kernels.tree import write_tree


@triton.jit
def place_beams(
    req_pool_indices_ptr,
    req_to_token_ptr,
    seq_lens_ptr,
    positions_ptr,
    step_cache_loc_ptr,
    block,
    num_requests,
    rows,
    TOPK: tl.constexpr,
    NUM_STEPS: tl.constexpr,
    PAGE_SIZE: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Write positions and slots of a block of beams, step after step."""
    num_beams = num_requests.to(tl.int64) * TOPK
    entry = block.to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    live = entry < num_beams * NUM_STEPS
    step, number = entry // num_beams, entry % num_beams
    request, beam = number // TOPK, number % TOPK
    length = tl.load(seq_lens_ptr + request, mask=live, other=0).to(tl.int64)
    tl.store(positions_ptr + entry, length + step, mask=live)
    row = tl.load(req_pool_indices_ptr + request, mask=live, other=0)
    position = length + beam * beam_stride(length, NUM_STEPS, PAGE_SIZE) + step
    slot = load_slots(req_to_token_ptr, row, position, live, rows)
    tl.store(step_cache_loc_ptr + entry, slot.to(tl.int64), mask=live)


@triton.jit(do_not_specialize=["num_requests", "num_copies"])
def _lay_out_beams_kernel(
    req_pool_indices_ptr,
    req_to_token_ptr,
    seq_lens_ptr,
    beam_ptrs,
    copy_ptrs,
    key_ptrs,
    num_requests,
    num_copies,
    blocks,
    rows,
    TOPK: tl.constexpr,
    NUM_STEPS: tl.constexpr,
    PAGE_SIZE: tl.constexpr,
    OWN: tl.constexpr,
    EVERYONE: tl.constexpr,
    BEAMS: tl.constexpr,
    COPIES: tl.constexpr,
    REQUESTS: tl.constexpr,
    PAIRS: tl.constexpr,
    KEYS: tl.constexpr,
):
    """Place a block of beams; the programs after those list a block of copies, then keys.

    ``blocks`` are the programs of both, and over how many programs the keys of a group of pairs are split.
    """
    follow_previous()
    beam_blocks, copy_blocks, num_chunks = blocks
    program = tl.program_id(0)
    if program < beam_blocks:
        place_beams(
            req_pool_indices_ptr,
            req_to_token_ptr,
            seq_lens_ptr,
            beam_ptrs[0],
            beam_ptrs[1],
            program,
            num_requests,
            rows,
            TOPK,
            NUM_STEPS,
            PAGE_SIZE,
            BEAMS,
        )
    elif program < beam_blocks + copy_blocks:
        if PAGE_SIZE > 1:
            list_copies(
                req_pool_indices_ptr,
                req_to_token_ptr,
                seq_lens_ptr,
                copy_ptrs[0],
                copy_ptrs[1],
                program - beam_blocks,
                num_requests,
                num_copies,
                rows,
                TOPK,
                NUM_STEPS,
                PAGE_SIZE,
                COPIES,
                REQUESTS,
            )
    else:
        num_groups: tl.constexpr = (TOPK * NUM_STEPS + PAIRS - 1) // PAIRS
        share = program - beam_blocks - copy_blocks
        request = (share // (num_groups * num_chunks)).to(tl.int64)
        list_beam_keys(
            req_pool_indices_ptr,
            req_to_token_ptr,
            seq_lens_ptr,
            key_ptrs[0],
            key_ptrs[1],
            (request, share // num_chunks % num_groups, share % num_chunks, num_chunks),
            num_requests,
            rows,
            TOPK,
            NUM_STEPS,
            PAGE_SIZE,
            OWN,
            EVERYONE,
            PAIRS,
            KEYS,
        )


@triton.jit
def top_keys_of_rows(keys, COUNT: tl.constexpr, ROWS: tl.constexpr, WIDTH: tl.constexpr):
    """Return the COUNT largest keys of each row in descending order, NO_KEY past COUNT."""
    place = tl.arange(0, WIDTH)[None, :]
    best = tl.full([ROWS, WIDTH], NO_KEY, dtype=tl.int64)
    for taken in range(COUNT):
        largest = tl.max(keys, axis=1, keep_dims=True)
        best = tl.where(place == taken, largest, best)
        keys = tl.where(keys == largest, NO_KEY, keys)
    return best


@triton.jit
def _choose_beams_kernel(
    values_ptr,
    keys_ptr,
    hot_token_id_ptr,
    hidden_states_ptr,
    scores_ptr,
    input_ids_ptr,
    next_hidden_states_ptr,
    next_scores_ptr,
    block_ptrs,
    step_index,
    columns,
    value_strides,
    hidden_size,
    hidden_strides,
    TOPK: tl.constexpr,
    WIDTH: tl.constexpr,
    BLOCK: tl.constexpr,
    HIDDEN_BLOCK: tl.constexpr,
    IS_FIRST: tl.constexpr,
    ONE_BY_ONE: tl.constexpr,
):
    """Rank what the branches of one request propose and choose its beams.

    Every program of a request does so again and copies its share of hidden columns. ``columns`` are the entries or keys
    of a row, and the ids that the draft may propose.
    """
    follow_previous()
    score_block_ptr, token_block_ptr, parent_block_ptr = block_ptrs
    request = tl.program_id(0).to(tl.int64)
    share = tl.program_id(1)
    BRANCH: tl.constexpr = 1 if IS_FIRST else TOPK
    BRANCHES: tl.constexpr = 1 if IS_FIRST else WIDTH
    branch = tl.arange(0, BRANCHES)
    is_branch = branch < BRANCH
    row = request * BRANCH + branch
    column = tl.arange(0, BLOCK)
    inside = is_branch[:, None] & (column < columns[0])[None, :]
    value_row_ptr = values_ptr + row[:, None] * value_strides[0]
    if keys_ptr is not None:
        keys = tl.load(keys_ptr + row[:, None] * columns[0] + column[None, :], mask=inside, other=NO_KEY)
    else:
        values = tl.load(value_row_ptr + column[None, :] * value_strides[1], mask=inside, other=0.0)
        keys = tl.where(inside, pack_keys(values, column[None, :]), NO_KEY)
    best = top_keys_of_rows(keys, TOPK, BRANCHES, WIDTH)

    place = tl.arange(0, WIDTH)
    is_candidate = is_branch[:, None] & (place < TOPK)[None, :]
    index = unpack_index(best)
    score = tl.load(value_row_ptr + index * value_strides[1], mask=is_candidate, other=0.0)
    token = index
    if hot_token_id_ptr is not None:
        token = tl.load(hot_token_id_ptr + index, mask=is_candidate & (index < columns[1]), other=0)
    if not IS_FIRST:
        score = tl.load(scores_ptr + request * TOPK + branch, mask=is_branch, other=0.0)[:, None] * score
    first = request * BRANCH * TOPK
    candidate = branch[:, None] * TOPK + place[None, :]
    # NOTE: every program of a request stores the same and reads its own: reductions of reshaped tiles are compiled
    # wrongly where their entries are in several threads (Triton 3.6 and 3.7).
    tl.store(score_block_ptr + first + candidate, score, mask=is_candidate)
    tl.store(token_block_ptr + first + candidate, token, mask=is_candidate)
    tl.debug_barrier()
    if IS_FIRST:
        chosen = place.to(tl.int64)
    else:
        number = tl.arange(0, WIDTH * WIDTH)
        is_number = number < TOPK * TOPK
        scores = tl.load(score_block_ptr + first + number, mask=is_number, other=0.0)
        ranked = tl.where(is_number, pack_keys(scores, number), NO_KEY)
        chosen = unpack_index(top_keys(ranked, TOPK, WIDTH, ONE_BY_ONE))

    # What a request has once besides, its first program writes, and only later launches read it.
    if share == 0:
        is_beam = place < TOPK
        chosen_score = tl.load(score_block_ptr + first + chosen, mask=is_beam, other=0.0)
        chosen_token = tl.load(token_block_ptr + first + chosen, mask=is_beam, other=0)
        tl.store(next_scores_ptr + request * TOPK + place, chosen_score, mask=is_beam)
        tl.store(input_ids_ptr + request * TOPK + place, chosen_token, mask=is_beam)
        if IS_FIRST:
            parent_ptr = parent_block_ptr + request * (TOPK + 1)
            tl.store(parent_ptr + place + 1, chosen, mask=is_beam)
            tl.store(parent_ptr + place, -1, mask=place == 0)
        else:
            first_id = TOPK + TOPK * TOPK * (step_index - 1)
            tl.store(parent_block_ptr + request * TOPK + place, first_id + chosen, mask=is_beam)

    if hidden_states_ptr is not None:
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


@triton.jit(do_not_specialize=["num_nodes"])
def _plant_trees_kernel(
    score_list_ptrs,
    token_list_ptrs,
    parents_list_ptrs,
    bonus_tokens_ptr,
    seq_lens_ptr,
    kept_ptrs,
    draft_token_ptr,
    link_ptrs,
    tree_mask_ptr,
    num_nodes,
    NUM_STEPS: tl.constexpr,
    TOPK: tl.constexpr,
    NUM_KEPT: tl.constexpr,
    WIDTH: tl.constexpr,
    BLOCK: tl.constexpr,
    PARENT_BLOCK: tl.constexpr,
    ROUNDS: tl.constexpr,
    NODES: tl.constexpr,
    COMPARED: tl.constexpr,
    ONE_BY_ONE: tl.constexpr,
):
    """Prune the candidates of one request and build its tree, whose mask has one word of columns."""
    follow_previous()
    request = tl.program_id(0).to(tl.int64)
    keep_best(
        score_list_ptrs,
        token_list_ptrs,
        parents_list_ptrs,
        kept_ptrs[0],
        kept_ptrs[1],
        kept_ptrs[2],
        request,
        NUM_STEPS,
        TOPK,
        NUM_KEPT,
        WIDTH,
        BLOCK,
        PARENT_BLOCK,
        ONE_BY_ONE,
    )
    # What other threads have kept is read below.
    tl.debug_barrier()
    row_width = num_nodes.to(tl.int64)
    start = request * row_width * row_width
    write_tree(
        bonus_tokens_ptr,
        kept_ptrs,
        draft_token_ptr,
        link_ptrs,
        tree_mask_ptr,
        request,
        tl.load(seq_lens_ptr + request).to(tl.int64),
        tl.program_id(1),
        (start, row_width, start + row_width * row_width),
        num_nodes,
        TOPK * (NUM_STEPS - 1) + 1 if NUM_STEPS > 1 else 0,
        TOPK,
        ROUNDS,
        NODES,
        COMPARED,
        False,
        0,
    )
