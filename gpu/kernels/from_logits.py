"""Acceptance by chance from raw logits: what happens at the node that each request's walk has reached."""

import triton
import triton.language as tl

from specsim.gpu.kernels.residuals import NO_TOKEN, draw_from_row, first_beyond, without_rejected
from specsim.gpu.kernels.row_filters import keep
from specsim.gpu.kernels.thresholds import read_logits, share_of, weigh
from specsim.host import sampling

LEAST_THRESHOLD = tl.constexpr(sampling.LEAST_THRESHOLD)


@triton.jit(
    do_not_specialize=[
        "num_nodes",
        "num_steps",
        "level",
        "num_levels",
        "chunk_size",
        "num_listed",
        "strict",
        "skip_duplicates",
    ]
)
def _walk_sampled_kernel(
    candidates_ptr,
    retrieve_index_ptr,
    retrieve_next_token_ptr,
    retrieve_next_sibling_ptr,
    uniform_samples_ptr,
    uniform_samples_for_final_sampling_ptr,
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
    chunk_size,
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
    WAYS: tl.constexpr,
    ROW_WAYS: tl.constexpr,
    BLOCK: tl.constexpr,
    PRECISE: tl.constexpr,
):
    """Filter the row of a request's node, try the node's children with its coin, and step or draw the last token."""
    request = tl.program_id(0).to(tl.int64)
    first = request * num_nodes
    node_tile = tl.arange(0, NODES)
    is_node = node_tile < num_nodes
    if level == 0:
        tl.store(predict_ptr + first + node_tile, 0, mask=is_node)
        step = tl.arange(0, STEPS)
        root = tl.load(retrieve_index_ptr + first).to(tl.int32)
        accepted = tl.where(step == 0, root, -1)
        tl.store(accept_index_ptr + request * (num_steps + 1) + step, accepted, mask=step <= num_steps)
        tl.debug_barrier()
    node = tl.where(level == 0, 0, tl.load(current_ptr + request))
    if node >= 0:
        # NOTE: everything is read here, before the first reduction, so that the latencies overlap.
        chunk = tl.arange(0, CHUNKS)
        is_chunk = chunk < num_chunks
        chunk_max = tl.load(chunk_max_ptr + request * num_chunks + chunk, mask=is_chunk, other=float("-inf"))
        chunk_mass = tl.zeros([CHUNKS], dtype=tl.float64)
        chunk_bound = tl.load(chunk_bound_ptr + request * num_chunks + chunk, mask=is_chunk, other=float("-inf"))
        temperature = tl.load(temperature_ptr + request)
        top_k = tl.load(top_k_ptr + request)
        top_p = tl.load(top_p_ptr + request).to(tl.float64)
        min_p = tl.load(min_p_ptr + request).to(tl.float64)
        threshold_single = tl.load(threshold_single_ptr + request)
        threshold_acc = tl.maximum(tl.load(threshold_acc_ptr + request).to(tl.float64), LEAST_THRESHOLD)
        final_coin = tl.load(uniform_samples_for_final_sampling_ptr + request).to(tl.float64)
        coin = tl.load(uniform_samples_ptr + first + node).to(tl.float64)
        first_child = tl.load(retrieve_next_token_ptr + first + node, mask=level < num_levels - 1, other=-1)
        sibling_tile = tl.load(retrieve_next_sibling_ptr + first + node_tile, mask=is_node, other=-1)
        token_tile = tl.load(candidates_ptr + first + node_tile, mask=is_node, other=-1)
        row_ptr = logits_ptr + (first + node) * row_stride
        logit_tile = read_logits(row_ptr, token_tile, vocab, column_stride)

        slot = tl.arange(0, CHUNKS * SLOTS)
        listed_place = request * num_chunks * SLOTS + slot
        is_listed = slot < num_chunks * SLOTS
        listed_logit = tl.load(listed_logits_ptr + listed_place, mask=is_listed, other=float("-inf"))
        listed_token = tl.load(listed_tokens_ptr + listed_place, mask=is_listed, other=vocab)

        is_greedy = temperature == 0
        top_k = tl.where(is_greedy, 1, top_k)
        temperature = tl.where(is_greedy, 1.0, temperature)
        largest = tl.max(chunk_max, axis=0)
        largest = tl.where(largest > float("-inf"), largest, 0.0)
        row = (row_ptr, vocab, column_stride, largest, temperature)
        total = tl.zeros([], dtype=tl.float64) + 1.0
        if PRECISE | (top_k >= vocab):
            chunk_mass = tl.load(chunk_mass_ptr + request * num_chunks + chunk, mask=is_chunk, other=0.0)
            chunk_mass *= weigh(chunk_max, largest, temperature, PRECISE).to(tl.float64)
            total = tl.sum(chunk_mass, axis=0)
        listed_weight = weigh(listed_logit, largest, temperature, PRECISE)

        last_token = vocab - 1
        threshold = largest
        mass = total * 0.0 + 1.0
        is_certain = is_greedy
        if is_greedy:
            last_token = tl.min(tl.where(listed_logit == largest, listed_token, vocab - 1), axis=0)
        else:
            listed = (listed_logit, listed_weight)
            filters = (top_k, top_p, min_p)
            known_from = tl.max(chunk_bound, axis=0)
            threshold, mass, is_certain = keep(
                listed, row, total, known_from, filters, False, PRECISE, SHIFT, WAYS, BLOCK
            )
            if not is_certain:
                threshold, mass, _ = keep(
                    listed, row, total, known_from, filters, True, PRECISE, SHIFT, ROW_WAYS, BLOCK
                )

        inverse = 1.0 / total
        scale = 1.0 / mass
        weight_tile = weigh(logit_tile, largest, temperature, PRECISE)
        is_kept = (logit_tile >= threshold) & (token_tile <= last_token)
        is_kept = is_kept & (share_of(weight_tile, inverse, PRECISE) > 0)
        share_tile = tl.where(is_kept, (weight_tile * scale).to(tl.float32), 0.0)
        child = first_child
        goal = coin * threshold_acc
        mass = total * 0.0
        is_stuck = True
        tries = 0
        while is_stuck & (child >= 0) & (child < num_nodes) & (tries < num_nodes):
            is_child = node_tile == child
            share = tl.sum(tl.where(is_child, share_tile, 0.0), axis=0)
            if share >= 0:
                mass += share.to(tl.float64)
                is_below = (goal < mass) | ((strict == 0) & (goal <= mass))
                is_possible = (share > 0) | (strict == 0)
                is_stuck = (is_possible & (is_below | (share >= threshold_single))) == 0
                if is_stuck & (skip_duplicates != 0):
                    token = tl.sum(tl.where(is_child, token_tile, 0), axis=0)
                    share_tile = tl.where(token_tile == token, -1.0, share_tile)
            if is_stuck:
                child = tl.sum(tl.where(is_child, sibling_tile, 0), axis=0)
            tries += 1

        own_candidates_ptr = candidates_ptr + first
        if is_stuck | (child < 0) | (child >= num_nodes):
            rejected = (first_child, own_candidates_ptr, retrieve_next_sibling_ptr + first, num_nodes)
            if is_certain:
                is_drawn = (listed_logit >= threshold) & (listed_token <= last_token)
                is_drawn = is_drawn & (share_of(listed_weight, inverse, PRECISE) > 0)
                weight = tl.where(is_drawn, (listed_weight * scale).to(tl.float32), 0.0).to(tl.float64)
                weight = without_rejected(weight, listed_token, rejected)
                chosen, last = first_beyond(weight, listed_token, 0.0, final_coin * tl.sum(weight, axis=0))
            else:
                chosen, last = draw_from_row(
                    row,
                    inverse,
                    threshold,
                    final_coin,
                    rejected,
                    chunk_mass,
                    (threshold > float("-inf")) | (top_k < vocab),
                    num_chunks,
                    chunk_size,
                    CHUNKS,
                    PRECISE,
                    BLOCK,
                )
            drawn = tl.where(chosen < NO_TOKEN, chosen, tl.where(last >= 0, last, vocab - 1))
            tl.store(predict_ptr + first + node, drawn)
            tl.store(num_accepted_drafts_ptr + request, level)
            tl.store(current_ptr + request, -1)
        else:
            token = tl.load(own_candidates_ptr + child).to(tl.int32)
            accepted = tl.load(retrieve_index_ptr + first + child).to(tl.int32)
            tl.store(predict_ptr + first + node, token)
            tl.store(accept_index_ptr + request * (num_steps + 1) + level + 1, accepted)
            tl.store(current_ptr + request, child.to(tl.int32))
