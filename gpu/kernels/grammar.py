"""Kernels of ``specsim.gpu.grammar``: which nodes a grammar reaches, then the words of their masks."""

import triton
import triton.language as tl

ROOT = tl.constexpr(-2)


@triton.jit(do_not_specialize=["num_requests", "num_nodes", "num_states", "vocab"])
def _reach_nodes_kernel(
    transitions_ptr,
    is_terminated_ptr,
    candidates_ptr,
    retrieve_next_token_ptr,
    retrieve_next_sibling_ptr,
    grammar_state_ptr,
    parent_ptr,
    state_ptr,
    num_requests,
    num_nodes,
    num_states,
    vocab,
    state_stride,
    token_stride,
    REQUESTS: tl.constexpr,
    NODES: tl.constexpr,
):
    """Write the grammar's state at every node of a block of requests, -1 where the grammar does not get to.

    All nodes look for their children at once; then every round reaches one more level. Each loop ends after at most
    as many rounds as there are nodes, whatever the links say.
    """
    request = tl.program_id(0).to(tl.int64) * REQUESTS + tl.arange(0, REQUESTS)[:, None]
    node = tl.arange(0, NODES)[None, :]
    is_node = (request < num_requests) & (node < num_nodes)
    first = request * num_nodes
    number = first + node
    tl.store(parent_ptr + number, tl.full([REQUESTS, NODES], -1, dtype=tl.int32), mask=is_node)
    tl.debug_barrier()

    child = tl.load(retrieve_next_token_ptr + number, mask=is_node, other=-1)
    is_linked = (child >= 0) & (child < num_nodes)
    parent = tl.zeros_like(first).to(tl.int32) + node
    num_tries = 0
    while (tl.max(is_linked.to(tl.int32)) > 0) & (num_tries < num_nodes):
        tl.store(parent_ptr + first + child, parent, mask=is_linked)
        child = tl.load(retrieve_next_sibling_ptr + first + child, mask=is_linked, other=-1)
        is_linked = is_linked & (child >= 0) & (child < num_nodes)
        num_tries += 1

    root = tl.zeros_like(request)
    is_linked = request < num_requests
    num_tries = 0
    while (tl.max(is_linked.to(tl.int32)) > 0) & (num_tries < num_nodes):
        tl.store(parent_ptr + first + root, tl.zeros_like(root).to(tl.int32) + ROOT, mask=is_linked)
        root = tl.load(retrieve_next_sibling_ptr + first + root, mask=is_linked, other=-1)
        is_linked = is_linked & (root >= 0) & (root < num_nodes)
        num_tries += 1
    tl.debug_barrier()

    parent = tl.load(parent_ptr + number, mask=is_node, other=-1)
    token = tl.load(candidates_ptr + number, mask=is_node, other=-1)
    is_known_token = (token >= 0) & (token < vocab)
    start = tl.load(grammar_state_ptr + request, mask=request < num_requests, other=-1)
    state = tl.where(is_node & (parent == ROOT) & (start < num_states), start, -1)
    num_rounds = 0
    num_added = 1
    while (num_added > 0) & (num_rounds < num_nodes):
        tl.store(state_ptr + number, state, mask=is_node)
        tl.debug_barrier()
        above = tl.load(state_ptr + first + parent, mask=is_node & (parent >= 0) & (state < 0), other=-1)
        is_over = tl.load(is_terminated_ptr + above, mask=above >= 0, other=1) != 0
        is_open = (above >= 0) & (is_over == 0) & is_known_token
        following = tl.load(
            transitions_ptr + above.to(tl.int64) * state_stride + token * token_stride, mask=is_open, other=-1
        )
        following = tl.where(following < num_states, following, -1)
        is_added = is_open & (following >= 0)
        state = tl.where(is_added, following, state)
        num_added = tl.sum(tl.sum(is_added.to(tl.int32), 1), 0)
        num_rounds += 1
        tl.debug_barrier()
    tl.store(state_ptr + number, state, mask=is_node)


@triton.jit(do_not_specialize=["num_rows", "vocab"])
def _fill_bitmask_kernel(
    transitions_ptr,
    is_terminated_ptr,
    state_ptr,
    vocab_mask_ptr,
    num_rows,
    vocab,
    num_words,
    state_stride,
    token_stride,
    ROWS: tl.constexpr,
    WORDS: tl.constexpr,
):
    """Pack the tokens that follow each row's state; rows without a state, and of terminated ones, allow everything."""
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    first = tl.program_id(1) * WORDS
    state = tl.load(state_ptr + row, mask=row < num_rows, other=-1)
    is_over = tl.load(is_terminated_ptr + state, mask=state >= 0, other=1) != 0
    is_filled = (state >= 0) & (is_over == 0)
    token = first * 32 + tl.arange(0, WORDS * 32)
    entry_ptr = transitions_ptr + (state.to(tl.int64) * state_stride)[:, None] + (token.to(tl.int64) * token_stride)
    following = tl.load(entry_ptr, mask=is_filled[:, None] & (token < vocab)[None, :], other=-1)
    bit = (following >= 0).to(tl.uint32) << (token % 32).to(tl.uint32)[None, :]
    allowed = tl.sum(tl.reshape(bit, [ROWS, WORDS, 32]), 2).to(tl.int32, bitcast=True)
    word = first + tl.arange(0, WORDS)
    packed = tl.where(is_filled[:, None], allowed, -1)
    mask = (row < num_rows)[:, None] & (word < num_words)[None, :]
    tl.store(vocab_mask_ptr + (row * num_words)[:, None] + word[None, :], packed, mask=mask)
