"""Trees: from kept candidates to links, positions and masks, and from masks back to links.

A node's ancestors are one 64-bit word for every 64 columns of the mask; pointer doubling over parents closes them.
"""

import triton
import triton.language as tl

from specsim.gpu.kernels.device.succession import follow_previous

WORD_BITS = tl.constexpr(64)
EIGHT_TRUE = tl.constexpr(0x0101010101010101)


@triton.jit
def find_parents(
    parent_list_ptr, kept_ptr, parent_width, num_nodes, TOPK: tl.constexpr, NODES: tl.constexpr, BLOCK: tl.constexpr
):
    """Return the parent of each node and whether it is linked; an orphan hangs below the root, but is not linked.

    A row of kept candidates has one entry less than the tree has nodes.
    """
    node = tl.arange(0, NODES)
    is_draft = (node >= 1) & (node < num_nodes)
    candidate = tl.load(kept_ptr + node - 1, mask=is_draft, other=0)
    group = candidate // TOPK
    is_listed = is_draft & (candidate >= TOPK) & (group < parent_width)
    sought = tl.load(parent_list_ptr + group, mask=is_listed, other=-1).to(tl.int32)
    parent = tl.full([NODES], NODES, dtype=tl.int32)
    for first in range(0, num_nodes - 1, BLOCK):
        place = first + tl.arange(0, BLOCK)
        kept = tl.load(kept_ptr + place, mask=place < num_nodes - 1, other=-2).to(tl.int32)
        is_parent = sought[:, None] == kept[None, :]
        parent = tl.minimum(parent, tl.min(tl.where(is_parent, place[None, :] + 1, NODES), axis=1))
    is_found = is_listed & (sought >= 0) & (parent < node)
    is_linked = is_draft & (is_found | ((candidate >= 0) & (candidate < TOPK)))
    return tl.where(is_found, parent, 0), is_linked


@triton.jit
def take_block(values, first, NODES: tl.constexpr, BLOCK: tl.constexpr):
    """Return entries ``first`` to ``first + BLOCK`` of a tile."""
    return values if BLOCK == NODES else tl.gather(values, first + tl.arange(0, BLOCK), axis=0)


@triton.jit
def next_siblings(parent, num_nodes, NODES: tl.constexpr, BLOCK: tl.constexpr):
    """Return the next node with the same parent; -1 if there is none or the node's parent is negative."""
    node = tl.arange(0, NODES)
    sibling = tl.full([NODES], NODES, dtype=tl.int32)
    for first in range(0, num_nodes, BLOCK):
        other = first + tl.arange(0, BLOCK)
        other_parent = take_block(parent, first, NODES, BLOCK)
        is_later = (other_parent[None, :] == parent[:, None]) & (other[None, :] > node[:, None])
        is_later = is_later & (other[None, :] < num_nodes)
        sibling = tl.minimum(sibling, tl.min(tl.where(is_later, other[None, :], NODES), axis=1))
    return tl.where((sibling < NODES) & (parent >= 0), sibling, -1)


@triton.jit
def first_children(parent, num_nodes, NODES: tl.constexpr, BLOCK: tl.constexpr):
    """Return the smallest node whose parent each node is, -1 if there is none."""
    node = tl.arange(0, NODES)
    child = tl.full([NODES], NODES, dtype=tl.int32)
    for first in range(0, num_nodes, BLOCK):
        other = first + tl.arange(0, BLOCK)
        other_parent = take_block(parent, first, NODES, BLOCK)
        is_child = (other_parent[None, :] == node[:, None]) & (other[None, :] < num_nodes)
        child = tl.minimum(child, tl.min(tl.where(is_child, other[None, :], NODES), axis=1))
    return tl.where(child < NODES, child, -1)


@triton.jit
def close_ancestors(parent, word, ROUNDS: tl.constexpr, NODES: tl.constexpr):
    """Return which of 64 columns each node sees, itself and the root included, and its depth; doubling ROUNDS times."""
    node = tl.arange(0, NODES)
    column = node - word * WORD_BITS
    is_own = (column >= 0) & (column < WORD_BITS)
    one = tl.full([NODES], 1, dtype=tl.int64)
    ancestors = tl.where(is_own, one << tl.where(is_own, column, 0).to(tl.int64), 0)
    ancestors = ancestors | tl.where(word == 0, one, 0)
    depth = tl.where(node > 0, 1, 0)
    hop = parent
    for _ in tl.static_range(ROUNDS):
        ancestors = ancestors | tl.gather(ancestors, hop, axis=0)
        depth += tl.gather(depth, hop, axis=0)
        hop = tl.gather(hop, hop, axis=0)
    return ancestors, depth


