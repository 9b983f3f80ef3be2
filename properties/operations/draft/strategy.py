"""Strategies of the draft operations."""

import numpy as np
from hypothesis import strategies as st

from specsim.properties.composite import composite
from specsim.properties.strategies.arrays import MAX_REQUESTS, VALUE_DTYPES, Arguments, bulk, mostly, overridden, seeded
from specsim.properties.strategies.limits import sized
from specsim.properties.strategies.recursion import Proposal, proposals, propose
from specsim.properties.strategies.topologies import BOUNDARY_LENGTHS, batch, sizes

_SCORES = (0.0, -0.0, 1.0, -1.0, float("inf"), float("-inf"), 2.0**-126, 2.0**100)


@composite
def fast_topk(draw: st.DrawFn, max_requests: int = MAX_REQUESTS) -> Arguments:
    """Draw rows with ties, signed zeros and infinities; in half of the calls zeros are many, and nothing above them."""
    column = draw(
        sized("column", mostly(st.integers(1, 20), st.sampled_from((31, 32, 33, 64, 65, 129, 257)), one_in=3))
    )
    distinct = draw(st.one_of(st.integers(1, 3), st.integers(1, 40)))
    low, high = draw(st.sampled_from(((-distinct, distinct), (-min(distinct, 3), 0))))
    rows = [source.eighths(column, low, high) for source in draw(batch(bulk(), max_requests, "row"))]
    values = np.array(rows, dtype=np.float32).reshape(len(rows), column)
    is_negative_zero = (values == 0.0) & (draw(bulk()).integers(values.shape, 0, 1) == 1)
    values[is_negative_zero] = -0.0
    return {
        "values": draw(overridden(values, _SCORES)),
        "k": min(draw(sized("k", st.integers(1, min(column, 16)))), column),
    }


@composite
def select_top_k_tokens(draw: st.DrawFn, max_requests: int = MAX_REQUESTS) -> Arguments:
    """Draw the candidates of one draft step: probabilities and scores in eighths, with ties and zeros."""
    topk = draw(sized("topk", st.sampled_from((1, 2, 3, 4, 5, 5, 8, 16))))
    step_index = draw(sized("step_index", st.sampled_from((0, 0, 1, 2, 3, 4, 5))))
    hidden_dtype = draw(st.sampled_from((None, *VALUE_DTYPES)))
    width = draw(st.sampled_from((1, 2, 5, 33)))
    vocab = draw(st.integers(1, 40))
    branch = 1 if step_index == 0 else topk
    sources = draw(batch(bulk(), max_requests))
    requests = [
        (
            source.eighths((branch, topk)),
            source.integers((branch, topk), 0, vocab - 1),
            source.values((branch, width), hidden_dtype or "uint8"),
            np.sort(source.eighths((1, topk)))[:, ::-1],
        )
        for source in sources or [seeded(0)]
    ]
    blocks = [np.concatenate(parts) for parts in zip(*requests, strict=True)]
    probability, index, hidden = (block[: len(sources) * branch] for block in blocks[:3])
    needs_scores = step_index > 0 or draw(st.integers(0, 4)) == 4
    return {
        "step_index": step_index,
        "topk_p": draw(overridden(probability, (0.0, 1.0))),
        "topk_index": index,
        "hidden_states": None if hidden_dtype is None else hidden,
        "scores": blocks[3][: len(sources)] if needs_scores else None,
        "topk": topk,
    }


@composite
def organize_draft_results(draw: st.DrawFn, max_requests: int = MAX_REQUESTS) -> Arguments:
    """Draw the blocks of a whole draft recursion, whose children never score above their parents."""
    size = draw(sizes())
    requests = draw(batch(proposals(), max_requests))
    drafts = [propose(size, proposal) for proposal in requests or [Proposal("ones", 1, seeded(0))]]
    count = len(requests)
    return {
        "score_list": [np.stack(blocks)[:count] for blocks in zip(*(draft.scores for draft in drafts), strict=True)],
        "token_list": [np.stack(blocks)[:count] for blocks in zip(*(draft.tokens for draft in drafts), strict=True)],
        "parents_list": [np.stack(blocks)[:count] for blocks in zip(*(draft.parents for draft in drafts), strict=True)],
        "num_draft_tokens": size.num_draft_tokens,
    }


@composite
def organize_chain_draft_results(draw: st.DrawFn, max_requests: int = MAX_REQUESTS) -> Arguments:
    """Draw one token a step and request."""
    num_steps = draw(mostly(st.integers(1, 8), st.sampled_from((31, 63)), one_in=4))
    requests = [source.integers(num_steps, 0, 40) for source in draw(batch(bulk(), max_requests))]
    tokens = np.array(requests, dtype=np.int64).reshape(len(requests), num_steps)
    return {"token_list": [tokens[:, step : step + 1].copy() for step in range(num_steps)]}


@composite
def map_hot_tokens(draw: st.DrawFn, max_requests: int = MAX_REQUESTS) -> Arguments:
    """Draw draft ids and a map that is no identity."""
    draft_vocab = draw(sized("draft_vocab", mostly(st.integers(1, 12), st.sampled_from(BOUNDARY_LENGTHS), one_in=3)))
    column = draw(st.integers(1, 5))
    rows = [source.integers(column, 0, draft_vocab - 1) for source in draw(batch(bulk(), max_requests, "row"))]
    source = draw(bulk())
    topk_index = np.array(rows, dtype=np.int64).reshape(len(rows), column)
    return {
        "topk_index": draw(overridden(topk_index, (0, draft_vocab - 1))),
        "hot_token_id": source.order(draft_vocab * 2)[:draft_vocab].astype(np.int64) + source.integer(0, 1000),
    }
