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
    tokens_ptr,
    siblings_ptr,
    row_ptr,
    row_stride,
    tried_ptr,
    tried_stride,
    coin,
    threshold_single,
    threshold_acc,
    num_nodes,
    vocab,
    STRICT: tl.constexpr,
    SKIP_DUPLICATES: tl.constexpr,
    NODES: tl.constexpr,
):
    """Try a child and its siblings one after another with one coin, and write down the probability of each rejected.

    Returns whether one was accepted, which, its token, and how many were rejected.
    """
    node = tl.arange(0, NODES)
    mass = tl.full([], 0.0, dtype=tl.float64)
    is_tried = node < 0
    num_tries = tl.full([], 0, dtype=tl.int32)
    num_rejected = tl.full([], 0, dtype=tl.int32)
    is_accepted = num_tries < 0
    accepted = tl.full([], 0, dtype=tl.int64)
    token = tl.full([], -1, dtype=tl.int64)
    is_trying = (child >= 0) & (child < num_nodes)
    while is_trying:
        token = tl.load(tokens_ptr + child)
        is_token = (token >= 0) & (token < vocab)
        probability = tl.load(row_ptr + token * row_stride, mask=is_token, other=0.0)
        share = probability.to(tl.float64)
        is_repeated = num_tries < 0
        if SKIP_DUPLICATES:
            is_repeated = tl.max((is_tried & (token_of == token)).to(tl.int32), 0) > 0
        mass += tl.where(is_repeated, 0.0, share)
        # NOTE: the sum is divided here, and the coin multiplied in walks over logits; the last bits differ.
        is_taken = takes(share, coin, mass / threshold_acc, threshold_single, STRICT)
        is_accepted = (is_repeated == 0) & is_taken
        is_rejected = (is_repeated == 0) & (is_taken == 0)
        tl.store(tried_ptr + token * tried_stride, probability, mask=is_rejected & is_token)
        is_tried = is_tried | ((node == child) & is_rejected)
        num_rejected += is_rejected.to(tl.int32)
        num_tries += 1
        accepted = tl.where(is_accepted, child, accepted)
        child = tl.load(siblings_ptr + child)
        is_trying = (is_accepted == 0) & (child >= 0) & (child < num_nodes) & (num_tries < num_nodes)
    return is_accepted, accepted, token, num_rejected
