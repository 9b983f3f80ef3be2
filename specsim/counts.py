"""Drafts, tokens, bonus: the one place where a count of drafts becomes a count of tokens.

A verify accepts ``num_accepted_drafts`` drafts and outputs ``num_accepted_tokens`` tokens, the accepted drafts and
one bonus token. Both counts always travel together; neither is ever computed from the other in place.
"""

from typing import Any

BONUS_TOKENS_PER_VERIFY = 1


def count_tokens(num_accepted_drafts: Any) -> Any:
    """Return the count of output tokens as a new value; the argument is left as it is."""
    return num_accepted_drafts + BONUS_TOKENS_PER_VERIFY


def count_candidates(topk: int, num_steps: int) -> int:
    """Return how many nodes a draft of ``num_steps`` levels proposes before pruning (root excluded)."""
    return topk + (num_steps - 1) * topk * topk


def path_width(num_steps: int) -> int:
    """Return the width of an ``accept_index`` row: the root and one node a level."""
    return num_steps + 1


def decode_allocation(topk: int, num_steps: int, num_draft_tokens: int) -> int:
    """Return how many positions past the committed length one iteration may touch (page size 1)."""
    return max(num_steps * topk, num_draft_tokens)


def decode_reserve(topk: int, num_steps: int, num_draft_tokens: int) -> int:
    """Return how many positions past the committed length V2 keeps allocated: two iterations' worth."""
    return 2 * decode_allocation(topk, num_steps, num_draft_tokens)
