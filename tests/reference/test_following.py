import numpy as np
import pytest

from specsim import Reason, SpecRejection, reference


@pytest.fixture
def chain(i32, i64):
    """Return the call of the chain 1 → 2 → 0 after the output 3, 1 over four tokens; 0 stops, and "1 2" is bad."""
    return {
        "draft_token": i64([1, 2, 0]),
        "tree_mask": np.tri(3, dtype=bool).reshape(-1),
        "num_output_tokens": i32([2]),
        "min_tokens": i32([4]),
        "stop_mask": i32([[0b0001]]),
        "recent_tokens": i64([[3, 1]]),
        "bad_words": i64([[[-1, 1, 2], [-1, -1, -1], [1, 2, 3]]]),
        "num_draft_tokens": 3,
        "vocab_size": 4,
    }


@pytest.fixture
def rows(i32, i64):
    """Return a commit of 5, 5 to row 2 of three rows, and of nothing to row 1."""
    return {
        "req_pool_indices": i64([2, 1]),
        "token_counts": np.zeros((3, 6), dtype=np.int32),
        "num_output_tokens": i32([0, 4, 1]),
        "recent_tokens": i64([[-1, -1, -1], [1, 2, 3], [-1, -1, 4]]),
        "accept_index": i32([[0, 1], [-1, -1]]),
        "predict": i32([5, 5, 0, 0]),
        "counts_all": np.array([True, True]),
    }


def test_stops_and_bad_words_are_forbidden_after_the_path(chain):
    masks = reference.forbid_tokens(**chain) & 0b1111
    assert masks.tolist() == [[0b1010], [0b0110], [0b1111]]


def test_siblings_are_no_text(chain):
    star = np.eye(3, dtype=bool)
    star[:, 0] = True
    masks = reference.forbid_tokens(**{**chain, "tree_mask": star.reshape(-1)}) & 0b1111
    assert masks.tolist() == [[0b1010], [0b0110], [0b1110]]


def test_all_tokens_of_a_path_are_committed(rows, equal, i32, i64):
    reference.commit_output_tokens(**rows)
    equal(rows["token_counts"], i32([[0] * 6, [0] * 6, [0, 0, 0, 0, 0, 2]]))
    equal(rows["num_output_tokens"], i32([0, 4, 3]))
    equal(rows["recent_tokens"], i64([[-1, -1, -1], [1, 2, 3], [4, 5, 5]]))


def test_the_last_token_alone_may_count(rows):
    reference.commit_output_tokens(**{**rows, "counts_all": np.array([False, True])})
    assert rows["token_counts"][2, 5] == 1
    assert rows["num_output_tokens"][2] == 3


def test_row_0_is_nobodys(rows, i64):
    before = {name: rows[name].copy() for name in ("token_counts", "num_output_tokens", "recent_tokens")}
    reference.commit_output_tokens(**{**rows, "req_pool_indices": i64([0, 0])})
    assert all((rows[name] == values).all() for name, values in before.items())


def test_two_owners_of_a_row_are_rejected(rows, i64):
    with pytest.raises(SpecRejection) as caught:
        reference.commit_output_tokens(**{**rows, "req_pool_indices": i64([2, 2])})
    assert caught.value.reason is Reason.DUPLICATE_ROW
