"""Strategies of the model heads."""

import numpy as np
from hypothesis import strategies as st

from specsim.hashing import BROKEN
from specsim.hashing import MASK as WORD
from specsim.properties.composite import composite
from specsim.properties.strategies.arrays import MAX_REQUESTS, Arguments, Array, bulk, overridden
from specsim.properties.strategies.made_once import made_once
from specsim.properties.strategies.topologies import batch

_AGREEMENTS = (BROKEN, -1, 0, 1, 2**31, 2**32 - 1, 2**32)


@made_once
@composite
def words(draw: st.DrawFn, max_requests: int = MAX_REQUESTS, width: int | None = None) -> Array:
    """Draw hidden states: at least one fold and the context word, every word in [0, 2**32)."""
    columns = width or draw(st.sampled_from((2, 3, 4)))
    rows = [source.integers(columns, 0, WORD) for source in draw(batch(bulk(), max_requests))]
    return draw(overridden(np.array(rows, dtype=np.int64).reshape(len(rows), columns), (0, WORD)))


@composite
def hash_target_logits(draw: st.DrawFn, max_requests: int = MAX_REQUESTS) -> Arguments:
    """Draw hidden states, a vocabulary and a seed."""
    return {
        "hidden_states": draw(words(max_requests)),
        "vocab_size": draw(_vocab_sizes()),
        "seed": draw(st.integers(0, WORD)),
    }


def hash_sampling_logits(max_requests: int = MAX_REQUESTS) -> st.SearchStrategy[Arguments]:
    """Return the strategy of the target's integer logits: both take the same."""
    return hash_target_logits(max_requests)


@composite
def text_target_logits(draw: st.DrawFn, max_requests: int = MAX_REQUESTS) -> Arguments:
    """Draw hidden states and counts of one to five orders."""
    return {"hidden_states": draw(words(max_requests)), "ngram_counts": draw(ngram_counts(5))}


@composite
def hash_draft_probabilities(draw: st.DrawFn, max_requests: int = MAX_REQUESTS) -> Arguments:
    """Draw hidden states, the digest of the draft cache, and how often draft and target agree."""
    hidden_states = draw(words(max_requests))
    return {
        "hidden_states": hidden_states,
        "context": draw(_contexts(len(hidden_states))),
        "vocab_size": draw(_vocab_sizes()),
        "seed": draw(st.integers(0, WORD)),
        "agreement": draw(st.one_of(st.sampled_from(_AGREEMENTS), st.integers(0, 2**32))),
    }


@composite
def text_draft_probabilities(draw: st.DrawFn, max_requests: int = MAX_REQUESTS) -> Arguments:
    """Draw hidden states, the digest of the draft cache, and counts of one to three orders."""
    states = draw(words(max_requests))
    return {"hidden_states": states, "context": draw(_contexts(len(states))), "ngram_counts": draw(ngram_counts(3))}


@made_once
@composite
def ngram_counts(draw: st.DrawFn, most_orders: int) -> Array:
    """Draw counts, most of them small, some of them all zero or saturated."""
    vocab = draw(st.one_of(st.integers(2, 64), st.sampled_from((2, 64, 256))))
    shape = (draw(st.integers(1, most_orders)), draw(st.sampled_from((1, 2, 3, 7, 64))), vocab)
    counts = draw(bulk()).integers(shape, 0, draw(st.sampled_from((0, 1, 3, 255))), np.uint8)
    return draw(overridden(counts, (0, 255)))


@made_once
@composite
def _contexts(draw: st.DrawFn, count: int) -> Array:
    return draw(overridden(draw(bulk()).integers(count, 0, WORD), (0, WORD)))


@made_once
def _vocab_sizes() -> st.SearchStrategy[int]:
    return st.one_of(st.integers(2, 64), st.sampled_from((2, 63, 64, 65, 256)))
