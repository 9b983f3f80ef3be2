"""A simulated draft: the recursion that select, organize and build expect, one request at a time.

Probabilities are at most 1, so that a child never scores above its parent; that is what keeps the selection closed
under parents.
"""

from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from specsim.properties.strategies.arrays import Array, Bulk, bulk
from specsim.properties.strategies.made_once import made_once
from specsim.properties.strategies.topologies import Sizes
from specsim.reference import organize_draft_results, select_top_k_tokens

PROBABILITY_KINDS = ("eighths", "ones", "zeros", "spike", "real")
_DEEP = 12


@dataclass(frozen=True)
class Proposal:
    """What one request drafts: how sure the draft model is, and a source of its tokens and probabilities."""

    kind: str
    vocab: int
    source: Bulk


@dataclass(frozen=True)
class Draft:
    """The blocks of every step of one request: scores [branch, topk], tokens and parents' flat ids, flat."""

    scores: tuple[Array, ...]
    tokens: tuple[Array, ...]
    parents: tuple[Array, ...]


@made_once
def proposals() -> SearchStrategy[Proposal]:
    """Return a strategy of proposals; small vocabularies make equal tokens common."""
    return st.builds(Proposal, st.sampled_from(PROBABILITY_KINDS), st.sampled_from((1, 2, 3, 8, 50)), bulk())


def propose(size: Sizes, proposal: Proposal) -> Draft:
    """Run the draft recursion of one request on made-up probabilities."""
    scores, tokens, parents = [], [], []
    cumulative = None
    for step in range(size.num_steps):
        rows = 1 if step == 0 else size.topk
        probability = _probabilities(proposal, rows, size)
        token = proposal.source.integers((rows, size.topk), 0, proposal.vocab - 1)
        _, _, cumulative, score_block, token_block, parent_block = select_top_k_tokens(
            step, probability, token, None, cumulative, size.topk
        )
        scores.append(score_block[0])
        tokens.append(token_block[0])
        parents.append(parent_block[0])
    return Draft(tuple(scores), tuple(tokens), tuple(parents))


def select(size: Sizes, draft: Draft) -> tuple[Array, Array, Array]:
    """Keep the best candidates of one request: its parent list, flat ids and tokens."""
    parent_list, top_scores_index, draft_tokens = organize_draft_results(
        [block[None] for block in draft.scores],
        [block[None] for block in draft.tokens],
        [block[None] for block in draft.parents],
        size.num_draft_tokens,
    )
    return parent_list[0], top_scores_index[0], draft_tokens[0]


def _probabilities(proposal: Proposal, rows: int, size: Sizes) -> Array:
    """Return float32 rows in non-increasing order, large enough that no product leaves the normal range."""
    shape = (rows, size.topk)
    source = proposal.source
    if proposal.kind == "ones":
        return np.ones(shape, dtype=np.float32)
    if proposal.kind == "spike":
        probability = np.full(shape, 0.5, dtype=np.float32)
        probability[:, 0] = 1
        return probability
    if proposal.kind == "real":
        probability = (source.integers(shape, 1 << 20, 1 << 24) / np.float32(1 << 24)).astype(np.float32)
    else:
        least = 4 if size.num_steps > _DEEP else 1
        probability = source.eighths(shape, least, 8)
        if proposal.kind == "zeros":
            probability[probability < 0.75] = 0
    if size.num_steps > _DEEP:
        probability = np.maximum(probability, np.float32(0.5))
    return np.sort(probability, axis=1)[:, ::-1].copy()
