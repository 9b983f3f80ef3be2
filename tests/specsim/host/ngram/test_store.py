"""A store forgets what was not said for longest, keeps what it is given exactly, and refuses sizes that cannot be."""

from dataclasses import replace

import pytest

from specsim import Reason, SpecRejection
from specsim.host.ngram import LARGEST_TOKEN, NgramParameters, NgramStore, TreeMode

SMALL = NgramParameters(max_depth=2, min_breadth=1, max_breadth=3, capacity=5, num_draft_tokens=4)


def store_of(*texts, **sizes):
    store = NgramStore(replace(SMALL, **sizes))
    for text in texts:
        store.insert(text)
    return store


def drafted(store, *context):
    return store.draft(context).tokens.tolist()


def test_nothing_is_known_of_a_context_that_was_never_said():
    draft = store_of().draft([7])
    assert (draft.tokens.tolist(), draft.num_padding) == ([7, 0, 0, 0], 3)
    assert draft.tree_mask.astype(int).tolist() == [[1, 0, 0, 0], [1, 1, 0, 0], [1, 0, 1, 0], [1, 0, 0, 1]]


def test_what_was_said_last_comes_first():
    store = store_of([1, 2], [1, 3], [1, 2], min_breadth=3, capacity=100)
    assert drafted(store, 1) == [1, 2, 3, 0]


def test_the_oldest_end_of_a_path_is_forgotten_first():
    """[1], [1,2] and [2] leave room for one node: [3,4] drives [1,2] out, then [4] drives [1] out."""
    store = store_of([1, 2])
    assert (store.num_nodes, store.num_forgotten) == (4, 0)
    store.insert([3, 4])
    assert (store.num_nodes, store.num_forgotten) == (5, 2)
    assert drafted(store, 1) == [1, 0, 0, 0]
    assert drafted(store, 3) == [3, 4, 0, 0]


def test_a_path_may_drive_out_what_it_passes():
    """With room for one path alone, a path that is known needs room all the same; its counts begin again."""
    store = store_of([1, 2], [1, 2], capacity=3)
    assert (store.num_nodes, store.num_forgotten) == (3, 4)


def test_a_path_fits_that_fills_the_store():
    store = store_of([1, 2, 3, 4], max_depth=4, capacity=5)
    assert (store.num_nodes, store.num_forgotten) == (5, 3 + 2 + 1)


def test_text_may_end_before_a_path_is_full():
    store = store_of([1], [])
    assert (store.num_nodes, store.num_forgotten) == (2, 0)


def test_breadths_are_exact():
    """After [1,2] it is (3−2)·4/3 + 2, and 2 a level below, of which doubles leave 1.9999999999999998."""
    store = store_of([1, 2, 3, 4], [1, 2, 3, 5], [2, 7], max_depth=4, min_breadth=2, max_breadth=6, capacity=100)
    assert (4 / 3 + 2) - 4 / 3 < 2
    assert drafted(store, 1, 2) == [2, 3, 5, 4]


def test_ids_of_32_bits_are_taken():
    assert drafted(store_of([LARGEST_TOKEN, 0]), LARGEST_TOKEN) == [LARGEST_TOKEN, 0, 0, 0]
    assert store_of([LARGEST_TOKEN, 0]).draft([LARGEST_TOKEN]).num_padding == 2


@pytest.mark.parametrize(
    ("what", "sizes"),
    [
        ("max_depth", {"max_depth": 1}),
        ("max_depth", {"max_depth": 0}),
        ("min_breadth", {"min_breadth": 0}),
        ("max_breadth", {"min_breadth": 4}),
        ("capacity", {"capacity": 2}),
        ("capacity", {"max_depth": 5}),
        ("num_draft_tokens", {"num_draft_tokens": 0}),
        ("num_draft_tokens", {"num_draft_tokens": 1025}),
        ("mode", {"mode": "DFS"}),
    ],
)
def test_sizes_that_cannot_be_are_refused(what, sizes):
    with pytest.raises(SpecRejection, match=f"{what} is ") as caught:
        replace(SMALL, **sizes)
    assert caught.value.reason is Reason.BAD_CONFIGURATION


def test_the_defaults_are_those_of_engines():
    assert NgramParameters() == NgramParameters(18, 1, 10, 10_000_000, 12, TreeMode.BFS)


def test_a_refusal_says_which_token():
    store = store_of([1, 2])
    with pytest.raises(SpecRejection) as caught:
        store.insert([1, 2, -3])
    assert str(caught.value) == (
        "TOKEN_OUT_OF_RANGE: tokens to insert[2] is -3, but should be 0 to 2147483647, "
        "because ids are 32 bits wide and not negative"
    )
    assert store.num_nodes == 4
