"""Strategies of penalties."""

import numpy as np
from hypothesis import strategies as st

from specsim.properties.composite import composite
from specsim.properties.operations.probabilities.strategy import LOGIT_DTYPES
from specsim.properties.strategies.arrays import MAX_REQUESTS, Arguments, bulk, mostly
from specsim.properties.strategies.topologies import TREE_KINDS, batch, tree_of_kind

VOCABULARIES = (1, 2, 3, 5, 33)
STRENGTHS = (0.0, 0.5, 1.5, -0.25, 0.1)
"""Of penalties that are taken away; a tenth has no exact product."""
SCALES = (1.0, 2.0, 0.5, 1.3)
BOUNDARY_NODES = (16, 17, 33)


@composite
def apply_penalties(draw: st.DrawFn, max_requests: int = MAX_REQUESTS) -> Arguments:
    """Draw trees in which paths and their neighbours hold equal tokens, some of which the request has output.

    Logits of both signs come close to 0, so that the order of the steps shows; three of four calls are exact.
    """
    count = draw(mostly(st.integers(1, 6), st.sampled_from(BOUNDARY_NODES), one_in=6))
    vocab, dtype = draw(st.sampled_from(VOCABULARIES)), draw(st.sampled_from(LOGIT_DTYPES))
    strength = st.sampled_from(STRENGTHS)
    one = st.tuples(st.sampled_from(TREE_KINDS), strength, strength, st.sampled_from(SCALES), bulk())
    requests = draw(batch(one, max_requests))
    logits, counts, tokens, masks = [], [], [], []
    for kind, _, _, _, source in requests:
        rows = source.integers((count, vocab), -16, 16) / 8.0
        rows[source.integers(rows.shape, 0, 9) == 0] = -np.inf
        logits.append(rows)
        counts.append(np.maximum(source.integers(vocab, -2, 3), 0))
        tokens.append(source.integers(count, 0, vocab - 1))
        masks.append(tree_of_kind(kind, count, source).closure)
    chosen = np.array([given[1:4] for given in requests], dtype=np.float32).reshape(len(requests), 3)
    return {
        "logits": np.array(logits).reshape(-1, vocab).astype(dtype),
        "token_counts": np.array(counts, dtype=np.int32).reshape(len(requests), vocab),
        "draft_token": np.array(tokens, dtype=np.int64).reshape(-1),
        "tree_mask": np.array(masks, dtype=np.bool_).reshape(-1),
        "frequency_penalty": chosen[:, 0].copy(),
        "presence_penalty": chosen[:, 1].copy(),
        "repetition_penalty": chosen[:, 2].copy(),
        "num_draft_tokens": count,
        "exact": draw(mostly(st.just(True), st.just(False), one_in=4)),
    }
