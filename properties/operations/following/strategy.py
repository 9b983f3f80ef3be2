"""Strategies of what follows the output."""

import numpy as np
from hypothesis import strategies as st

from specsim.host.grammar import BITS_PER_WORD
from specsim.host.logit_rules import NO_TOKEN
from specsim.properties.composite import composite
from specsim.properties.operations.compact.strategy import accepted
from specsim.properties.strategies.arrays import MAX_REQUESTS, Arguments, Array, Bulk, bulk
from specsim.properties.strategies.malformed.arguments import Fault
from specsim.properties.strategies.malformed.structure import PATHS, row_claimed_twice
from specsim.properties.strategies.topologies import TREE_KINDS, batch, tree_of_kind

VOCABULARIES = (2, 3, 5, 1, 33, 65)
"""In the small ones tails agree with bad words by chance."""


@composite
def forbid_tokens(draw: st.DrawFn, max_requests: int = MAX_REQUESTS) -> Arguments:
    """Draw trees whose paths complete bad words, across the root too, and lengths around the minimum.

    Of a request that has hardly output anything some recent tokens are missing.
    """
    count, vocab = draw(st.integers(1, 6)), draw(st.sampled_from(VOCABULARIES))
    num_recent, num_words = draw(st.integers(0, 3)), draw(st.integers(1, 4))
    requests = draw(batch(st.tuples(st.sampled_from(TREE_KINDS), bulk()), max_requests))
    lengths, minima, stops, recents, words, tokens, masks = [], [], [], [], [], [], []
    for kind, source in requests:
        length = source.integer(0, num_recent + 2)
        recent = source.integers(num_recent, 0, vocab - 1)
        recent[: max(0, num_recent - length)] = NO_TOKEN
        lengths.append(length)
        minima.append(max(0, length + source.integer(-1, count)))
        stops.append(_packed(source.integers(-(-vocab // BITS_PER_WORD) * BITS_PER_WORD, 0, 2) == 0))
        recents.append(recent)
        words.append([_word(source, num_recent, vocab) for _ in range(num_words)])
        tokens.append(source.integers(count, 0, vocab - 1))
        masks.append(tree_of_kind(kind, count, source).closure)
    num_requests = len(requests)
    return {
        "draft_token": np.array(tokens, dtype=np.int64).reshape(-1),
        "tree_mask": np.array(masks, dtype=np.bool_).reshape(-1),
        "num_output_tokens": np.array(lengths, dtype=np.int32),
        "min_tokens": np.array(minima, dtype=np.int32),
        "stop_mask": np.array(stops, dtype=np.int32).reshape(num_requests, -(-vocab // BITS_PER_WORD)),
        "recent_tokens": np.array(recents, dtype=np.int64).reshape(num_requests, num_recent),
        "bad_words": np.array(words, dtype=np.int64).reshape(num_requests, num_words, num_recent + 1),
        "num_draft_tokens": count,
        "vocab_size": vocab,
    }


@composite
def commit_output_tokens(draw: st.DrawFn, max_requests: int = MAX_REQUESTS) -> Arguments:
    """Draw paths in which tokens come again, some of no one and some of which only the last token counts."""
    paths, vocab = draw(accepted(max_requests)), draw(st.sampled_from(VOCABULARIES))
    num_requests, num_recent, source = len(paths.accept_index), draw(st.integers(0, 4)), paths.source
    accept_index = paths.accept_index
    nothing = source.integers(num_requests, 0, 5) == 0
    nothing[:1] = False
    accept_index[nothing] = -1
    rows = source.order(num_requests + 2) + 1
    padding = draw(st.integers(0, min(2, num_requests)))
    rows[num_requests - padding : num_requests] = 0
    lengths = source.integers(num_requests + 3, 0, num_recent + 2)
    recent = source.integers((len(lengths), num_recent), 0, vocab - 1)
    recent[np.arange(num_recent) < num_recent - lengths[:, None]] = NO_TOKEN
    return {
        "req_pool_indices": rows[:num_requests].astype(np.int64),
        "token_counts": source.integers((len(lengths), vocab), 0, 3, np.int32),
        "num_output_tokens": lengths.astype(np.int32),
        "recent_tokens": recent,
        "accept_index": accept_index,
        "predict": _predicted(source, accept_index, paths.num_entries, vocab),
        "counts_all": np.array(source.integers(num_requests, 0, 3) > 0),
    }


def _word(source: Bulk, num_recent: int, vocab: int) -> Array:
    """Return a sequence of one token or more in the last columns, or none."""
    word = source.integers(num_recent + 1, 0, vocab - 1)
    word[: source.integer(0, num_recent)] = NO_TOKEN
    return word if source.integer(0, 3) else np.full_like(word, NO_TOKEN)


def _packed(is_set: Array) -> Array:
    """Return truth values as bits of words; those past a vocabulary mean nothing."""
    words: Array = np.packbits(is_set, bitorder="little").view(np.int32)
    return words


def _predicted(source: Bulk, accept_index: Array, num_entries: int, vocab: int) -> Array:
    """Return a token at each accepted node, and garbage elsewhere."""
    predict = source.integers(num_entries, -(2**31), 2**31 - 1, np.int32)
    nodes = accept_index[accept_index >= 0]
    predict[nodes] = source.integers(len(nodes), 0, vocab - 1, np.int32)
    return predict


FAULTS: dict[str, tuple[Fault, ...]] = {"commit_output_tokens": (*PATHS, row_claimed_twice)}
