"""Walks along trees that lie in registers: tiles of a request and its nodes, as wide as a warp at least.

Of ``links`` the first is the first child of each node, the second its next sibling, both -1 where there is none. Where
tiles have an axis of requests before that of nodes, so have places, which are tiles of one node.
"""

import triton
import triton.language as tl

LEAST_INT32 = tl.constexpr(-(2**31))
FOUND = tl.constexpr(2**31 - 1)


@triton.jit
def load_links(retrieve_next_token_ptr, retrieve_next_sibling_ptr, number, inside, num_nodes):
    """Read first children and next siblings; what is no node of the request reads as -1."""
    child = tl.load(retrieve_next_token_ptr + number, mask=inside, other=-1)
    sibling = tl.load(retrieve_next_sibling_ptr + number, mask=inside, other=-1)
    child = tl.where((child >= 0) & (child < num_nodes), child, -1)
    sibling = tl.where((sibling >= 0) & (sibling < num_nodes), sibling, -1)
    return child.to(tl.int32), sibling.to(tl.int32)


@triton.jit
def entry_of(entries, node, place):
    """Return the entry of one node of each request."""
    return tl.max(tl.where(node == place, entries, LEAST_INT32), axis=len(entries.shape) - 1, keep_dims=True)


@triton.jit
def is_any(flags):
    """Return whether any flag of a tile is set; a tile of several requests has one for each."""
    largest = tl.max(flags.to(tl.int32), axis=0)
    if len(flags.shape) == 2:
        largest = tl.max(largest, axis=0)
    return largest > 0


@triton.jit
def child_with(target, last, is_walking, node, tokens, links, num_nodes):
    """Return the first child of a node that has a token, -1 if there is none, for all requests at once.

    The loop ends after at most as many rounds as there are nodes, whatever the links say.
    """
    following = tl.where(tokens == target, FOUND, links[1])
    child = tl.where(is_walking, entry_of(links[0], node, last), -1)
    found = tl.full(child.shape, -1, dtype=tl.int32)
    tries = 0
    while is_any(child >= 0) & (tries < num_nodes):
        sibling = tl.where(child >= 0, entry_of(following, node, child), -1)
        found = tl.where(sibling == FOUND, child, found)
        child = tl.where(sibling == FOUND, -1, sibling)
        tries += 1
    return found
