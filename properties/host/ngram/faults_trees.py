"""Faults in the trees that an n-gram store drafts, and in how they are numbered and filled up."""

import heapq
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import count, islice
from typing import Any

import numpy as np

from specsim.host.ngram import LARGEST_TOKEN, NgramDraft, NgramParameters, TreeMode
from specsim.host.ngram.continuation import Anchor, Continuation
from specsim.host.ngram.draft import emit_draft
from specsim.host.ngram.trees import ROOT, DraftTree
from specsim.properties.mutants.record import Mutant, overriding

Method = Callable[..., Any]
Grow = Callable[[Sequence[Anchor], NgramParameters, int], DraftTree]


def _grown(grow: Grow, mode: TreeMode) -> Method:
    """Grow trees of one mode in another way."""

    def draft(correct: Method, self: Any, tokens: Any, num_draft_tokens: int | None = None) -> NgramDraft:
        drafted: NgramDraft = correct(self, tokens, num_draft_tokens)
        if self._parameters.mode is not mode:
            return drafted
        num_nodes = len(drafted.tokens)
        tree = grow(self._anchors(tuple(tokens)), self._parameters, num_nodes)
        return emit_draft(tree, tokens[-1], num_nodes)

    return draft


def _by_breadth(fault: str) -> Method:
    """Grow level by level with one fault."""

    def grow(anchors: Sequence[Anchor], sizes: NgramParameters, num_nodes: int) -> DraftTree:
        tree = DraftTree(num_nodes - (fault == "early"))
        shares = sizes.max_depth - (fault != "whole depth")
        narrower = sizes.max_breadth - sizes.min_breadth
        groups = [anchors] if fault == "one queue" else [[anchor] for anchor in anchors]
        for group in groups:
            queue: deque[tuple[int, int, Continuation]] = deque()
            for anchor in group:
                length = {"length": 0, "longer": anchor.num_tokens + 1}.get(fault, anchor.num_tokens)
                queue.append((ROOT, (shares - length) * narrower + sizes.min_breadth * shares, anchor.node))
            while queue:
                place, breadth, node = queue.popleft()
                most = -(-breadth // shares) if fault == "up" else breadth // shares
                for child in islice(node.newest_first(), max(1, most)):
                    if tree.is_full:
                        return tree
                    is_there = child.token in tree.children[place]
                    below = tree.reach(place, child.token)
                    if not (fault == "known" and is_there):
                        queue.append((below, breadth - (narrower if fault != "level" else 0), child))
        return tree

    return _grown(grow, TreeMode.BFS)


def _by_probability(fault: str) -> Method:
    """Grow by what is likeliest with one fault."""

    def grow(anchors: Sequence[Anchor], sizes: NgramParameters, num_nodes: int) -> DraftTree:
        tree, met = DraftTree(num_nodes), count()
        heap: list[tuple[Fraction, int, int, Continuation]] = []
        sign = -1 if fault == "last met" else 1

        def meet(place: int, node: Continuation, probability: Fraction) -> None:
            tie = -1 if fault == "larger token" else 1
            ordered = sorted(node.newest_first(), key=lambda child: (-child.count, tie * child.token))
            if fault == "newest":
                ordered = list(node.newest_first())
            followed = ordered[: sizes.min_breadth if fault == "narrow" else sizes.max_breadth]
            total = sum(child.count for child in (ordered if fault == "all" else followed))
            for child in followed:
                share = Fraction(child.count) if fault == "counts" else Fraction(child.count, total)
                whole = share if fault == "alone" else probability * share
                heapq.heappush(heap, (-whole, sign * next(met), place, child))

        def drain() -> None:
            while heap and not tree.is_full:
                negative, _, place, child = heapq.heappop(heap)
                is_there = child.token in tree.children[place]
                below = tree.reach(place, child.token)
                if not (fault == "known" and is_there):
                    meet(below, child, -negative)

        for anchor in anchors:
            meet(ROOT, anchor.node, Fraction(1))
            if fault != "one heap":
                drain()
        drain()
        return tree

    return _grown(grow, TreeMode.PROB)


def _edited(edit: Callable[[NgramDraft], NgramDraft]) -> Method:
    """Change a draft after it was made."""

    def draft(correct: Method, self: Any, tokens: Any, num_draft_tokens: int | None = None) -> NgramDraft:
        return edit(correct(self, tokens, num_draft_tokens))

    return draft


def _other_order(order: Callable[[list[tuple[int, ...]]], list[int]]) -> Callable[[NgramDraft], NgramDraft]:
    """Number the nodes in front of the padding in another way, given their chains of ancestors."""

    def edit(draft: NgramDraft) -> NgramDraft:
        chains = [tuple(np.flatnonzero(row).tolist()) for row in draft.tree_mask[: draft.num_genuine]]
        places = [*order(chains), *range(draft.num_genuine, len(draft.tokens))]
        return replace(draft, tokens=draft.tokens[places], tree_mask=draft.tree_mask[places][:, places])

    return edit


def _depth_first(chains: list[tuple[int, ...]]) -> list[int]:
    return sorted(range(len(chains)), key=lambda node: chains[node])


def _levels_from_their_ends(chains: list[tuple[int, ...]]) -> list[int]:
    return sorted(range(len(chains)), key=lambda node: (len(chains[node]), -node))


def _padding_below_the_last(draft: NgramDraft) -> NgramDraft:
    tree_mask = draft.tree_mask.copy()
    tree_mask[draft.num_genuine :] |= tree_mask[draft.num_genuine - 1]
    return replace(draft, tree_mask=tree_mask)


def _padding_in_a_chain(draft: NgramDraft) -> NgramDraft:
    tree_mask = draft.tree_mask.copy()
    for node in range(draft.num_genuine + 1, len(draft.tokens)):
        tree_mask[node] |= tree_mask[node - 1]
    return replace(draft, tree_mask=tree_mask)


def _padding_repeats_the_root(draft: NgramDraft) -> NgramDraft:
    tokens = draft.tokens.copy()
    tokens[draft.num_genuine :] = tokens[0]
    return replace(draft, tokens=tokens)


def _row_without_itself(draft: NgramDraft) -> NgramDraft:
    tree_mask = draft.tree_mask.copy()
    np.fill_diagonal(tree_mask[1:, 1:], False)
    return replace(draft, tree_mask=tree_mask)


def _parent_alone(draft: NgramDraft) -> NgramDraft:
    """Let a node see its parent and itself, and nothing above."""
    tree_mask = np.eye(len(draft.tokens), dtype=np.bool_)
    for node in range(1, len(draft.tokens)):
        tree_mask[node, np.flatnonzero(draft.tree_mask[node, :node])[-1]] = True
    return replace(draft, tree_mask=tree_mask)


def _without_padding(draft: NgramDraft) -> NgramDraft:
    width = draft.num_genuine
    return replace(draft, tokens=draft.tokens[:width], tree_mask=draft.tree_mask[:width, :width], num_padding=0)


def _root_of_the_last_draft(correct: Method, self: Any, tokens: Any, num_draft_tokens: int | None = None) -> NgramDraft:
    draft: NgramDraft = correct(self, tokens, num_draft_tokens)
    root = vars(self).get("last_root", tokens[-1])
    vars(self)["last_root"] = tokens[-1]
    return replace(draft, tokens=np.array([root, *draft.tokens[1:]], dtype=np.int64))


def _own_width(correct: Method, self: Any, tokens: Any, num_draft_tokens: int | None = None) -> NgramDraft:
    correct(self, tokens, num_draft_tokens)
    draft: NgramDraft = correct(self, tokens)
    return draft


def _clipped(correct: Method, self: Any, tokens: Any, num_draft_tokens: int | None = None) -> NgramDraft:
    draft: NgramDraft = correct(self, [min(max(token, 0), LARGEST_TOKEN) for token in tokens], num_draft_tokens)
    return draft


_ROWS: tuple[tuple[int, str, Method], ...] = (
    (0, "Breadths do not shrink from level to level.", _by_breadth("level")),
    (1, "Breadths shrink by the depth of a path, not by that less one.", _by_breadth("whole depth")),
    (2, "Breadths do not depend on the length of what was matched.", _by_breadth("length")),
    (3, "Breadths are those of a context that is one token longer.", _by_breadth("longer")),
    (4, "Breadths are rounded up.", _by_breadth("up")),
    (5, "All anchors are followed level by level together.", _by_breadth("one queue")),
    (6, "What a shorter context knows after a node that is there is left out.", _by_breadth("known")),
    (7, "A tree by breadth ends a node early.", _by_breadth("early")),
    (8, "Of two that are as likely the one that was met last is taken.", _by_probability("last met")),
    (9, "Of two that are as frequent the larger token goes first.", _by_probability("larger token")),
    (10, "The most recent children are considered, not the most frequent.", _by_probability("newest")),
    (11, "The least breadth bounds a tree by probability.", _by_probability("narrow")),
    (12, "Shares are taken of all children.", _by_probability("all")),
    (13, "Counts are compared in the place of probabilities.", _by_probability("counts")),
    (14, "A probability is that of one step, not of the path.", _by_probability("alone")),
    (15, "The likeliest of all anchors together is taken.", _by_probability("one heap")),
    (16, "What a shorter context knows after a likely node is left out.", _by_probability("known")),
    (17, "Nodes are numbered depth first.", _edited(_other_order(_depth_first))),
    (18, "Levels are numbered from their ends.", _edited(_other_order(_levels_from_their_ends))),
    (19, "Padding hangs below the last node.", _edited(_padding_below_the_last)),
    (20, "Padding hangs below padding.", _edited(_padding_in_a_chain)),
    (21, "Padding repeats the root.", _edited(_padding_repeats_the_root)),
    (22, "A mask row lacks its own node.", _edited(_row_without_itself)),
    (23, "A mask row lacks what is above the parent.", _edited(_parent_alone)),
    (24, "A draft that knows less is shorter.", _edited(_without_padding)),
    (25, "The root is that of the draft before.", _root_of_the_last_draft),
    (26, "The number of nodes that comes with a call is not read.", _own_width),
    (27, "A context with ids out of range is clipped.", _clipped),
)

MUTANTS = tuple(
    Mutant(f"OWN-{2030 + number}", "NgramStore", summary, overriding(draft=fault)) for number, summary, fault in _ROWS
)
