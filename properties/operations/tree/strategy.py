"""Strategies of the tree operations."""

import numpy as np
from hypothesis import strategies as st

from specsim.config import TreeMaskMode
from specsim.properties.composite import composite
from specsim.properties.strategies.arrays import LENGTH_DTYPES, MAX_REQUESTS, Arguments, Array, bulk
from specsim.properties.strategies.limits import taken
from specsim.properties.strategies.recursion import proposals, propose, select
from specsim.properties.strategies.topologies import TREE_KINDS, Sizes, batch, lengths, num_nodes, sizes, tree_of_kind


@composite
def build_tree(draw: st.DrawFn, max_requests: int = MAX_REQUESTS) -> Arguments:
    """Draw the kept candidates of a whole draft, in every mask mode."""
    size = draw(sizes())
    requests = draw(batch(st.tuples(proposals(), lengths(), st.integers(0, 50)), max_requests))
    arguments = kept_candidates(size, [select(size, propose(size, proposal)) for proposal, _, _ in requests])
    unread, source = draw(st.integers(0, 3)), draw(bulk())
    if size.num_steps == 1:
        arguments["parent_list"] = source.integers((len(requests), unread), -1, size.topk - 1)
    mode = draw(mask_modes(size.num_draft_tokens))
    committed = [length for _, length, _ in requests]
    spare = draw(st.sampled_from((0, 0, 1, 40)))
    return {
        "bonus_tokens": np.array([bonus for _, _, bonus in requests], dtype=draw(st.sampled_from(("int32", "int64")))),
        **arguments,
        "seq_lens": np.array(committed, dtype=draw(st.sampled_from(LENGTH_DTYPES))),
        "topk": size.topk,
        "num_steps": size.num_steps,
        "num_draft_tokens": size.num_draft_tokens,
        "mask_mode": int(mode),
        "seq_lens_sum": sum(committed) + spare if mode is TreeMaskMode.FULL_MASK else spare,
    }


def mask_modes(num_draft_tokens: int) -> st.SearchStrategy[TreeMaskMode]:
    """Draw a mask mode that fits the tree; one of several bytes is packed half of the time, a full word mostly."""
    if num_draft_tokens > 32:
        return st.sampled_from(taken("mask_mode", (TreeMaskMode.FULL_MASK, TreeMaskMode.QLEN_ONLY)))
    packed = TreeMaskMode.QLEN_ONLY_BITPACKING
    more = 4 if num_draft_tokens in (8, 16, 31, 32) else int(num_draft_tokens > 8)
    return st.sampled_from(taken("mask_mode", (*TreeMaskMode, *(packed for _ in range(more)))))


def kept_candidates(size: Sizes, requests: list[tuple[Array, Array, Array]]) -> Arguments:
    """Stack the kept candidates of the requests into the arrays of ``build_tree``."""
    width = size.topk * (size.num_steps - 1) + 1 if size.num_steps > 1 else 0
    kept = size.num_draft_tokens - 1
    names, widths = ("parent_list", "top_scores_index", "draft_tokens"), (width, kept, kept)
    return {
        name: np.array([request[place] for request in requests], dtype=np.int64).reshape(len(requests), columns)
        for place, (name, columns) in enumerate(zip(names, widths, strict=True))
    }


@composite
def reconstruct_indices_from_tree_mask(draw: st.DrawFn, max_requests: int = MAX_REQUESTS) -> Arguments:
    """Draw the ancestor closures of arbitrary trees in topological order."""
    count = draw(num_nodes())
    requests = draw(batch(st.tuples(st.sampled_from(TREE_KINDS), lengths(), bulk()), max_requests))
    masks = [tree_of_kind(kind, count, source).closure for kind, _, source in requests]
    return {
        "tree_mask": np.array(masks, dtype=np.bool_).reshape(len(requests), count, count),
        "seq_lens": np.array([length for _, length, _ in requests], dtype=draw(st.sampled_from(LENGTH_DTYPES))),
    }