@triton.jit
def write_columns(tree_mask_ptr, mask_length, first, ancestors, word, row_width, num_nodes, NODES: tl.constexpr):
    """Store 64 columns of the window that begins at an entry, one byte an entry, as far as the mask is long."""
    node = tl.arange(0, NODES)
    column = tl.arange(0, min(NODES, WORD_BITS))
    visible = (ancestors[:, None] >> column[None, :].to(tl.int64)) & 1
    target = first + (node * row_width)[:, None] + (word * WORD_BITS + column)[None, :]
    inside = (node < num_nodes)[:, None] & (word * WORD_BITS + column < num_nodes)[None, :] & (target < mask_length)
    tl.store(tree_mask_ptr + target, visible.to(tl.uint8), mask=inside)


@triton.jit
def fill_prefix(
    tree_mask_ptr, mask_length, start, length, num_nodes, share, num_shares, ROWS: tl.constexpr, WORDS: tl.constexpr
):
    """Make the prefix columns of a request's rows True: whole 8-byte words inside, bytes at both ends."""
    words_ptr = tree_mask_ptr.to(tl.pointer_type(tl.int64), bitcast=True)
    for first_row in range(share * ROWS, num_nodes, num_shares * ROWS):
        row = first_row + tl.arange(0, ROWS)
        begin = start + row * (length + num_nodes)
        end = tl.where(row < num_nodes, begin + length, begin)
        end = tl.minimum(end, mask_length)
        first_word = (begin + 7) // 8
        last_word = tl.maximum(end // 8, first_word)
        for offset in range(0, length // 8 + 1, WORDS):
            word = first_word[:, None] + offset + tl.arange(0, WORDS)[None, :]
            true_word = tl.full([ROWS, WORDS], EIGHT_TRUE, dtype=tl.int64)
            tl.store(words_ptr + word, true_word, mask=word < last_word[:, None])
        true_byte = tl.full([ROWS, 8], 1, dtype=tl.uint8)
        head = begin[:, None] + tl.arange(0, 8)[None, :]
        tl.store(tree_mask_ptr + head, true_byte, mask=head < tl.minimum(first_word * 8, end)[:, None])
        tail = (last_word * 8)[:, None] + tl.arange(0, 8)[None, :]
        tl.store(tree_mask_ptr + tail, true_byte, mask=tail < end[:, None])


@triton.jit
def write_links(link_ptrs, request, child, sibling, num_nodes, NODES: tl.constexpr):
    """Store what every tree has but positions: global numbers and links."""
    retrieve_index_ptr, retrieve_next_token_ptr, retrieve_next_sibling_ptr, _ = link_ptrs
    node = tl.arange(0, NODES)
    is_node = node < num_nodes
    number = request * num_nodes + node
    tl.store(retrieve_index_ptr + number, number, mask=is_node)
    tl.store(retrieve_next_token_ptr + number, child.to(tl.int64), mask=is_node)
    tl.store(retrieve_next_sibling_ptr + number, sibling.to(tl.int64), mask=is_node)


@triton.jit
def write_tree(
    bonus_tokens_ptr,
    kept_ptrs,
    draft_token_ptr,
    link_ptrs,
    tree_mask_ptr,
    request,
    length,
    word,
    window,
    num_nodes,
    parent_width,
    TOPK: tl.constexpr,
    ROUNDS: tl.constexpr,
    NODES: tl.constexpr,
    BLOCK: tl.constexpr,
    IS_PACKED: tl.constexpr,
    LINKS: tl.constexpr,
):
    """Write 64 mask columns of one request's tree, with the first ones positions, with ``word`` LINKS tokens and links.

    ``window`` is where the mask of the request starts, how wide its rows are, and how long the whole mask is.
    """
    start, row_width, mask_length = window
    parent_list_ptr, top_scores_index_ptr, draft_tokens_ptr = kept_ptrs
    node = tl.arange(0, NODES)
    is_node = node < num_nodes
    number = request * num_nodes + node
    kept_ptr = top_scores_index_ptr + request * (num_nodes - 1)
    parents_ptr = parent_list_ptr + request * parent_width
    # Tokens are read while parents are looked for: read where they are stored, they would be waited for again.
    is_draft = is_node & (node > 0) & (word == LINKS)
    token = tl.load(draft_tokens_ptr + request * (num_nodes - 1) + node - 1, mask=is_draft, other=0)
    token = tl.where(node == 0, tl.load(bonus_tokens_ptr + request).to(tl.int64), token)
    parent, is_linked = find_parents(parents_ptr, kept_ptr, parent_width, num_nodes, TOPK, NODES, BLOCK)

    if word == LINKS:
        linked_parent = tl.where(is_linked, parent, -1)
        child = first_children(linked_parent, num_nodes, NODES, BLOCK)
        sibling = next_siblings(linked_parent, num_nodes, NODES, BLOCK)
        write_links(link_ptrs, request, child, sibling, num_nodes, NODES)
        tl.store(draft_token_ptr + number, token, mask=is_node)
    if word >= 0:
        ancestors, depth = close_ancestors(parent, word, ROUNDS, NODES)
        tl.store(link_ptrs[3] + number, length + depth, mask=is_node & (word == 0))
        if IS_PACKED:
            tl.store(tree_mask_ptr + number, ancestors.to(tree_mask_ptr.dtype.element_ty), mask=is_node)
        else:
            first = start + (row_width - num_nodes)
            write_columns(tree_mask_ptr, mask_length, first, ancestors, word, row_width, num_nodes, NODES)


@triton.jit(do_not_specialize=["num_requests", "num_nodes", "parent_width", "mask_length"])
def _build_tree_kernel(
    bonus_tokens_ptr,
    kept_ptrs,
    seq_lens_ptr,
    draft_token_ptr,
    link_ptrs,
    tree_mask_ptr,
    num_requests,
    num_nodes,
    parent_width,
    mask_length,
    IS_FULL: tl.constexpr,
    IS_PACKED: tl.constexpr,
    TOPK: tl.constexpr,
    ROUNDS: tl.constexpr,
    NODES: tl.constexpr,
    BLOCK: tl.constexpr,
    NUM_WORDS: tl.constexpr,
    REQUESTS: tl.constexpr,
    LINKS: tl.constexpr,
    PREFIX: tl.constexpr,
):
    """Build one request's tree; program (b, w) writes mask columns 64w to 64w+63, later programs prefix columns.

    Links are written by the program of the first columns, LINKS 0, or by one before it, LINKS -1.
    """
    follow_previous()
    PREFIX_ROWS: tl.constexpr = PREFIX[0]
    PREFIX_WORDS: tl.constexpr = PREFIX[1]
    # No program reads what another one writes: each finds all parents again, which costs less than to wait for them.
    # Columns of a word, links and prefix rows have one writer each.
    request = tl.program_id(0).to(tl.int64)
    word = tl.program_id(1) + LINKS
    length = tl.load(seq_lens_ptr + request).to(tl.int64)
    row_width = num_nodes.to(tl.int64)
    start = request * num_nodes * num_nodes
    if IS_FULL:
        lane = tl.arange(0, REQUESTS)
        lengths = tl.load(seq_lens_ptr + lane, mask=lane < num_requests, other=0).to(tl.int64)
        start += num_nodes * tl.sum(tl.where(lane < request, lengths, 0), axis=0)
        row_width += length

        if word >= NUM_WORDS:
            share, num_shares = word - NUM_WORDS, tl.num_programs(1) - NUM_WORDS + LINKS
            fill_prefix(
                tree_mask_ptr, mask_length, start, length, num_nodes, share, num_shares, PREFIX_ROWS, PREFIX_WORDS
            )

    if word < NUM_WORDS:
        write_tree(
            bonus_tokens_ptr,
            kept_ptrs,
            draft_token_ptr,
            link_ptrs,
            tree_mask_ptr,
            request,
            length,
            word,
            (start, row_width, mask_length),
            num_nodes,
            parent_width,
            TOPK,
            ROUNDS,
            NODES,
            BLOCK,
            IS_PACKED,
            LINKS,
        )


@triton.jit(do_not_specialize=["num_nodes"])
def _reconstruct_indices_from_tree_mask_kernel(
    tree_mask_ptr,
    seq_lens_ptr,
    link_ptrs,
    num_nodes,
    request_stride,
    row_stride,
    column_stride,
    NODES: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Recover one request's tree: its matrix is read once by rows and once by columns, in blocks."""
    follow_previous()
    request = tl.program_id(0).to(tl.int64)
    mask_ptr = tree_mask_ptr + request * request_stride
    node = tl.arange(0, NODES)
    offset = node.to(tl.int64)
    is_node = node < num_nodes
    depth = tl.zeros([NODES], dtype=tl.int32)
    parent = tl.full([NODES], -1, dtype=tl.int32)
    descendant = tl.full([NODES], NODES, dtype=tl.int32)
    for first in range(0, num_nodes, BLOCK):
        other = first + tl.arange(0, BLOCK)
        other_offset = other.to(tl.int64)[None, :]
        before = is_node[:, None] & (other[None, :] < node[:, None])
        seen = tl.load(mask_ptr + offset[:, None] * row_stride + other_offset * column_stride, mask=before, other=0)
        is_ancestor = before & (seen != 0)
        depth += tl.sum(is_ancestor.to(tl.int32), axis=1)
        parent = tl.maximum(parent, tl.max(tl.where(is_ancestor, other[None, :], -1), axis=1))
        after = is_node[:, None] & (other[None, :] > node[:, None]) & (other[None, :] < num_nodes)
        seen = tl.load(mask_ptr + other_offset * row_stride + offset[:, None] * column_stride, mask=after, other=0)
        is_descendant = after & (seen != 0)
        descendant = tl.minimum(descendant, tl.min(tl.where(is_descendant, other[None, :], NODES), axis=1))
    write_links(
        link_ptrs,
        request,
        tl.where(descendant < NODES, descendant, -1),
        next_siblings(parent, num_nodes, NODES, BLOCK),
        num_nodes,
        NODES,
    )
    length = tl.load(seq_lens_ptr + request).to(tl.int64)
    tl.store(link_ptrs[3] + request * num_nodes + node, length + depth, mask=is_node)
