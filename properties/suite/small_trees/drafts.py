"""Trees from selections of drafts, and from masks: what is kept of a draft, and what is read off it."""

from collections.abc import Iterator
from math import factorial

import numpy as np

from specsim.config import TreeMaskMode
from specsim.counts import count_candidates, count_draft_nodes
from specsim.properties.suite.small_trees.forms import FEW, Arguments, Array, Form, Scope, lengths, numbered
from specsim.properties.suite.small_trees.shapes import Selections, closure, count_selections, forests, selections

KEPT, LEFT_OUT = 0.5, 0.25
"""Scores of drafts that are kept and left out, where all kept ones are equal, and some others are, too."""

NUM_SCORES = 2
"""Scores of a selection: all different, and as equal as they can be."""


def _sizes(num_nodes: int) -> Iterator[tuple[int, int]]:
    """Yield beams and steps of a draft: as many as any tree of so many nodes can use."""
    for topk in range(1, num_nodes):
        for num_steps in range(1, num_nodes):
            yield topk, num_steps


def _count(num_nodes: int) -> int:
    drafts = count_draft_nodes(num_nodes)
    return sum(count_selections(drafts, topk, num_steps) for topk, num_steps in _sizes(num_nodes))


def selected_by(num_nodes: int, topk: int, num_steps: int) -> Selections:
    """Return the selections that a draft of some sizes can make: all parents are beams, with candidates enough."""
    every = selections(count_draft_nodes(num_nodes))
    is_one = (np.maximum(every.beam, every.rank) < topk).all(axis=1) & (every.level < num_steps).all(axis=1)
    return Selections(*(column[is_one] for column in every))


def flat_ids(selected: Selections, topk: int) -> Array:
    """Return the flat ids of the drafts that are kept, int64 [case, draft]."""
    later = topk + (selected.level - 1) * topk * topk + selected.beam * topk + selected.rank
    return np.where(selected.level == 0, selected.rank, later)


def _beams(selected: Selections, flat: Array, topk: int, level: int) -> Array:
    """Return the flat ids of the beams of a level: the kept ones by score, then others."""
    first, size = (0, topk) if level == 0 else (topk + (level - 1) * topk * topk, topk * topk)
    order = np.full((len(flat), size), size)
    case, draft = np.nonzero(selected.level == level)
    order[case, flat[case, draft] - first] = selected.place[case, draft]
    return first + np.argsort(order, axis=1, kind="stable")[:, :topk]


def list_parents(selected: Selections, flat: Array, topk: int, num_steps: int) -> Array:
    """Return what a draft lists of all levels, int64 [case, topk*step+1]."""
    root = np.full((len(flat), 1), -1)
    return np.concatenate([root, *(_beams(selected, flat, topk, level) for level in range(num_steps))], axis=1)


