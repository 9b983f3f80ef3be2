"""Ragged chains, as engines take them: one length at a time, and nothing behind the end of a draft."""

from collections.abc import Iterator
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


def drafted_lengths(draft_tokens: "torch.Tensor", cu_num_drafts: "torch.Tensor") -> list[tuple[int, int, int]]:
    """Return of each request where its drafts start, how many rows they have, and how many there are before a -1."""
    starts = cu_num_drafts.tolist()
    tokens = draft_tokens.tolist()
    found = []
    for first, last in pairwise(starts):
        drafted = tokens[first:last]
        found.append((first, last - first, drafted.index(-1) if -1 in drafted else len(drafted)))
    return found


def by_length(chains: list[tuple[int, int, int]]) -> Iterator[tuple[int, list[int]]]:
    """Yield every length that occurs and the requests that have it."""
    for length in sorted({drafted for _, _, drafted in chains}):
        yield length, [request for request, (_, _, drafted) in enumerate(chains) if drafted == length]


def one_hot(draft_tokens: "torch.Tensor", vocab: int) -> "torch.Tensor":
    """Return the law of drafts that were not drawn: each is certain."""
    import torch

    return torch.nn.functional.one_hot(draft_tokens.clamp(min=0), vocab).float()
