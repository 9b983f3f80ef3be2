"""Acceptance by chance from raw logits: what happens at the node that each request's walk has reached."""

import triton
import triton.language as tl

from specsim.gpu.kernels.row_filters import keep
from specsim.gpu.kernels.thresholds import order_of, read_block, read_logits, search, share_of, value_of, weigh

LEAST_NORMAL = tl.constexpr(2.0**-126)
LEAST_FLOAT = tl.constexpr(-3.4028234663852886e38)
SPARE = tl.constexpr(14)
LEAST_THRESHOLD = tl.constexpr(1e-9)
NO_SLOT = tl.constexpr(2**31 - 1)


@triton.jit
def shortlist(
    listed_logits_ptr,
    listed_tokens_ptr,
    num_listed,
    known_from,
    largest,
    wanted,
    vocab,
    LISTED: tl.constexpr,
    FEW: tl.constexpr,
    SHIFT: tl.constexpr,
):
    """Bring the largest of the listed logits, ``wanted`` at least, to the front of the list, in token order.

    Returns FEW logits and tokens, and the logit from which on they are complete. Where more are equal than there is
    room for, the logit lies above them, and the first of them are returned.
    """
    slot = tl.arange(0, LISTED)
    logit = tl.load(listed_logits_ptr + slot, mask=slot < num_listed, other=float("-inf"))
    token = tl.load(listed_tokens_ptr + slot, mask=slot < num_listed, other=vocab)
    if LISTED > FEW:
        bound = tl.minimum(tl.maximum(known_from, LEAST_FLOAT), largest)
        count = tl.sum((logit >= bound).to(tl.int32), axis=0)
        if count > FEW:
            low = order_of(bound, SHIFT)
            high = order_of(largest, SHIFT) + 1
            low = search((logit, logit), None, low, high, wanted, 0.0, FEW, False, False, False, SHIFT, 16, 1)
            known_from = value_of(low, SHIFT)
            bound = tl.minimum(known_from, largest)
            count = tl.sum((logit >= bound).to(tl.int32), axis=0)
            known_from = tl.where(count > FEW, value_of(high, SHIFT), known_from)
        is_kept = (logit >= bound).to(tl.int32)
        rank = tl.cumsum(is_kept, axis=0) - is_kept
        is_stored = (is_kept == 1) & (rank < FEW)
        tl.debug_barrier()
        tl.store(listed_logits_ptr + rank, logit, mask=is_stored)
        tl.store(listed_tokens_ptr + rank, token, mask=is_stored)
        tl.debug_barrier()
        slot = tl.arange(0, FEW)
        logit = tl.load(listed_logits_ptr + slot, mask=slot < count, other=float("-inf"))
        token = tl.load(listed_tokens_ptr + slot, mask=slot < count, other=vocab)
    return logit, token, known_from


@triton.jit
def without_children(weight, token, child, candidates_ptr, next_sibling_ptr, num_nodes):
    """Put weight 0 on the tokens of a node and of its later siblings."""
    tries = 0
    while (child >= 0) & (child < num_nodes) & (tries < num_nodes):
        weight = tl.where(token == tl.load(candidates_ptr + child), 0.0, weight)
        child = tl.load(next_sibling_ptr + child)
        tries += 1
    return weight


@triton.jit
def first_beyond(weight, token, before, goal, last):
    """Return the first token whose prefix sum exceeds a goal, or ``last``, and the last token of positive weight."""
    prefix = before + tl.cumsum(weight, axis=0)
    is_possible = weight > 0
    beyond = tl.min(tl.where(is_possible & (prefix > goal), token, NO_SLOT), axis=0)
    return beyond, tl.maximum(last, tl.max(tl.where(is_possible, token, -1), axis=0))


