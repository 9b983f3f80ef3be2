"""One step of a walk by chance: load, filter, try, draw.

``row`` and ``listed`` are as in ``thresholds``, ``rejected`` as in ``residuals``; ``tree_ptrs`` points to a request's
tokens, first children and siblings.
"""

import triton
import triton.language as tl

from specsim.gpu.kernels.device.trying import takes
from specsim.gpu.kernels.from_logits.residuals import first_beyond, without_rejected
from specsim.gpu.kernels.from_logits.row_filters import keep
from specsim.gpu.kernels.from_logits.thresholds import share_of, weigh


@triton.jit
def load_chunks(chunk_max_ptr, chunk_bound_ptr, place, num_chunks, CHUNKS: tl.constexpr):
    """Read the largest logit of each chunk, and the bound from which on its list holds every logit."""
    chunk = tl.arange(0, CHUNKS)
    number = place * num_chunks + chunk
    chunk_max = tl.load(chunk_max_ptr + number, mask=chunk < num_chunks, other=float("-inf"))
    return chunk_max, tl.load(chunk_bound_ptr + number, mask=chunk < num_chunks, other=float("-inf"))


@triton.jit
def load_tree(tree_ptrs, node, is_inner, num_nodes, NODES: tl.constexpr):
    """Read a request's tokens and siblings, and the first child of one node; none where the walk ends at it."""
    tile = tl.arange(0, NODES)
    child = tl.load(tree_ptrs[1] + node, mask=is_inner, other=-1)
    siblings = tl.load(tree_ptrs[2] + tile, mask=tile < num_nodes, other=-1)
    tokens = tl.load(tree_ptrs[0] + tile, mask=tile < num_nodes, other=-1)
    return child, siblings, tokens


@triton.jit
def load_listed(logits_ptr, tokens_ptr, place, num_chunks, vocab, SLOTS: tl.constexpr, CHUNKS: tl.constexpr):
    """Read the lists of all chunks of a row: its largest logits, and their tokens in order."""
    slot = tl.arange(0, CHUNKS * SLOTS)
    number = place * num_chunks * SLOTS + slot
    is_listed = slot < num_chunks * SLOTS
    logit = tl.load(logits_ptr + number, mask=is_listed, other=float("-inf"))
    return logit, tl.load(tokens_ptr + number, mask=is_listed, other=vocab)


@triton.jit
def weigh_blocks(
    block_mass_ptr,
    chunk_max_ptr,
    row,
    top_k,
    place,
    num_chunks,
    PRECISE: tl.constexpr,
    CHUNKS: tl.constexpr,
    RATIO: tl.constexpr,
):
    """Return the weight of each block relative to the row's largest logit, and their sum; 1 where top-k decides.

    A chunk has RATIO blocks.
    """
    block = tl.arange(0, CHUNKS * RATIO)
    block_mass = tl.zeros([CHUNKS * RATIO], dtype=tl.float64)
    total = tl.zeros([], dtype=tl.float64) + 1.0
    if PRECISE | (top_k >= row[1]):
        is_block = block < num_chunks * RATIO
        block_mass = tl.load(block_mass_ptr + place * num_chunks * RATIO + block, mask=is_block, other=0.0)
        chunk_max = tl.load(chunk_max_ptr + place * num_chunks + block // RATIO, mask=is_block, other=float("-inf"))
        block_mass *= weigh(chunk_max, row[3], row[4], PRECISE).to(tl.float64)
        total = tl.sum(block_mass, axis=0)
    return block_mass, total


@triton.jit
def filter_row(
    listed,
    listed_token,
    row,
    total,
    known_from,
    filters,
    is_greedy,
    PRECISE: tl.constexpr,
    SHIFT: tl.constexpr,
    WAYS: tl.constexpr,
    ROW_WAYS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Filter a row by its lists, or by reading it again where they do not suffice; a greedy row keeps its choice.

    Returns the least logit kept, the last token that may be kept, the weight of what is kept, and whether the lists
    hold all of it.
    """
    last_token = row[1] - 1
    threshold = row[3]
    mass = total * 0.0 + 1.0
    is_certain = is_greedy
    if is_greedy:
        last_token = tl.min(tl.where(listed[0] == row[3], listed_token, row[1] - 1), axis=0)
    else:
        threshold, mass, is_certain = keep(listed, row, total, known_from, filters, False, PRECISE, SHIFT, WAYS, BLOCK)
        if not is_certain:
            threshold, mass, _ = keep(listed, row, total, known_from, filters, True, PRECISE, SHIFT, ROW_WAYS, BLOCK)
    return threshold, last_token, mass, is_certain


@triton.jit
def try_children(
    first_child,
    sibling_tile,
    token_tile,
    share_tile,
    goal,
    threshold_single,
    strict,
    skip_duplicates,
    num_nodes,
    NODES: tl.constexpr,
):
    """Try the children of a node one after another with its coin; return the one accepted, and whether none was.

    The loop ends after at most as many rounds as there are nodes, whatever the links say.
    """
    node_tile = tl.arange(0, NODES)
    child = first_child
    mass = goal * 0.0
    is_stuck = True
    tries = 0
    while is_stuck & (child >= 0) & (child < num_nodes) & (tries < num_nodes):
        is_child = node_tile == child
        share = tl.sum(tl.where(is_child, share_tile, 0.0), axis=0)
        if share >= 0:
            mass += share.to(tl.float64)
            is_stuck = takes(share, goal, mass, threshold_single, strict) == 0
            if is_stuck & (skip_duplicates != 0):
                token = tl.sum(tl.where(is_child, token_tile, 0), axis=0)
                share_tile = tl.where(token_tile == token, -1.0, share_tile)
        if is_stuck:
            child = tl.sum(tl.where(is_child, sibling_tile, 0), axis=0)
        tries += 1
    return child, is_stuck | (child < 0) | (child >= num_nodes)


@triton.jit
def draw_from_listed(
    listed, listed_token, threshold, last_token, inverse, scale, rejected, coin, PRECISE: tl.constexpr
):
    """Draw from the lists of a row, which hold all that it keeps."""
    is_drawn = (listed[0] >= threshold) & (listed_token <= last_token)
    is_drawn = is_drawn & (share_of(listed[1], inverse, PRECISE) > 0)
    weight = tl.where(is_drawn, (listed[1] * scale).to(tl.float32), 0.0).to(tl.float64)
    weight = without_rejected(weight, listed_token, rejected)
    return first_beyond(weight, listed_token, 0.0, coin * tl.sum(weight, axis=0))
