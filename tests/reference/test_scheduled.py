import numpy as np
import pytest

from specsim import Reason, SpecRejection, reference


def lens_of(rows, budget, *, least=1, longest=None, num_drafts=None, eps=None):
    confidence = np.array(rows, dtype=np.float32)
    counts = None if num_drafts is None else np.array(num_drafts, dtype=np.int32)
    bound = None if eps is None else np.array([eps], dtype=np.float32)
    longest = confidence.shape[1] + 1 if longest is None else longest
    return reference.schedule_verify_lens(confidence, counts, bound, budget, longest, least).tolist()


@pytest.mark.parametrize(
    ("budget", "lens"), [(1, [2, 1, 1]), (2, [2, 2, 1]), (3, [2, 2, 2]), (4, [3, 2, 2]), (6, [3, 3, 3]), (9, [3, 3, 3])]
)
def test_equal_survivals_go_by_position_then_by_request(budget, lens):
    assert lens_of([[1, 1], [1, 1], [1, 1]], budget) == lens


def test_a_deeper_draft_of_equal_survival_waits():
    assert lens_of([[0.5, 1], [0.5, 0.25]], 1) == [2, 1]
    assert lens_of([[0.5, 0.25], [0.5, 1]], 2) == [2, 2]


def test_survivals_are_rounded_to_float32():
    """The product of the second request is larger in float64, and in float32 both are one quarter."""
    rows = np.array([[0.5, 0.5], [0.3, np.float32(0.25) / np.float32(0.3)]], dtype=np.float32)
    assert np.prod(rows[1].astype(np.float64)) > 0.25
    assert np.prod(rows[1]) == 0.25
    assert lens_of(rows, 3) == [3, 2]


def test_drafts_that_do_not_exist_or_hardly_survive_are_left_out():
    assert lens_of([[0.5, 0.5], [0.5, 0.5]], 4, num_drafts=[0, 1]) == [1, 2]
    assert lens_of([[0.5, 0.5], [0.5, 0.25]], 4, eps=0.25) == [3, 2]
    assert lens_of([[1e-3, 1e-4]], 2) == [2]
    assert lens_of([[0.0, 1.0]], 2, eps=0) == [3]


def test_lengths_are_cut_and_roots_are_always_verified():
    assert lens_of([[1, 1, 1]], 3, longest=2) == [2]
    assert lens_of([[1, 1, 1], [0, 0, 0]], 1, least=0) == [1, 1]
    assert lens_of([[1, 1, 1], [0, 0, 0]], 2, least=2) == [4, 2]
    assert lens_of(np.zeros((2, 0)), 5) == [1, 1]
    assert lens_of(np.zeros((0, 3)), 5) == []


def test_graphs_are_captured_with_equal_shares(equal, i32):
    equal(reference.pad_verify_lens_to_bucket(i32([]), 3, 8), i32([3, 3, 2]))


def test_dense_kernels_have_no_row_beyond_a_chain(equal, i32):
    equal(reference.pad_verify_lens_to_bucket(i32([3, 1]), 2, 8, 4), i32([3, 4]))
    equal(reference.pad_verify_lens_to_bucket(i32([3, 1]), 4, 4), i32([3, 1, 0, 0]))


def test_padding_is_dump_alone(equal, i32, i64):
    got = reference.ragged_verify_window(i64(np.zeros((0, 3))), i32([]), i64([]), i32([[7, 8]]), i64([]), 2)
    equal(got, (i32([0]), i64([0, 0]), i64([0, 0]), i64([0, 0]), i64([-1, -1])))


def test_a_window_may_end_with_its_row(equal, i32, i64):
    rows = i32([[0, 0, 0], [7, 8, 9]])
    got = reference.ragged_verify_window(i64([[5, 6]]), i32([2]), i64([1]), rows, i64([1]), 2)
    equal(got, (i32([0, 2]), i64([5, 6]), i64([1, 2]), i64([8, 9]), i64([0, 1])))


