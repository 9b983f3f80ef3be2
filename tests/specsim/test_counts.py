import numpy as np

from specsim.counts import count_candidates, count_tokens, decode_allocation, decode_reserve, path_width


def test_tokens_are_drafts_and_the_bonus_token():
    assert count_tokens(3) == 4


def test_the_count_of_drafts_is_left_as_it_is():
    drafts = np.array([0, 3], dtype=np.int32)
    tokens = count_tokens(drafts)
    assert drafts.tolist() == [0, 3]
    assert (tokens.tolist(), tokens.dtype) == ([1, 4], np.int32)


def test_candidates_of_all_levels():
    assert [count_candidates(topk, steps) for topk, steps in ((1, 4), (2, 3), (4, 1))] == [4, 10, 4]


def test_a_path_holds_the_root():
    assert path_width(3) == 4


def test_reserve_is_two_iterations():
    assert decode_allocation(2, 3, 6) == 6
    assert decode_allocation(4, 5, 16) == 20
    assert decode_reserve(2, 3, 6) == 12
