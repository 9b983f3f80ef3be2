"""Trying drafts with a coin, against probabilities that are there."""

import triton
import triton.language as tl


@triton.jit
def takes(share, goal, reached, threshold_single, strict):
    """Return whether a draft is accepted: the one place where the rule of acceptance by chance stands.

    ``share`` is the draft's probability, ``goal`` the coin and ``reached`` the sum of the probabilities tried with it,
    both as multiples of the same threshold. A strict walk takes no draft of probability 0, and none on equality.
    """
    is_reached = (goal < reached) | ((goal <= reached) & (strict == 0))
    return ((share > 0) | (strict == 0)) & (is_reached | (share >= threshold_single))


@triton.jit
def try_siblings(
    child,
    token_of,
    sibling_of,
    share_of,
    coin,
    threshold_single,
    threshold_acc,
    num_nodes,
    STRICT: tl.constexpr,
    SKIP_DUPLICATES: tl.constexpr,
    NODES: tl.constexpr,
):
    """Try a child and its siblings one after another with one coin; tiles hold what is known of every node.

    Returns whether one was accepted, which, its token, and which nodes were rejected. The loop ends after at most as
    many rounds as there are nodes, whatever the links say.
    """
    node = tl.arange(0, NODES)
    mass = tl.full([], 0.0, dtype=tl.float64)
    is_rejected = node < 0
    num_tries = tl.full([], 0, dtype=tl.int32)
    is_accepted = num_tries < 0
    accepted = tl.full([], 0, dtype=tl.int32)
    token = tl.full([], -1, dtype=tl.int32)
    is_trying = child >= 0
    while is_trying:
        is_child = node == child
        token = tl.sum(tl.where(is_child, token_of, 0), 0)
        share = tl.sum(tl.where(is_child, share_of, 0.0), 0).to(tl.float64)
        is_repeated = num_tries < 0
        if SKIP_DUPLICATES:
            is_repeated = tl.max((is_rejected & (token_of == token)).to(tl.int32), 0) > 0
        mass += tl.where(is_repeated, 0.0, share)
        # NOTE: the sum is divided here, and the coin multiplied in walks over logits; the last bits differ.
        is_taken = takes(share, coin, mass / threshold_acc, threshold_single, STRICT)
        is_accepted = (is_repeated == 0) & is_taken
        is_rejected = is_rejected | (is_child & (is_repeated == 0) & (is_taken == 0))
        num_tries += 1
        accepted = tl.where(is_accepted, child, accepted)
        child = tl.sum(tl.where(is_child, sibling_of, 0), 0)
        is_trying = (is_accepted == 0) & (child >= 0) & (num_tries < num_nodes)
    return is_accepted, accepted, token, is_rejected
