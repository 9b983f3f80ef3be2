"""Strategies of DFLASH's operations."""

import numpy as np
from hypothesis import strategies as st

from specsim.properties.composite import composite
from specsim.properties.operations.probabilities.strategy import LOGIT_DTYPES
from specsim.properties.strategies.arrays import LENGTH_DTYPES, MAX_REQUESTS, Arguments, Array, bulk, mostly
from specsim.properties.strategies.topologies import batch, lengths, mapped, num_nodes, request_rows, slack

TOKEN_DTYPES = ("int32", "int64")
PAGE_SIZES = (1, 2, 4, 8, 64)
VOCABULARIES = (1, 2, 3, 5, 9, 33)
VALUES = (4, 16)
"""Different logits of a row less one: few, so that the k-th largest is tied, or more."""


@composite
def prepare_block_draft(draw: st.DrawFn, max_requests: int = MAX_REQUESTS) -> Arguments:
    """Draw root tokens and lengths; a root may be the mask token itself."""
    requests = draw(batch(st.tuples(st.integers(0, 9), lengths()), max_requests))
    return {
        "bonus_tokens": np.array([token for token, _ in requests], dtype=draw(st.sampled_from(TOKEN_DTYPES))),
        "seq_lens": np.array([length for _, length in requests], dtype=draw(st.sampled_from(LENGTH_DTYPES))),
        "mask_token": draw(mostly(st.integers(0, 9), st.just(2**31 - 1), one_in=4)),
        "num_draft_tokens": draw(num_nodes()),
    }


@composite
def block_draft_metadata(draw: st.DrawFn, max_requests: int = MAX_REQUESTS) -> Arguments:
    """Draw texts shorter and longer than a window that may begin inside a page; padded requests share row 0."""
    committed, count = draw(batch(lengths(), max_requests)), draw(num_nodes())
    page_size = draw(st.sampled_from(PAGE_SIZES))
    width = max(committed, default=0) + count + draw(slack())
    rows = request_rows(draw(bulk()), len(committed), width, page_size)
    for place in draw(st.lists(st.integers(0, 5), max_size=1)):
        rows[0][place : place + 1] = 0
    known = mapped(rows, committed, draw(st.sampled_from(LENGTH_DTYPES)))
    window = draw(mostly(st.integers(1, 12), st.sampled_from((32, 63, 64, 65, 2**31 - 1)), one_in=4))
    return {**known, "draft_window": window, "num_draft_tokens": count, "page_size": page_size}


@composite
def keep_top_k_exactly(draw: st.DrawFn, max_requests: int = MAX_REQUESTS) -> Arguments:
    """Draw logits of which several are equal, and in half of the calls a request that keeps them all."""
    count, vocab = draw(st.integers(1, 4)), draw(st.sampled_from(VOCABULARIES))
    sources = draw(batch(bulk(), max_requests))
    most = vocab - 1 if vocab > 1 and draw(st.booleans()) else vocab + 1
    rows, counts = [], []
    for source in sources:
        row = source.integers((count, vocab), 0, source.integer(*VALUES)) / 4.0 - 1.0
        row[(source.integers(row.shape, 0, 9) == 0) & (np.arange(vocab) > 0)] = -np.inf
        row[(row == 0) & (source.integers(row.shape, 0, 1) == 0)] = -0.0
        rows.append(row)
        counts.append(source.integer(1, most))
    logits = np.array(rows).reshape(-1, vocab).astype(draw(st.sampled_from(LOGIT_DTYPES)))
    return {"logits": logits, "top_k": np.array(counts, dtype=np.int32), "num_draft_tokens": count}


@composite
def fill_block_tokens(draw: st.DrawFn, max_requests: int = MAX_REQUESTS) -> Arguments:
    """Draw blocks of which nothing, everything or something in between was accepted."""
    count = draw(num_nodes())
    accepted = st.one_of(st.integers(0, count - 1), st.sampled_from((0, count - 1)))
    requests = draw(batch(st.tuples(accepted, st.integers(0, 9), bulk()), max_requests))
    return {
        "candidates": _blocks([source.integers(count, 0, 9) for _, _, source in requests], count),
        "num_accepted_drafts": np.array([drafts for drafts, _, _ in requests], dtype=np.int32),
        "bonus_tokens": np.array([token for _, token, _ in requests], dtype=draw(st.sampled_from(TOKEN_DTYPES))),
    }


@composite
def chains(draw: st.DrawFn, max_requests: int = MAX_REQUESTS) -> Arguments:
    """Draw drafts of a block and the target's choices after each node, which agree more often than not."""
    count = draw(num_nodes())
    sources = draw(batch(bulk(), max_requests))
    drafts, choices = [], []
    for source in sources:
        draft, other = source.integers(count, 0, 9), source.integers(count, 0, 9)
        agrees = source.integers(count, 0, 9) < source.integer(0, 10)
        drafts.append(draft)
        choices.append(np.where(agrees, np.append(draft[1:], other[0]), other))
    return {"candidates": _blocks(drafts, count), "target_predict": _blocks(choices, count)}


def _blocks(rows: list[Array], count: int) -> Array:
    return np.array(rows, dtype=np.int64).reshape(-1, count)


def committed_blocks() -> st.SearchStrategy[Arguments]:
    """Return a strategy of committed lengths, tokens that are kept of each block, and page sizes above 1."""
    return _committed_blocks()


@composite
def _committed_blocks(draw: st.DrawFn) -> Arguments:
    count = draw(num_nodes())
    requests = draw(batch(st.tuples(lengths(), st.integers(1, count)), MAX_REQUESTS))
    page_size, kept = draw(st.sampled_from(PAGE_SIZES[1:])), [kept for _, kept in requests]
    seq_lens = np.array([length for length, _ in requests], dtype=np.int64)
    return {"seq_lens": seq_lens, "kept": kept, "num_draft_tokens": count, "page_size": page_size}


def layer_choices() -> st.SearchStrategy[tuple[int, int]]:
    """Return a strategy of targets' depths, and of how many of their layers are read."""
    return st.integers(1, 5).flatmap(lambda count: st.tuples(st.integers(1 if count == 1 else 4, 70), st.just(count)))
