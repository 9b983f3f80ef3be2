"""Greedy acceptance from raw logits: each launch takes the walk of every request one node further."""

import triton
import triton.language as tl

from specsim.gpu.kernels.device.succession import arrive, follow_previous
from specsim.gpu.kernels.device.walking import child_with, load_links
from specsim.gpu.kernels.from_logits.paths import begin_path
from specsim.gpu.kernels.from_logits.thresholds import read_logits
from specsim.gpu.kernels.verify import largest_first


@triton.jit(do_not_specialize=["num_nodes", "num_steps", "level", "num_levels", "num_chunks"])
def _walk_greedy_kernel(
    tree_ptrs,
    logits_ptr,
    reached_ptr,
    count_ptr,
    choice_ptrs,
    path_ptrs,
    num_nodes,
    num_steps,
    level,
    num_levels,
    num_chunks,
    row_sizes,
    NODES: tl.constexpr,
    STEPS: tl.constexpr,
    CHUNKS: tl.constexpr,
    CHUNK: tl.constexpr,
):
    """Follow the choice of the row that the launch before read, and read one chunk of the row of the node it leads to.

    All programs of a request find the same node; the first of them writes it down. At the last level the last of them
    to read its chunk ends the walk.
    """
    follow_previous()
    candidates_ptr, retrieve_index_ptr, retrieve_next_token_ptr, retrieve_next_sibling_ptr = tree_ptrs
    chunk_max_ptr, chunk_token_ptr = choice_ptrs
    predict_ptr, accept_index_ptr, num_accepted_drafts_ptr = path_ptrs
    vocab, row_stride, column_stride = row_sizes
    # Programs read what earlier launches have left, and write chunks of their own; what a request has once, its first
    # program writes. So no program waits for another.
    request = tl.program_id(0).to(tl.int64)
    share = tl.program_id(1)
    num_requests = tl.num_programs(0)
    first = request * num_nodes
    # Everything that a program needs to find its node is read at once.
    last = tl.load(reached_ptr + (level - 1) * num_requests + request, mask=level > 0, other=-1)
    tile = tl.arange(0, NODES)
    is_node = (tile < num_nodes) & (level > 0)
    # NOTE: a load before a store to which its value goes would hold the loads of the row up.
    index = tl.load(retrieve_index_ptr + first + tile, mask=(tile < num_nodes) & (share == 0), other=0).to(tl.int32)
    links = load_links(retrieve_next_token_ptr, retrieve_next_sibling_ptr, first + tile, is_node, num_nodes)
    tokens = tl.load(candidates_ptr + first + tile, mask=is_node, other=-1).to(tl.int32)
    chunk = tl.arange(0, CHUNKS)
    is_chunk = (chunk < num_chunks) & (level > 0)
    before = ((level - 1) * num_requests + request) * num_chunks + chunk
    chunk_max = tl.load(chunk_max_ptr + before, mask=is_chunk, other=float("-inf"))
    chunk_token = tl.load(chunk_token_ptr + before, mask=is_chunk, other=2**31 - 1)
    node = tl.where(level == 0, 0, -1)
    if last >= 0:
        target = largest_first(chunk_max, chunk_token)[1]
        place = tl.full([1], 0, dtype=tl.int32) + last
        node = tl.max(child_with(target, place, place >= 0, tile, tokens, links, num_nodes), axis=0)
        if share == 0:
            tl.store(predict_ptr + first + last, target)
            if node >= 0:
                accepted = tl.sum(tl.where(tile == node, index, 0))
                tl.store(accept_index_ptr + request * (num_steps + 1) + level, accepted)
            else:
                tl.store(num_accepted_drafts_ptr + request, level - 1)
    if share == 0:
        tl.store(reached_ptr + level * num_requests + request, node)
        # NOTE: at the first level nothing else of the path is written, since no row has been read yet.
        if level == 0:
            tl.store(count_ptr + request, 0)
            path_ptr = accept_index_ptr + request * (num_steps + 1)
            root = tl.sum(tl.where(tile == 0, index, 0))
            begin_path(predict_ptr + first, path_ptr, root, num_nodes, num_steps, NODES, STEPS)
    # NOTE: chunks of a walk that has ended are read with all others before it is known that it has.
    value = tl.full([], float("-inf"), dtype=tl.float32)
    choice = tl.full([], 2**31 - 1, dtype=tl.int32)
    if node >= 0:
        place = tl.arange(0, CHUNK)
        logit = read_logits(logits_ptr + (first + node) * row_stride, share * CHUNK + place, vocab, column_stride)
        value, choice = largest_first(logit, place)
        choice += share * CHUNK
    chunks = (level * num_requests + request) * num_chunks
    tl.store(chunk_max_ptr + chunks + share, value)
    tl.store(chunk_token_ptr + chunks + share, choice)
    if (node >= 0) & (level == num_levels - 1):
        is_chunk = chunk < num_chunks
        if arrive(count_ptr + request) == num_chunks - 1:
            chunk_max = tl.load(chunk_max_ptr + chunks + chunk, mask=is_chunk, other=float("-inf"), volatile=True)
            chunk_token = tl.load(chunk_token_ptr + chunks + chunk, mask=is_chunk, other=2**31 - 1, volatile=True)
            tl.store(predict_ptr + first + node, largest_first(chunk_max, chunk_token)[1])
            tl.store(num_accepted_drafts_ptr + request, level)
