"""Acceptance by chance from raw logits: what happens at the node that each request's walk has reached."""

import triton
import triton.language as tl

from specsim.gpu.kernels.device.succession import follow_previous
from specsim.gpu.kernels.from_logits.narrowing import narrow_row
from specsim.gpu.kernels.from_logits.paths import begin_path
from specsim.gpu.kernels.from_logits.residuals import NO_TOKEN, draw_from_row
from specsim.gpu.kernels.from_logits.row_filters import filter_row
from specsim.gpu.kernels.from_logits.steps import draw_from_listed, load_tree, try_children
from specsim.gpu.kernels.from_logits.thresholds import read_logits, share_of, weigh
from specsim.host import sampling

LEAST_THRESHOLD = tl.constexpr(sampling.LEAST_THRESHOLD)


@triton.jit(do_not_specialize=["num_nodes", "num_steps", "level", "end", "num_levels", "rules"])
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
    shares,
    rules,
    TREE: tl.constexpr,
    CHUNKS: tl.constexpr,
    SEARCH: tl.constexpr,
    SHIFT: tl.constexpr,
    PRECISE: tl.constexpr,
):
    """Filter the row of a request's node, try the node's children with its coin, and step or draw the last token.

    One launch walks from ``level`` to before ``end``: one level, by the statistics of one row a request, or all of
    them, by those of all rows. ``shares`` is the number of programs that narrow rows down before those that walk, how
    many of them each row has in a round, how many blocks each of these reads, and how many blocks a row has. ``rules``
    is 1 for a strict walk, and 2 for one that skips duplicates.
    """
    follow_previous()
    holds_all = end - level > 1
    program = tl.program_id(0)
    num_narrowing = shares[0]
    if program < num_narrowing:
        if SEARCH[5] > 0:
            narrow_row(
                program,
                logits_ptr,
                filter_ptrs,
                walk_ptrs,
                num_nodes,
                level,
                holds_all,
                num_narrowing // (SEARCH[5] * shares[1]),
                shares,
                row_sizes,
                CHUNKS,
                SEARCH,
                SHIFT,
            )
    else:
        walk_request(
            (program - num_narrowing).to(tl.int64),
            tree_ptrs,
            coin_ptrs,
            logits_ptr,
            filter_ptrs,
            threshold_ptrs,
            walk_ptrs,
            path_ptrs,
            (num_nodes, num_steps, num_levels),
            level,
            end,
            holds_all,
            row_sizes,
            shares,
            rules,
            TREE,
            CHUNKS,
            SEARCH,
            SHIFT,
            PRECISE,
        )


@triton.jit
def walk_request(
    request,
    tree_ptrs,
    coin_ptrs,
    logits_ptr,
    filter_ptrs,
    threshold_ptrs,
    walk_ptrs,
    path_ptrs,
    tree_sizes,
    level,
    end,
    holds_all,
    row_sizes,
    shares,
    rules,
    TREE: tl.constexpr,
    CHUNKS: tl.constexpr,
    SEARCH: tl.constexpr,
    SHIFT: tl.constexpr,
    PRECISE: tl.constexpr,
):
    """Walk the tree of one request as far as a launch does."""
    num_nodes, num_steps, num_levels = tree_sizes
    candidates_ptr, retrieve_index_ptr, retrieve_next_token_ptr, retrieve_next_sibling_ptr = tree_ptrs
    uniform_samples_ptr, uniform_samples_for_final_sampling_ptr = coin_ptrs
    threshold_single_ptr, threshold_acc_ptr = threshold_ptrs
    temperature_ptr, top_k_ptr, top_p_ptr, min_p_ptr = filter_ptrs
    current_ptr = walk_ptrs[0]
    predict_ptr, accept_index_ptr, num_accepted_drafts_ptr = path_ptrs
    num_chunks, vocab, row_stride, column_stride = row_sizes
    NODES: tl.constexpr = TREE[0]
    STEPS: tl.constexpr = TREE[1]
    BLOCK: tl.constexpr = SEARCH[3]
    RATIO: tl.constexpr = SEARCH[4]
    # A request has one program. What it reads of chunks an earlier launch has left; only what others have narrowed down
    # passes between programs. Whatever steers the walk (node, coin, child) is one number, which every thread holds.
    first = request * num_nodes
    path_ptr = accept_index_ptr + request * (num_steps + 1)
    if level == 0:
        root = tl.load(retrieve_index_ptr + first).to(tl.int32)
        begin_path(predict_ptr + first, path_ptr, root, num_nodes, num_steps, NODES, STEPS)
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
    while (node >= 0) & (level < end):
        place = tl.where(holds_all, first + node, request)
        coin = tl.load(uniform_samples_ptr + first + node).to(tl.float64)
        first_child, sibling_tile, token_tile = load_tree(own_tree, node, level < num_levels - 1, num_nodes, NODES)
        row_ptr = logits_ptr + (first + node) * row_stride
        logit_tile = read_logits(row_ptr, token_tile, vocab, column_stride)
        row, listed, listed_token, total, kept = filter_row(
            row_ptr,
            place,
            temperature,
            (top_k, top_p, min_p),
            is_greedy,
            walk_ptrs,
            (num_chunks, vocab, column_stride),
            shares,
            CHUNKS,
            SEARCH,
            SHIFT,
            PRECISE,
        )
        threshold, last_token, mass, is_certain, block_mass, is_counted = kept
        largest = row[3]
        inverse = 1.0 / total
        scale = 1.0 / mass
        weight_tile = weigh(logit_tile, largest, temperature, PRECISE)
        is_kept = (logit_tile >= threshold) & (token_tile <= last_token)
        is_kept = is_kept & (share_of(weight_tile, inverse, PRECISE) > 0)
        weight_tile = tl.where(is_kept, weight_tile, 0.0)
        share_tile = (weight_tile * scale).to(tl.float32)
        child, is_stuck = try_children(
            first_child,
            sibling_tile,
            token_tile,
            share_tile,
            coin * threshold_acc,
            threshold_single,
            rules & 1,
            rules >> 1,
            num_nodes,
            NODES,
        )
        # Each of these stores is of one number, which one thread writes; only the next launch reads it.
        if is_stuck:
            rejected = (first_child, own_tree[0], own_tree[2], num_nodes, token_tile, weight_tile)
            if is_certain:
                chosen, last = draw_from_listed(
                    listed, listed_token, threshold, last_token, inverse, scale, rejected, final_coin, PRECISE
                )
            else:
                chosen, last = draw_from_row(
                    row,
                    inverse,
                    threshold,
                    final_coin,
                    rejected,
                    block_mass,
                    is_counted,
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
