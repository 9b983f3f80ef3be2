"""Strategies of the verify operations."""

import numpy as np
from hypothesis import strategies as st

from specsim.properties.composite import composite
from specsim.properties.operations.pages.strategy import near_a_page, page_sizes
from specsim.properties.strategies.arrays import (
    LENGTH_DTYPES,
    MAX_REQUESTS,
    Arguments,
    Array,
    Bulk,
    bulk,
    mostly,
    overridden,
)
from specsim.properties.strategies.limits import nearest, sized
from specsim.properties.strategies.made_once import made_once
from specsim.properties.strategies.topologies import batch, lengths, mapped, request_rows, slack
from specsim.properties.strategies.trees import Tree, trees

TARGET_KINDS = ("none", "first child", "path", "random", "last child")
_NEVER_DRAFTED = 60
_LOGITS = (0, -1, 2**62, -(2**62))


@composite
def target_verify_metadata(draw: st.DrawFn, max_requests: int = MAX_REQUESTS) -> Arguments:
    """Draw request rows in whole pages; the page table may cover more than the longest sequence."""
    page_size = draw(sized("page_size", mostly(page_sizes(), st.just(1), one_in=4)))
    committed = draw(batch(near_a_page(page_size, page_size) if page_size > 1 else lengths(), max_requests))
    tokens_per_request = draw(st.integers(0, 8))
    max_seq_len_k = max(committed, default=0) + tokens_per_request + draw(slack())
    source = draw(bulk())
    rows = request_rows(source, len(committed), max_seq_len_k + draw(slack()), page_size)
    known = mapped(rows, committed, draw(st.sampled_from(LENGTH_DTYPES)))
    num_tokens = len(committed) * tokens_per_request
    return {**known, "num_tokens": num_tokens, "max_seq_len_k": max_seq_len_k, "page_size": page_size}


@composite
def argmax_target_predict(draw: st.DrawFn, max_requests: int = MAX_REQUESTS) -> Arguments:
    """Draw logits with ties, and integers that float64 cannot tell apart."""
    vocab = draw(sized("vocab", mostly(st.integers(1, 20), st.sampled_from((31, 32, 33, 64, 65, 129, 257)), one_in=3)))
    spread, middle = draw(st.sampled_from((0, 1, 3, 2**40))), draw(st.sampled_from((0, 2**53)))
    rows = [middle + source.integers(vocab, -spread, spread) for source in draw(batch(bulk(), max_requests, "token"))]
    logits = np.array(rows, dtype=np.int64).reshape(len(rows), vocab)
    if draw(st.booleans()):
        return {"logits": draw(overridden(logits, _LOGITS))}
    specials = (float("-inf"), -0.0, 0.0, float(2**40), -1.0)
    return {"logits": draw(overridden((logits % 8 - 4).astype(np.float32), specials))}


@composite
def verify_tree_greedy(draw: st.DrawFn, max_requests: int = MAX_REQUESTS) -> Arguments:
    """Draw trees of the draft pipeline or arbitrary ones, and targets that accept paths of every length."""
    drawn = draw(trees(_target_kinds(), max_requests))
    targets = [
        draw(overridden(_target(kind, tree, source), (0, 1, _NEVER_DRAFTED)))
        for tree, (kind, source) in zip(drawn.requests, drawn.others, strict=True)
    ]
    return {**drawn.arguments(), "target_predict": drawn.stacked(targets, np.int64)}


@composite
def verify_chain_greedy(draw: st.DrawFn, max_requests: int = MAX_REQUESTS) -> Arguments:
    """Draw ragged chains that agree with the target up to a place of their own, and some drafts after it again."""
    most = draw(sized("draft", st.sampled_from((1, 3, 6, 33))))
    requests = [_greedy_chain(*drawn) for drawn in draw(batch(st.tuples(st.integers(0, most), bulk()), max_requests))]
    counts = [len(tokens) for tokens, _ in requests]
    target_predict = np.concatenate([np.zeros(0, dtype=np.int64), *(chosen for _, chosen in requests)])
    return {
        "draft_tokens": np.concatenate([np.zeros(0, dtype=np.int64), *(tokens for tokens, _ in requests)]),
        "cu_num_drafts": np.cumsum([0, *counts]).astype(np.int32),
        "target_predict": draw(overridden(target_predict, (0, 1, 2**31 - 1))),
        "max_num_drafts": nearest("draft", max(counts, default=0) + draw(st.sampled_from((0, 0, 0, 1, 4)))),
    }


def _greedy_chain(count: int, source: Bulk) -> tuple[Array, Array]:
    """Return the drafts of a chain, one in four ended by -1, and the target's choices: they differ at one place."""
    tokens, end = source.integers(count, 0, 2), source.integer(0, count)
    chosen = np.append(tokens, source.integer(0, 2))
    chosen[end] = (chosen[end] + 1) % 3
    if count and source.integer(0, 3) == 3:
        tokens[source.integer(0, count - 1)] = -1
    return tokens, chosen


@made_once
def _target_kinds() -> st.SearchStrategy[tuple[str, Bulk]]:
    return st.tuples(st.sampled_from(TARGET_KINDS), bulk())


def _target(kind: str, tree: Tree, source: Bulk) -> Array:
    """Return the target's choice after each node.

    The kinds accept nothing, the longest first-child path, one random path and nothing after it, whatever happens to
    match, or the path of last children, where earlier siblings are tried in vain.
    """
    count = len(tree.tokens)
    target = source.integers(count, 0, int(tree.tokens.max()))
    if kind == "random":
        return target
    if kind == "none":
        target[0] = _NEVER_DRAFTED
    elif kind == "path":
        end = source.integer(0, count - 1)
        target[end] = _NEVER_DRAFTED
        path = tree.topology.path_to(end)
        target[path[:-1]] = tree.tokens[path[1:]]
    else:
        for node, below in enumerate(tree.children):
            if below:
                target[node] = tree.tokens[below[0] if kind == "first child" else below[-1]]
    return target
