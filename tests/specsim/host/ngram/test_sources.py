"""Corpora continue a text as a store does, without its bounds, and share a draft with one."""

import pytest

from specsim import Reason, SpecRejection
from specsim.host.ngram import (
    NgramCorpus,
    NgramParameters,
    NgramStore,
    TreeMode,
    draft_with_corpora,
    merge_drafts,
    share_draft_nodes,
)

SIZES = NgramParameters(max_depth=2, min_breadth=3, max_breadth=3, capacity=100, num_draft_tokens=6)


def test_a_corpus_is_followed_further_than_a_path_reaches():
    assert NgramCorpus([[1, 2, 3, 4, 5]], SIZES).draft([1]).tokens.tolist() == [1, 2, 3, 4, 5, 0]


def test_nothing_is_followed_from_one_document_into_the_next():
    assert NgramCorpus([[1, 2], [3, 4]], SIZES).draft([2]).num_padding == 5
    assert NgramCorpus([[1, 2], [3, 4]], SIZES).draft([2, 3]).tokens.tolist() == [3, 4, 0, 0, 0, 0]


def test_what_stands_last_is_the_most_recent_and_what_stands_often_the_likeliest():
    documents = [[1, 2], [1, 2], [1, 3]]
    likely = NgramParameters(2, 1, 3, 100, 6, TreeMode.PROB)
    assert NgramCorpus(documents, SIZES).draft([1]).tokens.tolist() == [1, 3, 2, 0, 0, 0]
    assert NgramCorpus(documents, likely).draft([1]).tokens.tolist() == [1, 2, 3, 0, 0, 0]


@pytest.mark.parametrize(
    ("num_draft_tokens", "num_corpora", "budget", "shares"),
    [
        (12, 2, 5, (7, 2)),
        (12, 2, 11, (1, 5)),
        (12, 2, 40, (1, 5)),
        (12, 1, 11, (0, 11)),
        (12, 3, 2, (11, 0)),
        (12, 0, 11, (11, 0)),
        (1, 2, 3, (0, 0)),
    ],
)
def test_budgets_are_shared(num_draft_tokens, num_corpora, budget, shares):
    assert share_draft_nodes(num_draft_tokens, num_corpora, budget) == shares


def test_leaves_are_merged_in_their_order():
    """The store knows 1 2 5 and 1 3, the corpus 1 3 4 and 1 2: the leaf 3 comes before the leaf 5."""
    store = NgramStore(SIZES)
    store.insert([2, 5])
    for text in ([1, 3], [1, 2]):
        store.insert(text)
    corpus = NgramCorpus([[1, 2], [1, 3, 4]], SIZES)
    merged = merge_drafts([corpus.draft([1], 4), store.draft([1], 3)], 8)
    assert merged.tokens.tolist() == [1, 2, 3, 4, 0, 0, 0, 0]
    assert merged.num_padding == 4


def test_a_store_and_a_corpus_draft_in_their_shares():
    store = NgramStore(SIZES)
    store.insert([1, 9])
    store.insert([1, 8])
    corpus = NgramCorpus([[1, 2, 3, 4, 5]], SIZES)
    assert draft_with_corpora(store, [corpus], [1], 6, 3).tokens.tolist() == [1, 8, 9, 2, 3, 4]
    assert draft_with_corpora(store, [corpus], [1], 6, 5).tokens.tolist() == [1, 2, 3, 4, 5, 0]
    assert draft_with_corpora(store, [corpus], [1], 6, 0).tokens.tolist() == [1, 8, 9, 0, 0, 0]
    assert draft_with_corpora(store, [], [1], 6, 3).tokens.tolist() == [1, 8, 9, 0, 0, 0]


def test_a_negative_share_is_refused():
    for counts in ((12, -1, 3), (12, 1, -3)):
        with pytest.raises(SpecRejection) as caught:
            share_draft_nodes(*counts)
        assert caught.value.reason is Reason.COUNT_OUT_OF_RANGE
