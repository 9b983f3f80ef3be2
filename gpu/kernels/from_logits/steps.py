"""One step of a walk by chance: load the tree, try children, draw.

``listed`` is as in ``thresholds``, ``rejected`` as in ``residuals``; ``tree_ptrs`` points to a request's tokens, first
children and siblings.
"""

import triton
import triton.language as tl

from specsim.gpu.kernels.device.trying import takes
from specsim.gpu.kernels.from_logits.residuals import first_beyond, without_rejected
from specsim.gpu.kernels.from_logits.thresholds import share_of


@triton.jit
def load_tree(tree_ptrs, node, is_inner, num_nodes, NODES: tl.constexpr):
    """Read a request's tokens and siblings, and the first child of one node; none where the walk ends at it."""
    tile = tl.arange(0, NODES)
    child = tl.load(tree_ptrs[1] + node, mask=is_inner, other=-1)
    siblings = tl.load(tree_ptrs[2] + tile, mask=tile < num_nodes, other=-1)
    tokens = tl.load(tree_ptrs[0] + tile, mask=tile < num_nodes, other=-1)
    return child, siblings, tokens


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
