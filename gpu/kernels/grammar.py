"""Kernels of ``specsim.gpu.grammar``: which nodes a grammar reaches, then the words of their masks."""

import triton
import triton.language as tl

from specsim.gpu.kernels.device.succession import follow_previous

ROOT = tl.constexpr(-2)
NOT_TRIED = tl.constexpr(-2)
NODES_OF_REGISTERS = tl.constexpr(128)


@triton.jit
def _pass_between_nodes(values, node, memory_ptr, first, number, is_node, NODES: tl.constexpr):
    """Return the value of the node that each node names: by registers, in large trees through memory."""
    if NODES <= NODES_OF_REGISTERS:
        return tl.gather(values, node, axis=1)
    tl.debug_barrier()
    tl.store(memory_ptr + number, values, mask=is_node)
    tl.debug_barrier()
    return tl.load(memory_ptr + first + node, mask=is_node, other=-1)


@triton.jit(do_not_specialize=["num_requests", "num_nodes", "num_states", "vocab"])
def _reach_nodes_kernel(
    transitions_ptr,
    is_terminated_ptr,
    candidates_ptr,
    retrieve_next_token_ptr,
    retrieve_next_sibling_ptr,
    grammar_state_ptr,
    link_ptr,
    state_ptr,
    leader_ptr,
    num_requests,
    num_nodes,
    num_states,
    vocab,
    state_stride,
    token_stride,
    REQUESTS: tl.constexpr,
    NODES: tl.constexpr,
):
    """Write the state whose tokens may follow each node of a block of requests, -1 for nodes that allow everything.

    Each node learns in memory which node links to it. Rounds that double their reach find the eldest of its siblings,
    whose link is the parent of all, and every other round reaches one more level.
    Each loop ends after at most as many rounds as there are nodes, whatever the links say. One of the rows of a state
    becomes its leader, no matter which.
    """
    follow_previous()
    request = tl.program_id(0).to(tl.int64) * REQUESTS + tl.arange(0, REQUESTS)[:, None]
    lane = tl.arange(0, NODES)[None, :]
    is_node = (request < num_requests) & (lane < num_nodes)
    first = request * num_nodes
    number = first + lane
    node = tl.zeros_like(number).to(tl.int32) + lane
    tl.store(link_ptr + number, tl.full([REQUESTS, NODES], -1, dtype=tl.int32), mask=is_node)
    child = tl.load(retrieve_next_token_ptr + number, mask=is_node, other=-1)
    sibling = tl.load(retrieve_next_sibling_ptr + number, mask=is_node, other=-1)
    token = tl.load(candidates_ptr + number, mask=is_node, other=-1)
    start = tl.load(grammar_state_ptr + request, mask=request < num_requests, other=-1)
    tl.debug_barrier()
    tl.store(link_ptr + first + child, node, mask=(child >= 0) & (child < num_nodes))
    tl.store(link_ptr + first + sibling, node + NODES, mask=(sibling >= 0) & (sibling < num_nodes))
    tl.debug_barrier()
    link = tl.load(link_ptr + number, mask=is_node, other=-1)

    parent = tl.where(node == 0, ROOT, tl.where(link < NODES, link, -1))
    eldest = tl.where((node > 0) & (link >= NODES), link - NODES, node)
    reach = 1
    while reach < num_nodes:
        eldest = _pass_between_nodes(eldest, eldest, link_ptr, first, number, is_node, NODES)
        reach *= 2
    parent = _pass_between_nodes(parent, eldest, link_ptr, first, number, is_node, NODES)

    has_known_token = (token >= 0) & (token < vocab)
    is_root = is_node & (parent == ROOT)
    state = tl.where(is_root & (start < num_states), start, tl.where(is_root, -1, NOT_TRIED))
    num_rounds = 0
    num_tried = 1
    while (num_tried > 0) & (num_rounds < num_nodes):
        above = _pass_between_nodes(state, tl.maximum(parent, 0), link_ptr, first, number, is_node, NODES)
        is_tried = (parent >= 0) & (state == NOT_TRIED) & (above >= 0)
        is_over = tl.load(is_terminated_ptr + above, mask=is_tried, other=1) != 0
        following_ptr = transitions_ptr + above.to(tl.int64) * state_stride + token * token_stride
        following = tl.load(following_ptr, mask=is_tried & has_known_token, other=-1)
        is_reached = (is_over == 0) & (following >= 0) & (following < num_states)
        state = tl.where(is_tried, tl.where(is_reached, following, -1), state)
        num_tried = tl.sum(tl.sum(is_tried.to(tl.int32), 1), 0)
        num_rounds += 1
    is_over = tl.load(is_terminated_ptr + state, mask=state >= 0, other=1) != 0
    state = tl.where(is_over, -1, state)
    tl.store(state_ptr + number, state, mask=is_node)
    if leader_ptr is not None:
        tl.store(leader_ptr + state, number.to(tl.int32), mask=is_node & (state >= 0))


