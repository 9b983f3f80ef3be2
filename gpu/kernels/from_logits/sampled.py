"""Acceptance by chance from raw logits: what happens at the node that each request's walk has reached."""

import triton
import triton.language as tl

from specsim.gpu.kernels.from_logits.paths import begin_path
from specsim.gpu.kernels.from_logits.residuals import NO_TOKEN, draw_from_row
from specsim.gpu.kernels.from_logits.steps import (
    draw_from_listed,
    filter_row,
    load_chunks,
    load_listed,
    load_tree,
    try_children,
    weigh_blocks,
)
from specsim.gpu.kernels.from_logits.thresholds import read_logits, share_of, weigh
from specsim.host import sampling

LEAST_THRESHOLD = tl.constexpr(sampling.LEAST_THRESHOLD)


@triton.jit(do_not_specialize=["num_nodes", "num_steps", "level", "end", "num_levels", "strict", "skip_duplicates"])
def _walk_sampled_kernel(
    tree_ptrs,
    coin_ptrs,
    logits_ptr,
    filter_ptrs,
    threshold_ptrs,
    walk_ptrs,
    path_ptrs,
    num_nodes,
    num_steps,
    level,
    end,
    num_levels,
    row_sizes,
    strict,
    skip_duplicates,
    TREE: tl.constexpr,
    CHUNKS: tl.constexpr,
    SEARCH: tl.constexpr,
    SHIFT: tl.constexpr,
    PRECISE: tl.constexpr,
):
    """Filter the row of a request's node, try the node's children with its coin, and step or draw the last token.

    One launch walks from ``level`` to before ``end``: one level, by the statistics of one row a request, or all of
    them, by those of all rows.
    """
    candidates_ptr, retrieve_index_ptr, retrieve_next_token_ptr, retrieve_next_sibling_ptr = tree_ptrs
    uniform_samples_ptr, uniform_samples_for_final_sampling_ptr = coin_ptrs
    threshold_single_ptr, threshold_acc_ptr = threshold_ptrs
    temperature_ptr, top_k_ptr, top_p_ptr, min_p_ptr = filter_ptrs
    current_ptr, chunk_max_ptr, block_mass_ptr, chunk_bound_ptr, listed_logits_ptr, listed_tokens_ptr = walk_ptrs
    predict_ptr, accept_index_ptr, num_accepted_drafts_ptr = path_ptrs
    num_chunks, vocab, row_stride, column_stride = row_sizes
    NODES: tl.constexpr = TREE[0]
    STEPS: tl.constexpr = TREE[1]
    SLOTS: tl.constexpr = SEARCH[0]
    WAYS: tl.constexpr = SEARCH[1]
    ROW_WAYS: tl.constexpr = SEARCH[2]
    BLOCK: tl.constexpr = SEARCH[3]
    RATIO: tl.constexpr = SEARCH[4]
    # A request has one program, and what it reads of chunks an earlier launch has left: nothing passes between programs
    # of one launch. Whatever steers the walk (node, coin, child, threshold) is one number, which every thread holds.
    request = tl.program_id(0).to(tl.int64)
    first = request * num_nodes
    path_ptr = accept_index_ptr + request * (num_steps + 1)
    if level == 0:
        begin_path(predict_ptr + first, path_ptr, retrieve_index_ptr + first, num_nodes, num_steps, NODES, STEPS)
        # NOTE: entries that many threads have just cleared are written once more below, each by a single thread.
        tl.debug_barrier()
    node = tl.load(current_ptr + request, mask=level > 0, other=0)
    temperature = tl.load(temperature_ptr + request)
    top_k = tl.load(top_k_ptr + request)
    top_p = tl.load(top_p_ptr + request).to(tl.float64)
    min_p = tl.load(min_p_ptr + request).to(tl.float64)
    threshold_single = tl.load(threshold_single_ptr + request)
    threshold_acc = tl.maximum(tl.load(threshold_acc_ptr + request).to(tl.float64), LEAST_THRESHOLD)
    final_coin = tl.load(uniform_samples_for_final_sampling_ptr + request).to(tl.float64)
    own_tree = (candidates_ptr + first, retrieve_next_token_ptr + first, retrieve_next_sibling_ptr + first)
    is_greedy = temperature == 0
    top_k = tl.where(is_greedy, 1, top_k)
    temperature = tl.where(is_greedy, 1.0, temperature)
    holds_all = end - level > 1
    while (node >= 0) & (level < end):
        # NOTE: everything is read here, before the first reduction, so that the latencies overlap.
        place = tl.where(holds_all, first + node, request)
        chunk_max, chunk_bound = load_chunks(chunk_max_ptr, chunk_bound_ptr, place, num_chunks, CHUNKS)
        coin = tl.load(uniform_samples_ptr + first + node).to(tl.float64)
        first_child, sibling_tile, token_tile = load_tree(own_tree, node, level < num_levels - 1, num_nodes, NODES)
        row_ptr = logits_ptr + (first + node) * row_stride
        logit_tile = read_logits(row_ptr, token_tile, vocab, column_stride)
        listed_logit, listed_token = load_listed(
            listed_logits_ptr, listed_tokens_ptr, place, num_chunks, vocab, SLOTS, CHUNKS
        )

        largest = tl.max(chunk_max, axis=0)
        largest = tl.where(largest > float("-inf"), largest, 0.0)
        row = (row_ptr, vocab, column_stride, largest, temperature)
        block_mass, total = weigh_blocks(
            block_mass_ptr, chunk_max_ptr, row, top_k, place, num_chunks, PRECISE, CHUNKS, RATIO
        )
        listed = (listed_logit, weigh(listed_logit, largest, temperature, PRECISE))
        threshold, last_token, mass, is_certain = filter_row(
            listed,
            listed_token,
            row,
            total,
            tl.max(chunk_bound, axis=0),
            (top_k, top_p, min_p),
            is_greedy,
            PRECISE,
            SHIFT,
            WAYS,
            ROW_WAYS,
            BLOCK,
        )

        inverse = 1.0 / total
        scale = 1.0 / mass
        weight_tile = weigh(logit_tile, largest, temperature, PRECISE)
        is_kept = (logit_tile >= threshold) & (token_tile <= last_token)
        is_kept = is_kept & (share_of(weight_tile, inverse, PRECISE) > 0)
        share_tile = tl.where(is_kept, (weight_tile * scale).to(tl.float32), 0.0)
        child, is_stuck = try_children(
            first_child,
            sibling_tile,
            token_tile,
            share_tile,
            coin * threshold_acc,
            threshold_single,
            strict,
            skip_duplicates,
            num_nodes,
            NODES,
        )
        # Each of these stores is of one number, which one thread writes; only the next launch reads it.
        if is_stuck:
            rejected = (first_child, own_tree[0], own_tree[2], num_nodes)
            if is_certain:
                chosen, last = draw_from_listed(
                    listed, listed_token, threshold, last_token, inverse, scale, rejected, final_coin, PRECISE
                )
            else:
                is_filtered = (threshold > float("-inf")) | (top_k < vocab)
                chosen, last = draw_from_row(
                    row,
                    inverse,
                    threshold,
                    final_coin,
                    rejected,
                    block_mass,
                    is_filtered,
                    CHUNKS * RATIO,
                    PRECISE,
                    BLOCK,
                )
            drawn = tl.where(chosen < NO_TOKEN, chosen, tl.where(last >= 0, last, vocab - 1))
            tl.store(predict_ptr + first + node, drawn)
            tl.store(num_accepted_drafts_ptr + request, level)
            node = tl.full([], -1, dtype=tl.int32)
        else:
            token = tl.load(own_tree[0] + child).to(tl.int32)
            accepted = tl.load(retrieve_index_ptr + first + child).to(tl.int32)
            tl.store(predict_ptr + first + node, token)
            tl.store(path_ptr + level + 1, accepted)
            node = child.to(tl.int32)
        level += 1
    tl.store(current_ptr + request, node)
