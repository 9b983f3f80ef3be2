import numpy as np
import pytest

from specsim import Reason, SpecRejection, reference

# Root → 1, 2 after a prefix of 2 and of 0 positions.
TREE = np.array([[1, 0, 0], [1, 1, 0], [1, 0, 1]], dtype=np.bool_)
MASK = np.concatenate([np.concatenate([np.ones((3, 2), dtype=np.bool_), TREE], axis=1).reshape(-1), TREE.reshape(-1)])


@pytest.fixture
def rows(i32, i64):
    """Return two requests in rows 2 and 1, with the slots 20, 21, … and 10, 11, …."""
    slots = i32([np.zeros(6), np.arange(10, 16), np.arange(20, 26)])
    return {"req_pool_indices": i64([2, 1]), "req_to_token": slots, "seq_lens": i64([2, 0]), "num_draft_tokens": 3}


def test_two_passes(rows, equal, i32):
    got = reference.verify_cascade_metadata(**rows, tree_mask=MASK, max_prefix_len=3)
    equal(
        got,
        (
            i32([2, 0]),
            i32([0, 3, 6]),
            i32([[20, 21, 22], [10, 11, 12]]),
            i32([1, 2, 2, 1, 2, 2]),
            i32([[22, 23, 24], [22, 23, 24], [22, 24, 23], [10, 11, 12], [10, 11, 12], [10, 12, 11]]),
        ),
    )


def test_the_first_pass_reads_pages(rows, equal, i32):
    got = reference.verify_cascade_metadata(**rows, tree_mask=MASK, max_prefix_len=3, page_size=2)
    equal(got.page_table, i32([[10, 11], [5, 6]]))
    equal(got.cache_seqlens, i32([2, 0]))
    equal(got.expand_page_table[0], i32([22, 23, 24]))


def test_a_short_mask_is_continued(rows, equal, i32):
    got = reference.verify_custom_mask_metadata(**rows, tree_mask=MASK[:-3], seq_lens_sum=2)
    keys = i32([20, 21, 22, 23, 24, 10, 11, 12])
    mask = np.append(MASK[:-3], [True, True, True])
    equal(got, (i32([0, 3, 6]), i32([0, 5, 8]), keys, mask))


def test_a_longer_mask_is_cut(rows, equal):
    longer = np.append(MASK, [False, False])
    equal(reference.verify_custom_mask_metadata(**rows, tree_mask=longer, seq_lens_sum=2)[3], MASK)


def test_a_bound_on_the_sum_makes_outputs_longer(rows):
    got = reference.verify_custom_mask_metadata(**rows, tree_mask=MASK, seq_lens_sum=4)
    assert [len(array) for array in got] == [3, 3, 10, 30]


def test_the_prefix_alone(rows, equal, i32, i64):
    got = reference.verify_extend_metadata(**rows, seq_lens_sum=2)
    equal(got, (i32([0, 3, 6]), i32([0, 2, 2]), i32([20, 21]), i64([0, 15, 24])))


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("verify_cascade_metadata", {"tree_mask": MASK[:-1], "max_prefix_len": 2}),
        ("verify_cascade_metadata", {"tree_mask": MASK, "max_prefix_len": 1}),
        ("verify_custom_mask_metadata", {"tree_mask": MASK, "seq_lens_sum": 1}),
        ("verify_extend_metadata", {"seq_lens_sum": 1}),
    ],
)
def test_sizes_that_are_too_small_are_rejected(name, change, rows):
    with pytest.raises(SpecRejection) as caught:
        getattr(reference, name)(**rows, **change)
    assert caught.value.reason is Reason.INCONSISTENT_LENGTHS


def test_a_window_beyond_the_row_is_rejected(rows, i64):
    with pytest.raises(SpecRejection) as caught:
        reference.verify_extend_metadata(**{**rows, "seq_lens": i64([4, 0])}, seq_lens_sum=4)
    assert caught.value.reason is Reason.ROW_TOO_SHORT


@pytest.mark.parametrize(
    ("num_new_keys", "cache", "ends"), [(0, [3, 1, 1], [0, 3, 4, 5]), (1, [4, 2, 2], [0, 4, 6, 8])]
)
def test_idle_rows_beside_one_of_a_request(i32, i64, num_new_keys, cache, ends):
    """Row 2 has a request; the two of padding read row 0, the dump."""
    rows = i32([[0] * 6, [0] * 6, [8, 9, 10, 11, 4, 5]])
    got = reference.idle_attention_metadata(i64([2, 0, 0]), rows, i64([3, 1, 1]), num_new_keys, 6, page_size=2)
    assert got.cache_seqlens.tolist() == cache
    assert got.cu_seqlens_q.tolist() == [0, 1, 2, 3]
    assert got.cu_seqlens_k.tolist() == ends
    assert got.page_table.tolist() == [[4, 5, 2], [0, 0, 0], [0, 0, 0]]


def test_no_row_has_no_metadata(i32, i64):
    got = reference.idle_attention_metadata(i64([]), i32([[0] * 6]), i64([]), 1, 6)
    assert [one.tolist() for one in got[:3]] == [[], [0], [0]]
    assert got.page_table.shape == (0, 6)