@triton.jit(do_not_specialize=["num_items", "num_rows", "vocab"])
def _fill_bitmask_kernel(
    transitions_ptr,
    state_ptr,
    leader_ptr,
    vocab_mask_ptr,
    num_items,
    num_rows,
    vocab,
    num_words,
    state_stride,
    token_stride,
    ROWS: tl.constexpr,
    WORDS: tl.constexpr,
):
    """Pack the tokens that follow the state of each row, or of each state's leader; rows without one allow everything.

    Where no row has a state, its leader is whatever the memory held before: perhaps a row of another state, which is
    left to the leader of that one.
    """
    follow_previous()
    item = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    first = tl.program_id(1) * WORDS
    row = item
    is_row = item < num_items
    if leader_ptr is not None:
        row = tl.load(leader_ptr + item, mask=is_row, other=-1).to(tl.int64)
        is_row = (row >= 0) & (row < num_rows)
    state = tl.load(state_ptr + row, mask=is_row, other=-1)
    if leader_ptr is not None:
        is_row = is_row & (state == item)
    is_filled = is_row & (state >= 0)
    token = first * 32 + tl.arange(0, WORDS * 32)
    entry_ptr = transitions_ptr + (state.to(tl.int64) * state_stride)[:, None] + (token.to(tl.int64) * token_stride)
    following = tl.load(entry_ptr, mask=is_filled[:, None] & (token < vocab)[None, :], other=-1)
    bit = (following >= 0).to(tl.uint32) << (token % 32).to(tl.uint32)[None, :]
    allowed = tl.sum(tl.reshape(bit, [ROWS, WORDS, 32]), 2).to(tl.int32, bitcast=True)
    word = first + tl.arange(0, WORDS)
    packed = tl.where(is_filled[:, None], allowed, -1)
    mask = is_row[:, None] & (word < num_words)[None, :]
    tl.store(vocab_mask_ptr + (row * num_words)[:, None] + word[None, :], packed, mask=mask)


@triton.jit(do_not_specialize=["num_rows"])
def _copy_bitmask_kernel(
    state_ptr,
    leader_ptr,
    vocab_mask_ptr,
    num_rows,
    num_vectors,
    VECTOR: tl.constexpr,
    ROWS: tl.constexpr,
    WORDS: tl.constexpr,
):
    """Copy the words of the leader of each row's state, whose row is complete; rows without one allow everything."""
    follow_previous()
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    word = tl.program_id(1) * WORDS + tl.arange(0, WORDS)
    num_words = num_vectors * VECTOR
    state = tl.load(state_ptr + row, mask=row < num_rows, other=-1)
    leader = tl.load(leader_ptr + state, mask=state >= 0, other=-1).to(tl.int64)
    is_word = (word < num_words)[None, :]
    leading_ptr = vocab_mask_ptr + (leader * num_words)[:, None] + word[None, :]
    packed = tl.load(leading_ptr, mask=(leader >= 0)[:, None] & is_word, other=-1)
    mask = ((row < num_rows) & (row != leader))[:, None] & is_word
    tl.store(vocab_mask_ptr + (row * num_words)[:, None] + word[None, :], packed, mask=mask)
