import numpy as np
import pytest

from specsim import Reason, SpecRejection, reference
from specsim.config import TreeMaskMode


def build(parent_list, top_scores_index, draft_tokens, topk, num_steps, mask_mode=1, seq_lens=(4,), seq_lens_sum=0):
    arrays = (np.array(value, dtype=np.int64) for value in (parent_list, top_scores_index, draft_tokens, seq_lens))
    parents, index, tokens, lengths = arrays
    bonus = np.full(len(lengths), 50, dtype=np.int32)
    return reference.build_tree(
        bonus, parents, index, tokens, lengths, topk, num_steps, index.shape[1] + 1, mask_mode, seq_lens_sum
    )


def test_chain(equal, i64):
    got = build([[-1, 0]], [[0, 1]], [[7, 8]], 1, 2)
    expected = (
        i64([50, 7, 8]),
        i64([[0, 1, 2]]),
        i64([[1, 2, -1]]),
        i64([[-1, -1, -1]]),
        i64([4, 5, 6]),
        np.array([1, 0, 0, 1, 1, 0, 1, 1, 1], dtype=bool),
    )
    equal(got, expected)


def test_a_single_step_does_not_read_parents(equal, i64):
    got = build(np.zeros((1, 0)), [[0, 2]], [[7, 9]], 3, 1)
    expected = (
        i64([50, 7, 9]),
        i64([[0, 1, 2]]),
        i64([[1, -1, -1]]),
        i64([[-1, 2, -1]]),
        i64([4, 5, 5]),
        np.array([1, 0, 0, 1, 1, 0, 1, 0, 1], dtype=bool),
    )
    equal(got, expected)


def test_an_orphan_is_rejected():
    with pytest.raises(SpecRejection) as caught:
        build([[-1, 0, 1]], [[0, 4]], [[7, 9]], 2, 2)
    assert caught.value.reason is Reason.ORPHAN_NODE


def test_descending_candidates_are_rejected():
    with pytest.raises(SpecRejection) as caught:
        build([[-1, 0, 1]], [[1, 0]], [[7, 9]], 2, 2)
    assert caught.value.reason is Reason.UNSORTED_CANDIDATES


@pytest.mark.parametrize(("num_nodes", "dtype"), [(8, np.uint8), (9, np.uint16), (17, np.uint32), (32, np.uint32)])
def test_packed_rows_are_as_wide_as_the_tree_needs(num_nodes, dtype):
    steps = num_nodes - 1
    parents, index = [list(range(-1, steps - 1))], [list(range(steps))]
    packed = build(parents, index, index, 1, steps, TreeMaskMode.QLEN_ONLY_BITPACKING)[5]
    assert packed.dtype == dtype
    assert packed.tolist() == [2 ** (node + 1) - 1 for node in range(num_nodes)]


def test_33_nodes_do_not_fit_a_packed_row():
    index = [list(range(32))]
    with pytest.raises(SpecRejection) as caught:
        build([list(range(-1, 31))], index, index, 1, 32, TreeMaskMode.QLEN_ONLY_BITPACKING)
    assert caught.value.reason is Reason.SCALAR_OUT_OF_RANGE


def test_a_full_mask_may_be_longer_than_the_lengths(equal):
    mask = build([[-1, 0]], [[0, 1]], [[7, 8]], 1, 2, TreeMaskMode.FULL_MASK, (2,), 5)[5]
    assert mask.shape == (3 * 5 + 9,)
    equal(mask[:15], np.array([1, 1, 1, 0, 0, 1, 1, 1, 1, 0, 1, 1, 1, 1, 1], dtype=bool))


def test_a_full_mask_shorter_than_the_lengths_is_rejected():
    with pytest.raises(SpecRejection) as caught:
        build([[-1, 0]], [[0, 1]], [[7, 8]], 1, 2, TreeMaskMode.FULL_MASK, (2,), 1)
    assert caught.value.reason is Reason.INCONSISTENT_LENGTHS


def test_reconstruction_of_a_chain_and_a_star(equal, i64):
    mask = np.array([[[1, 0, 0], [1, 1, 0], [1, 1, 1]], [[1, 0, 0], [1, 1, 0], [1, 0, 1]]], dtype=bool)
    expected = (
        i64([3, 4, 5, 8, 9, 9]),
        i64([[0, 1, 2], [3, 4, 5]]),
        i64([[1, 2, -1], [1, -1, -1]]),
        i64([[-1, -1, -1], [-1, 2, -1]]),
    )
    equal(reference.reconstruct_indices_from_tree_mask(mask, i64([3, 8])), expected)


def test_a_mask_that_is_no_closure_is_rejected(i64):
    mask = np.array([[[1, 0, 0], [1, 1, 0], [0, 1, 1]]], dtype=bool)
    with pytest.raises(SpecRejection) as caught:
        reference.reconstruct_indices_from_tree_mask(mask, i64([3]))
    assert caught.value.reason is Reason.MALFORMED_MASK