def _with_ties(best: Array, parents: Array, topk: int) -> Array:
    """Return which candidates may have the best score: those after all that are kept whose parents have it."""
    best = best.copy()
    num_candidates = best.shape[1]
    is_after = np.arange(num_candidates) > num_candidates - 1 - best[:, ::-1].argmax(axis=1)[:, None]
    for candidate in range(num_candidates):
        parent = parents[:, candidate // topk]
        is_good = (candidate < topk) | best[np.arange(len(best)), parent]
        best[:, candidate] |= is_after[:, candidate] & is_good
    return best


def _selection_scopes(num_nodes: int) -> Iterator[Scope]:
    for topk, num_steps in _sizes(num_nodes):
        selected = selected_by(num_nodes, topk, num_steps)
        flat = flat_ids(selected, topk)
        parents = list_parents(selected, flat, topk, num_steps)
        num_kept, num_candidates = flat.shape[1], count_candidates(topk, num_steps)
        best = np.zeros((len(flat), num_candidates), dtype=np.bool_)
        np.put_along_axis(best, flat, True, axis=1)
        # NOTE: drafts are listed level by level and by score, so that their places are the order of their scores.
        ranked = np.full(best.shape, LEFT_OUT, dtype=np.float32)
        np.put_along_axis(ranked, flat, (1 - np.arange(num_kept, dtype=np.float32) / (4 * num_kept))[None], axis=1)
        tied = np.where(_with_ties(best, parents, topk), KEPT, LEFT_OUT).astype(np.float32)
        for scores in (ranked, tied) if len(flat) else ():
            columns = {"scores": scores, "parents": parents}
            yield Scope({"node": num_nodes, "topk": topk, "step": num_steps}, columns)


def _pack_selections(scope: Scope) -> Arguments:
    topk, num_steps = scope.sizes["topk"], scope.sizes["step"]
    scores, parents = scope.columns["scores"], scope.columns["parents"]
    tokens = np.arange(scores.size, dtype=np.int64).reshape(scores.shape) + 3
    ends = [count_candidates(topk, step) for step in range(1, num_steps)]
    blocks = np.split(scores, ends, axis=1)
    return {
        "score_list": [np.ascontiguousarray(block).reshape(len(scope), -1, topk) for block in blocks],
        "token_list": [np.ascontiguousarray(block) for block in np.split(tokens, ends, axis=1)],
        "parents_list": np.split(parents, [1 + topk * step for step in range(1, num_steps)], axis=1),
    }


def _modes(num_nodes: int, topk: int, num_steps: int) -> Iterator[TreeMaskMode]:
    """Yield the layouts of the mask: it is the tree's, so that those beside the default are seen on each tree once."""
    yield TreeMaskMode.QLEN_ONLY
    if topk == num_steps == count_draft_nodes(num_nodes):
        yield from (mode for mode in TreeMaskMode if mode is not TreeMaskMode.QLEN_ONLY)


def _count_masks(num_nodes: int) -> int:
    drafts = count_draft_nodes(num_nodes)
    others = (len(TreeMaskMode) - 1) * count_selections(drafts, drafts, drafts) if drafts else 0
    return _count(num_nodes) + others


def _tree_scopes(num_nodes: int) -> Iterator[Scope]:
    for topk, num_steps in _sizes(num_nodes):
        selected = selected_by(num_nodes, topk, num_steps)
        flat = flat_ids(selected, topk)
        width = 1 + topk * (num_steps - 1) if num_steps > 1 else 0
        parents = list_parents(selected, flat, topk, num_steps)[:, :width]
        columns = {"parent_list": parents, "top_scores_index": np.sort(flat, axis=1)}
        columns["seq_lens"] = lengths(len(flat))
        sizes = {"node": num_nodes, "topk": topk, "num_steps": num_steps}
        for mode in _modes(num_nodes, topk, num_steps) if len(flat) else ():
            most = {"most": FEW} if mode is TreeMaskMode.FULL_MASK else {}
            yield Scope({**sizes, "mask_mode": mode.value}, columns, **most)


def _pack_trees(scope: Scope) -> Arguments:
    tokens = 3 + numbered(scope) * scope.sizes["node"] + np.arange(scope.sizes["node"])
    return {
        "bonus_tokens": tokens[:, 0].astype(np.int32),
        "draft_tokens": np.ascontiguousarray(tokens[:, 1:]),
        # NOTE: a bound on the sum is enough.
        "seq_lens_sum": int(scope.columns["seq_lens"].sum()) + 3,
    }


def _mask_scopes(num_nodes: int) -> Iterator[Scope]:
    masks = closure(forests(num_nodes))
    yield Scope({"node": num_nodes}, {"tree_mask": masks, "seq_lens": lengths(len(masks))})


# NOTE: there are as many forests of some nodes as orders.
FORMS = (
    Form("organize_draft_results", lambda nodes: NUM_SCORES * _count(nodes), _selection_scopes, _pack_selections),
    Form("build_tree", _count_masks, _tree_scopes, _pack_trees),
    Form("reconstruct_indices_from_tree_mask", factorial, _mask_scopes),
)
