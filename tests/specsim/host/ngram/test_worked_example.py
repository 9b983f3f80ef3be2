"""The example of semantics, A.13b, number by number."""

import numpy as np
import pytest

from specsim import reference
from specsim.host.ngram import NgramParameters, NgramStore, TreeMode

BY_BREADTH = ([1, 2, 3, 4], [1, 2, 5], [2, 3, 6], [1, 2, 3, 7])
BY_PROBABILITY = (*[[1, 2, 3, 4]] * 3, [1, 2, 3, 7], *[[1, 2, 5]] * 2)


def store_of(texts, mode, num_draft_tokens):
    store = NgramStore(NgramParameters(4, 1, 4, num_draft_tokens=num_draft_tokens, mode=mode))
    for text in texts:
        store.insert(text)
    return store


def parents_of(draft):
    return [int(np.flatnonzero(row[:node])[-1]) for node, row in enumerate(draft.tree_mask) if node]


def test_a_tree_by_breadth():
    draft = store_of(BY_BREADTH, TreeMode.BFS, 8).draft([9, 1, 2])
    assert draft.tokens.tolist() == [2, 3, 5, 7, 6, 0, 0, 0]
    assert parents_of(draft) == [0, 0, 1, 1, 0, 0, 0]
    assert draft.num_padding == 3


@pytest.mark.parametrize(("num_nodes", "tokens"), [(2, [3]), (3, [3, 5]), (4, [3, 5, 7]), (5, [3, 5, 7, 6])])
def test_nodes_by_breadth_come_in_this_order(num_nodes, tokens):
    """[1,2] is followed by 3 and 5, 3 by 7; then [2] is followed wider, so that 3 is followed by 6 as well."""
    draft = store_of(BY_BREADTH, TreeMode.BFS, 8).draft([9, 1, 2], num_nodes)
    assert draft.tokens.tolist() == [2, *tokens]


def test_nodes_of_the_store_are_counted():
    """From 1: 1 12 123 1234 125 1237; from 2: 2 23 234 25 236 237; from 3: 3 34 36 37; and 4, 5, 6, 7."""
    store = store_of(BY_BREADTH, TreeMode.BFS, 8)
    assert (store.num_nodes, store.num_forgotten) == (1 + 6 + 6 + 4 + 4, 0)


@pytest.mark.parametrize(
    ("num_nodes", "tokens", "parents"),
    [(2, [3], [0]), (3, [3, 4], [0, 1]), (4, [3, 5, 4], [0, 0, 1])],
)
def test_nodes_by_probability_come_in_this_order(num_nodes, tokens, parents):
    """3 has 4 of 6, 4 after it 3 of 4 of that, and 5 has 2 of 6: that is .667, .5 and .333."""
    draft = store_of(BY_PROBABILITY, TreeMode.PROB, 4).draft([1, 2], num_nodes)
    assert draft.tokens.tolist() == [2, *tokens]
    assert parents_of(draft) == parents


def test_a_longer_anchor_is_drained_before_a_shorter_one_is_asked():
    """[5,5] is followed by 3 and 4; what follows them goes before the children of [5]."""
    store = NgramStore(NgramParameters(6, 1, 6, num_draft_tokens=4, mode=TreeMode.PROB))
    for text in ([5, 5, 3, 3, 1, 3, 2, 3, 1], [2, 2, 1, 3, 4, 5, 5, 4]):
        store.insert(text)
    draft = store.draft([5, 5, 5])
    assert draft.tokens.tolist() == [5, 3, 4, 3]
    assert parents_of(draft) == [0, 0, 1]


def test_its_mask_gives_the_links_that_a_verify_walks():
    draft = store_of(BY_BREADTH, TreeMode.BFS, 8).draft([9, 1, 2])
    links = reference.reconstruct_indices_from_tree_mask(draft.tree_mask[None], np.array([20]))
    assert links.positions.tolist() == [20, 21, 21, 22, 22, 21, 21, 21]
    assert links.retrieve_next_token.tolist() == [[1, 3, -1, -1, -1, -1, -1, -1]]
    assert links.retrieve_next_sibling.tolist() == [[-1, 2, 5, 4, -1, 6, 7, -1]]
