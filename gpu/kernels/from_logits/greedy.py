"""Greedy acceptance from raw logits, where rows are read level by level of the trees.

``key_ptr`` points to the largest logit and its token of each chunk of each row that a walk has reached, by level and
request; ``reached_ptr`` to the node of each request at each level, UNKNOWN until it is found, -1 where it has ended.
"""

import triton
import triton.language as tl

from specsim.gpu.kernels.device.succession import follow_previous
from specsim.gpu.kernels.device.walking import child_with, load_links
from specsim.gpu.kernels.draft import LARGEST_INDEX, NO_KEY, pack_keys
from specsim.gpu.kernels.from_logits.paths import begin_path
from specsim.gpu.kernels.from_logits.thresholds import read_logits
from specsim.gpu.kernels.verify import LARGEST_INT32, largest_first

UNKNOWN = tl.constexpr(-2)
NODE_BITS, NODE_MASK = tl.constexpr(20), tl.constexpr((1 << 20) - 1)


@triton.jit
def last_known(reached_ptr, level, LEVELS: tl.constexpr, THREADS: tl.constexpr):
    """Return a level before the given one, the last whose node can be seen, and the node, -1 if the walk has ended.

    Each warp sees what it reads; the largest of all is the same for all of them.
    """
    before = tl.arange(0, max(LEVELS, THREADS)) % LEVELS
    node = tl.load(reached_ptr + before, mask=before < level, other=UNKNOWN, volatile=True)
    state = tl.where(node == -1, LARGEST_INT32, (before << NODE_BITS) | node)
    state = tl.max(tl.where(node == UNKNOWN, 0, state), axis=0)
    return state >> NODE_BITS, tl.where(state == LARGEST_INT32, -1, state & NODE_MASK)


@triton.jit
def await_choice(key_ptr, num_chunks, CHUNKS: tl.constexpr):
    """Return the first token that has the largest logit of a row, once all of its chunks have been read.

    Each warp waits by itself: a lane has one chunk, so that its lanes see the same.
    """
    chunk = tl.arange(0, CHUNKS)
    is_chunk = chunk < num_chunks
    key = tl.load(key_ptr + chunk, mask=is_chunk, other=0, volatile=True)
    while tl.min((key > NO_KEY).to(tl.int32), axis=0) == 0:
        key = tl.load(key_ptr + chunk, mask=is_chunk, other=0, volatile=True)
    order = tl.where(is_chunk, (key >> 32).to(tl.int32), -(2**31))
    token = ((key ^ -1) & LARGEST_INDEX).to(tl.int32)
    return tl.min(tl.where(is_chunk & (order == tl.max(order, axis=0)), token, LARGEST_INT32), axis=0)


@triton.jit(do_not_specialize=["num_requests", "num_nodes", "num_steps", "num_levels", "num_chunks", "first_program"])
def _walk_greedy_kernel(
    tree_ptrs,
    logits_ptr,
    reached_ptr,
    key_ptr,
    path_ptrs,
    num_requests,
    num_nodes,
    num_steps,
    num_levels,
    num_chunks,
    first_program,
    row_sizes,
    IS_FIRST: tl.constexpr,
    NODES: tl.constexpr,
    LEVELS: tl.constexpr,
    CHUNKS: tl.constexpr,
    THREADS: tl.constexpr,
    CHUNK: tl.constexpr,
):
    """Read one chunk of the row that a request reaches at one level, or end its walk after the last level.

    The first launch reads the rows of the roots and clears what the second one waits for. That has programs for all
    other levels, one level after another, which wait for those of the levels before, and so for lower numbers alone.
    """
    follow_previous()
    candidates_ptr, retrieve_index_ptr, retrieve_next_token_ptr, retrieve_next_sibling_ptr = tree_ptrs
    predict_ptr, accept_index_ptr, num_accepted_drafts_ptr = path_ptrs
    vocab, row_stride, column_stride = row_sizes
    program = tl.program_id(0) + first_program
    level = tl.minimum(program // (num_requests * num_chunks), num_levels)
    place = program - level * num_requests * num_chunks
    # After the last level a request has one program.
    programs = tl.where(level < num_levels, num_chunks, 1)
    request = (place // programs).to(tl.int64)
    share = place % programs
    first = request * num_nodes
    path_ptr = accept_index_ptr + request * (num_steps + 1)
    reached_ptr += request * LEVELS
    node = tl.full([], 0, dtype=tl.int32)
    if IS_FIRST:
        later = tl.arange(0, LEVELS)
        cleared = (later * num_requests + request) * num_chunks + share
        no_key = tl.full([LEVELS], NO_KEY, dtype=tl.int64)
        tl.store(key_ptr + cleared, no_key, mask=(later > 0) & (later < num_levels))
        if share == 0:
            tl.store(reached_ptr + later, tl.where(later == 0, 0, UNKNOWN))
            begin_path(predict_ptr + first, path_ptr, retrieve_index_ptr + first, num_nodes, num_steps, NODES, LEVELS)
    else:
        # All that finds the node is read at once, and walked in registers.
        tile = tl.arange(0, NODES)
        links = load_links(
            retrieve_next_token_ptr, retrieve_next_sibling_ptr, first + tile, tile < num_nodes, num_nodes
        )
        tokens = tl.load(candidates_ptr + first + tile, mask=tile < num_nodes, other=-1).to(tl.int32)
        known, node = last_known(reached_ptr, level, LEVELS, THREADS)
        last = tl.full([], 0, dtype=tl.int32)
        target = tl.full([], 0, dtype=tl.int32)
        while (node >= 0) & (known < level):
            target = await_choice(key_ptr + (known * num_requests + request) * num_chunks, num_chunks, CHUNKS)
            last = node
            known += 1
            parent = tl.full([1], 0, dtype=tl.int32) + last
            child = child_with(target, parent, parent >= 0, tile, tokens, links, num_nodes)
            node = tl.where(known < num_levels, tl.max(child, axis=0), -1)
        if share == 0:
            tl.store(reached_ptr + level, node, mask=level < num_levels)
            if known == level:
                tl.store(predict_ptr + first + last, target)
                if node >= 0:
                    tl.store(path_ptr + level, tl.load(retrieve_index_ptr + first + node).to(tl.int32))
                else:
                    tl.store(num_accepted_drafts_ptr + request, level - 1)
    if node >= 0:
        token = share * CHUNK + tl.arange(0, CHUNK)
        logit = read_logits(logits_ptr + (first + node) * row_stride, token, vocab, column_stride)
        value, choice = largest_first(logit, tl.where(token < vocab, token, LARGEST_INT32))
        tl.store(key_ptr + (level * num_requests + request) * num_chunks + share, pack_keys(value, choice))
