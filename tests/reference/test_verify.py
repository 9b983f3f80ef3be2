import pytest

from specsim import Reason, SpecRejection, reference


def verify(candidates, next_token, next_sibling, target_predict, num_steps, i64):
    width = len(candidates)
    return reference.verify_tree_greedy(
        i64([candidates]), i64([range(width)]), i64([next_token]), i64([next_sibling]), i64([target_predict]), num_steps
    )


def test_the_lower_of_two_equal_siblings_wins(equal, i32, i64):
    got = verify([5, 7, 7], [1, -1, -1], [-1, 2, -1], [7, 8, 9], 1, i64)
    equal(got, (i32([7, 8, 0]), i32([[0, 1]]), i32([1])))


def test_the_count_excludes_the_root(equal, i32, i64):
    got = verify([5, 7], [1, -1], [-1, -1], [6, 8], 1, i64)
    equal(got, (i32([6, 0]), i32([[0, -1]]), i32([0])))


def test_the_path_ends_at_the_deepest_level(equal, i32, i64):
    got = verify([5, 6, 7], [1, 2, -1], [-1, -1, -1], [6, 7, 8], 1, i64)
    equal(got, (i32([6, 7, 0]), i32([[0, 1]]), i32([1])))


def test_an_empty_batch(equal, i32, i64):
    empty = i64([]).reshape(0, 3)
    got = reference.verify_tree_greedy(empty, empty, empty, empty, empty, 2)
    equal(got, (i32([]), i32([]).reshape(0, 3), i32([])))


def test_a_backward_link_is_rejected(i64):
    with pytest.raises(SpecRejection) as caught:
        verify([5, 6, 7], [1, 0, -1], [-1, -1, -1], [6, 7, 8], 2, i64)
    assert caught.value.reason is Reason.CYCLIC_TREE
    assert caught.value.what == "retrieve_next_token[0, 1]"


def test_argmax_takes_the_lower_of_equal_logits(equal, i64, f32):
    equal(reference.argmax_target_predict(f32([[1, 3, 3], [-2, -2, -3]])), i64([1, 0]))


def test_metadata_derives_tokens_per_request(equal, i32, i64):
    rows = i32([[0, 0, 0, 0], [4, 5, 6, 7]])
    got = reference.target_verify_metadata(i64([1]), rows, i64([1]), 3, 4)
    equal(got, (i32([4]), i32([0, 3]), i32([0, 4]), i32([[4, 5, 6, 7]])))


def test_metadata_rejects_tokens_that_do_not_divide(i32, i64):
    with pytest.raises(SpecRejection) as caught:
        reference.target_verify_metadata(i64([0, 0]), i32([[0] * 9]), i64([1, 1]), 5, 4)
    assert caught.value.reason is Reason.NOT_DIVISIBLE
