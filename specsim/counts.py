"""Drafts, tokens, bonus: the one place where a count of drafts becomes a count of tokens, and the other way round.

A verify accepts ``num_accepted_drafts`` drafts and outputs ``num_accepted_tokens`` tokens, the accepted drafts and
one bonus token. Counters carry drafts and verifies; their tokens are derived here. What a tree or a path has besides
its drafts is its root, which is counted here too. Nothing is computed in place.
"""

from typing import Any, overload

BONUS_TOKENS_PER_VERIFY = 1
ROOTS_PER_TREE = 1


def count_tokens(num_accepted_drafts: Any, num_verifies: Any = 1) -> Any:
    """Return the output tokens of some verifies as a new value; the arguments are left as they are.

    Parameters
    ----------
    num_accepted_drafts : int or array
        What the verifies accepted, D.
    num_verifies : int or array
        How many they are, C.

    Notes
    -----
    Source: semantics 0.5, H.1: T = D + C.
    """
    return num_accepted_drafts + num_verifies * BONUS_TOKENS_PER_VERIFY


def count_drafts(num_accepted_tokens: Any, num_verifies: Any = 1) -> Any:
    """Return the accepted drafts among the output tokens of some verifies: the inverse of ``count_tokens``."""
    return num_accepted_tokens - num_verifies * BONUS_TOKENS_PER_VERIFY


def count_nodes(num_drafts: Any) -> Any:
    """Return the nodes of a tree that holds so many drafts: these and the root."""
    return num_drafts + ROOTS_PER_TREE


def count_draft_nodes(num_draft_tokens: Any) -> Any:
    """Return the drafts among the nodes of a tree: all but the root."""
    return num_draft_tokens - ROOTS_PER_TREE


def count_candidates(topk: int, num_steps: int) -> int:
    """Return how many nodes a draft of ``num_steps`` levels proposes before pruning (root excluded).

    A chain may have no level, and then proposes nothing.
    """
    return topk + (num_steps - 1) * topk * topk


def path_width(num_steps: int) -> int:
    """Return the width of an ``accept_index`` row: the root and one node a level."""
    return num_steps + ROOTS_PER_TREE


@overload
def floor_to(count: int, multiple: int) -> int: ...
@overload
def floor_to(count: Any, multiple: Any) -> Any: ...
def floor_to(count: Any, multiple: Any) -> Any:
    """Return the largest multiple that is at most ``count``, a number or an array."""
    return count // multiple * multiple


@overload
def ceil_to(count: int, multiple: int) -> int: ...
@overload
def ceil_to(count: Any, multiple: Any) -> Any: ...
def ceil_to(count: Any, multiple: Any) -> Any:
    """Return the smallest multiple that is at least ``count``, a number or an array."""
    return -(-count // multiple) * multiple


def page_size_of_beams(topk: int, page_size: int) -> int:
    """Return the slots a page by which beams are laid out: a chain has one beam, which goes on where its text ends."""
    return page_size if topk > 1 else 1


def beam_stride(seq_lens: Any, topk: int, num_steps: int, page_size: int) -> Any:
    """Return how many positions lie between the entries of one beam and those of the next.

    In a paged tree that is whole pages: as many as the partial page at the end of the text and the entries take.

    Notes
    -----
    Source: semantics A.9.
    """
    size = page_size_of_beams(topk, page_size)
    return ceil_to(seq_lens % size + num_steps, size)


def draft_end(seq_lens: Any, topk: int, num_steps: int, page_size: int) -> Any:
    """Return the position after the last one that a draft may use: where a request's row has to reach.

    Notes
    -----
    Source: semantics A.9.
    """
    size = page_size_of_beams(topk, page_size)
    return floor_to(seq_lens, size) + topk * beam_stride(seq_lens, topk, num_steps, page_size)


def decode_allocation(topk: int, num_steps: int, num_draft_tokens: int) -> int:
    """Return how many positions past the committed length one iteration may touch; beams on pages take more."""
    return max(num_steps * topk, num_draft_tokens)


def decode_reserve(topk: int, num_steps: int, num_draft_tokens: int) -> int:
    """Return how many positions past the committed length V2 keeps allocated: two iterations' worth."""
    return 2 * decode_allocation(topk, num_steps, num_draft_tokens)