@triton.jit
def residual_block(
    row,
    total,
    first,
    threshold,
    child,
    candidates_ptr,
    next_sibling_ptr,
    num_nodes,
    PRECISE: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Read a block of the row: the weights of the kept tokens that were not rejected, in float64."""
    logit, weight = read_block(row, first, PRECISE, BLOCK)
    if PRECISE:
        is_kept = (logit >= threshold) & (share_of(weight, total) > 0)
    else:
        is_kept = (logit >= threshold) & (weight >= LEAST_NORMAL)
    weight = tl.where(is_kept, weight, 0.0).to(tl.float64)
    token = first + tl.arange(0, BLOCK)
    return without_children(weight, token, child, candidates_ptr, next_sibling_ptr, num_nodes), token


@triton.jit
def draw_from_row(
    row,
    total,
    threshold,
    coin,
    child,
    candidates_ptr,
    next_sibling_ptr,
    num_nodes,
    PRECISE: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Draw from what a row keeps, in two passes: the weight of all, then up to the token that the coin meets."""
    mass = tl.zeros([], dtype=tl.float64)
    for first in range(0, row[1], BLOCK):
        weight, _ = residual_block(
            row, total, first, threshold, child, candidates_ptr, next_sibling_ptr, num_nodes, PRECISE, BLOCK
        )
        mass += tl.sum(weight, axis=0)
    before = tl.zeros([], dtype=tl.float64)
    chosen, last = NO_SLOT, -1
    first = 0
    while (first < row[1]) & (chosen == NO_SLOT):
        weight, token = residual_block(
            row, total, first, threshold, child, candidates_ptr, next_sibling_ptr, num_nodes, PRECISE, BLOCK
        )
        chosen, last = first_beyond(weight, token, before, coin * mass, last)
        before += tl.sum(weight, axis=0)
        first += BLOCK
    return chosen, last


@triton.jit(do_not_specialize=["num_nodes", "num_steps", "level", "num_levels", "num_listed", "strict", "skip_duplicates"])
def _walk_sampled_kernel(
    candidates_ptr,
    retrieve_index_ptr,
    next_token_ptr,
    next_sibling_ptr,
    coins_ptr,
    final_coins_ptr,
    logits_ptr,
    temperature_ptr,
    top_k_ptr,
    top_p_ptr,
    min_p_ptr,
    threshold_single_ptr,
    threshold_acc_ptr,
    current_ptr,
    chunk_max_ptr,
    chunk_mass_ptr,
    chunk_bound_ptr,
    listed_logits_ptr,
    listed_tokens_ptr,
    predict_ptr,
    accept_index_ptr,
    num_accepted_drafts_ptr,
    num_nodes,
    num_steps,
    level,
    num_levels,
    num_chunks,
    vocab,
    row_stride,
    column_stride,
    strict,
    skip_duplicates,
    NODES: tl.constexpr,
    STEPS: tl.constexpr,
    CHUNKS: tl.constexpr,
    SLOTS: tl.constexpr,
    SHIFT: tl.constexpr,
    FEW: tl.constexpr,
    BLOCK: tl.constexpr,
    PRECISE: tl.constexpr,
):
    """Filter the row of a request's node, try the node's children with its coin, and step or draw the last token."""
    request = tl.program_id(0).to(tl.int64)
    first = request * num_nodes
    node_tile = tl.arange(0, NODES)
    if level == 0:
        tl.store(predict_ptr + first + node_tile, 0, mask=node_tile < num_nodes)
        step = tl.arange(0, STEPS)
        root = tl.load(retrieve_index_ptr + first).to(tl.int32)
        accepted = tl.where(step == 0, root, -1)
        tl.store(accept_index_ptr + request * (num_steps + 1) + step, accepted, mask=step <= num_steps)
        tl.debug_barrier()
    node = tl.where(level == 0, 0, tl.load(current_ptr + request))
    if node >= 0:
        chunk = tl.arange(0, CHUNKS)
        is_chunk = chunk < num_chunks
        chunk_max = tl.load(chunk_max_ptr + request * num_chunks + chunk, mask=is_chunk, other=float("-inf"))
        chunk_mass = tl.load(chunk_mass_ptr + request * num_chunks + chunk, mask=is_chunk, other=0.0)
        chunk_bound = tl.load(chunk_bound_ptr + request * num_chunks + chunk, mask=is_chunk, other=float("-inf"))
        temperature = tl.load(temperature_ptr + request)
        is_greedy = temperature == 0
        temperature = tl.where(is_greedy, 1.0, temperature)
        top_k = tl.load(top_k_ptr + request)
        largest = tl.max(chunk_max, axis=0)
        largest = tl.where(largest > float("-inf"), largest, 0.0)
        total = tl.sum(chunk_mass * weigh(chunk_max, largest, temperature, True), axis=0)
        wanted = tl.where(is_greedy, 1, tl.minimum(top_k, FEW) + SPARE)
        listed_logit, listed_token, known_from = shortlist(
            listed_logits_ptr + request * num_chunks * SLOTS,
            listed_tokens_ptr + request * num_chunks * SLOTS,
            num_chunks * SLOTS,
            tl.max(chunk_bound, axis=0),
            largest,
            tl.minimum(wanted, FEW // 2),
            vocab,
            CHUNKS * SLOTS,
            FEW,
            SHIFT,
        )
        row_ptr = logits_ptr + (first + node) * row_stride
        row = (row_ptr, vocab, column_stride, largest, temperature)
        listed_weight = weigh(listed_logit, largest, temperature, True)
        listed = (listed_logit, listed_weight)

        last_token = vocab
        threshold = largest
        kept = total * 0.0 + 1.0
        is_listed = is_greedy
        if is_greedy:
            last_token = tl.min(tl.where(listed_logit == largest, listed_token, vocab), axis=0)
        else:
            top_p = tl.load(top_p_ptr + request).to(tl.float64)
            filters = (top_k, top_p, tl.load(min_p_ptr + request).to(tl.float64))
            threshold, kept, is_listed = keep(listed, row, total, known_from, filters, False, True, SHIFT, 16, FEW)
            if not is_listed:
                everything = tl.full([], float("-inf"), dtype=tl.float32)
                threshold, kept, _ = keep(listed, row, total, everything, filters, True, PRECISE, SHIFT, 4, BLOCK)

        token_tile = tl.load(candidates_ptr + first + node_tile, mask=node_tile < num_nodes, other=-1)
        logit_tile = read_logits(row_ptr, token_tile, vocab, column_stride)
        weight_tile = weigh(logit_tile, largest, temperature, True)
        is_kept = (logit_tile >= threshold) & (token_tile <= last_token) & (share_of(weight_tile, total) > 0)
        share_tile = tl.where(is_kept, share_of(weight_tile, kept), 0.0)

        coin = tl.load(coins_ptr + first + node).to(tl.float64)
        threshold_single = tl.load(threshold_single_ptr + request)
        threshold_acc = tl.maximum(tl.load(threshold_acc_ptr + request).to(tl.float64), LEAST_THRESHOLD)
        own_candidates_ptr = candidates_ptr + first
        own_sibling_ptr = next_sibling_ptr + first
        first_child = tl.load(next_token_ptr + first + node, mask=level < num_levels - 1, other=-1)
        child = first_child
        mass = tl.zeros([], dtype=tl.float64)
        is_stuck = True
        tries = 0
        while is_stuck & (child >= 0) & (child < num_nodes) & (tries < num_nodes):
            share = tl.sum(tl.where(node_tile == child, share_tile, 0.0), axis=0)
            if share >= 0:
                mass += share.to(tl.float64)
                edge = mass / threshold_acc
                is_below = (coin < edge) | ((strict == 0) & (coin <= edge))
                is_possible = (share > 0) | (strict == 0)
                is_stuck = (is_possible & (is_below | (share >= threshold_single))) == 0
                if is_stuck & (skip_duplicates != 0):
                    token = tl.load(own_candidates_ptr + child)
                    share_tile = tl.where(token_tile == token, -1.0, share_tile)
            if is_stuck:
                child = tl.load(own_sibling_ptr + child)
            tries += 1

        if is_stuck | (child < 0) | (child >= num_nodes):
            final_coin = tl.load(final_coins_ptr + request).to(tl.float64)
            if is_listed:
                is_drawn = (listed_logit >= threshold) & (listed_token <= last_token) & (listed_token < vocab)
                is_drawn = is_drawn & (share_of(listed_weight, total) > 0)
                weight = tl.where(is_drawn, share_of(listed_weight, kept), 0.0).to(tl.float64)
                weight = without_children(
                    weight, listed_token, first_child, own_candidates_ptr, own_sibling_ptr, num_nodes
                )
                goal = final_coin * tl.sum(weight, axis=0)
                chosen, last = first_beyond(weight, listed_token, 0.0, goal, -1)
            else:
                chosen, last = draw_from_row(
                    row,
                    total,
                    threshold,
                    final_coin,
                    first_child,
                    own_candidates_ptr,
                    own_sibling_ptr,
                    num_nodes,
                    PRECISE,
                    BLOCK,
                )
            drawn = tl.where(chosen < NO_SLOT, chosen, tl.where(last >= 0, last, vocab - 1))
            tl.store(predict_ptr + first + node, drawn)
            tl.store(num_accepted_drafts_ptr + request, level)
            tl.store(current_ptr + request, -1)
        else:
            token = tl.load(own_candidates_ptr + child).to(tl.int32)
            accepted = tl.load(retrieve_index_ptr + first + child).to(tl.int32)
            tl.store(predict_ptr + first + node, token)
            tl.store(accept_index_ptr + request * (num_steps + 1) + level + 1, accepted)
            tl.store(current_ptr + request, child.to(tl.int32))