def test_a_walk_past_the_cut_ends_with_the_draft_there(equal, i32, i64):
    drafts = i64([[10, 11, 12, -1], [20, 21, 22, 23], [30, 31, 32, 33]])
    got = reference.cap_accepted_drafts(drafts, i32([2, 3, 1]), i32([99, -1, 7]), i32([4, 1, 2]))
    equal(got, (i32([2, 0, 1]), i64([99, 21, 7]), i32([0, 3, 0])))


def test_commits_go_round_a_ring(equal, i32, i64):
    got = reference.commit_inject_layout(i64([2]), i32(np.zeros((3, 1))), i64([6]), i32([3]), i32([2]), None, 3, 4)
    equal(got, (i32([10, 11, -1]), i64([6, 7, 8])))


def test_commits_are_mapped(equal, i32, i64):
    slots = i32([[0, 0], [2, 1]])
    got = reference.commit_inject_layout(i64([1]), slots, i64([0]), i32([2]), None, i64([90, 91, 92]), 2)
    equal(got, (i32([92, 91]), i64([0, 1])))


@pytest.mark.parametrize(
    ("call", "reason", "what"),
    [
        (lambda: lens_of([[1.5]], 1), Reason.PROBABILITY_OUT_OF_RANGE, "confidence[0, 0]"),
        (lambda: lens_of([[float("nan")]], 1), Reason.NAN_SCORE, "confidence[0, 0]"),
        (lambda: lens_of([[0.5]], -1), Reason.SCALAR_OUT_OF_RANGE, "verify_token_budget"),
        (lambda: lens_of([[0.5]], 1, num_drafts=[2]), Reason.COUNT_OUT_OF_RANGE, "num_drafts[0]"),
        (lambda: lens_of([[0.5]], 1, least=3), Reason.SCALAR_OUT_OF_RANGE, "min_verify_len"),
        (lambda: lens_of([[0.5]], 1, longest=3), Reason.SCALAR_OUT_OF_RANGE, "max_verify_len"),
        (lambda: lens_of([[0.5]], 1, eps=-1), Reason.PROBABILITY_OUT_OF_RANGE, "survival_eps[0]"),
    ],
)
def test_a_schedule_of_bad_input_is_rejected(call, reason, what):
    with pytest.raises(SpecRejection) as caught:
        call()
    assert (caught.value.reason, caught.value.what) == (reason, what)


def test_windows_that_do_not_fit_are_rejected(i32, i64):
    rows = i32([[0, 0, 0], [7, 8, 9]])
    for lens, length, num_tokens, reason in (
        ([0], 0, 2, Reason.COUNT_OUT_OF_RANGE),
        ([3], 0, 4, Reason.COUNT_OUT_OF_RANGE),
        ([2], 0, 1, Reason.INCONSISTENT_LENGTHS),
        ([2], 2, 2, Reason.ROW_TOO_SHORT),
    ):
        with pytest.raises(SpecRejection) as caught:
            reference.ragged_verify_window(i64([[5, 6]]), i32(lens), i64([1]), rows, i64([length]), num_tokens)
        assert caught.value.reason is reason


def test_buckets_that_are_too_small_are_rejected(i32):
    for num_padded, num_tokens, reason in (
        (1, 9, Reason.SCALAR_OUT_OF_RANGE),
        (2, 3, Reason.INCONSISTENT_LENGTHS),
    ):
        with pytest.raises(SpecRejection) as caught:
            reference.pad_verify_lens_to_bucket(i32([3, 1]), num_padded, num_tokens)
        assert caught.value.reason is reason
    with pytest.raises(SpecRejection):
        reference.pad_verify_lens_to_bucket(i32([]), 0, 1)


def test_commits_that_cannot_be_looked_up_are_rejected(i32, i64):
    slots = i32([[0, 0], [2, 1]])
    for length, places, reason in ((1, None, Reason.ROW_TOO_SHORT), (0, i64([5, 6]), Reason.SLOT_OUT_OF_RANGE)):
        with pytest.raises(SpecRejection) as caught:
            reference.commit_inject_layout(i64([1]), slots, i64([length]), i32([2]), None, places, 2)
        assert caught.value.reason is reason
    with pytest.raises(SpecRejection):
        reference.commit_inject_layout(i64([1]), slots, i64([0]), i32([1]), None, None, 1, 2**30)
