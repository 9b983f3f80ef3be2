import numpy as np
import pytest

from specsim import Reason, SpecRejection, reference


def verify(candidates, next_token, next_sibling, target_predict, num_steps, i64):
    width = len(candidates)
    return reference.verify_tree_greedy(
        i64([candidates]), i64([range(width)]), i64([next_token]), i64([next_sibling]), i64([target_predict]), num_steps
    )


def test_the_golden_tree_of_an_engine_has_a_link_from_4_to_its_sibling_1(equal, i32, i64):
    """SGLang's own vector of ``verify_tree_greedy``; in the third request the target chooses the next sibling."""
    second = ([4, 2, 3, -1, 5, -1], [-1, -1, -1, -1, 1, -1])
    got = reference.verify_tree_greedy(
        i64([[0, 1, 2, 3, 4, 5], [7, 8, 9, 10, 11, 12], [7, 8, 9, 10, 11, 12]]),
        i64([range(6), range(6, 12), range(12, 18)]),
        i64([[1, 2, -1, 4, 5, -1], second[0], second[0]]),
        i64([[-1, 3, -1, -1, -1, -1], second[1], second[1]]),
        i64([[3, 18, 18, 4, 5, 18], [11, 18, 18, 18, 12, 18], [8, 9, 18, 18, 12, 18]]),
        3,
    )
    equal(got.accept_index, i32([[0, 3, 4, 5], [6, 10, 11, -1], [12, 13, 14, -1]]))
    equal(got.num_accepted_drafts, i32([3, 2, 2]))
    equal(got.predict[[0, 3, 4, 5, 6, 10, 11, 12, 13, 14]], i32([3, 4, 5, 18, 11, 12, 18, 8, 9, 18]))


def test_a_child_may_have_a_smaller_number(equal, i32, i64):
    got = verify([5, 7, 6], [2, -1, 1], [-1, -1, -1], [6, 8, 7], 2, i64)
    equal(got, (i32([6, 8, 7]), i32([[0, 2, 1]]), i32([2])))


@pytest.mark.parametrize("order", [([1, -1, -1], [-1, 2, -1]), ([2, -1, -1], [-1, -1, 1])], ids=["1, 2", "2, 1"])
def test_of_equal_siblings_the_one_that_is_linked_first_wins(order, equal, i32, i64):
    got = verify([5, 7, 7], *order, [7, 8, 9], 1, i64)
    equal(got.accept_index, i32([[0, order[0][0]]]))


@pytest.mark.parametrize(
    ("next_token", "next_sibling", "what"),
    [
        ([1, 2, -1], [-1, 2, -1], "retrieve_next_sibling[0, 1]"),
        ([1, -1, 0], [-1, -1, -1], "retrieve_next_token[0, 2]"),
    ],
    ids=["two parents", "the root hangs from a node that hangs from none"],
)
def test_a_node_that_two_links_lead_to_is_rejected(next_token, next_sibling, what, i64):
    with pytest.raises(SpecRejection) as caught:
        verify([5, 6, 7], next_token, next_sibling, [6, 7, 8], 2, i64)
    assert (caught.value.reason, caught.value.what) == (Reason.SHARED_NODE, what)


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


def test_a_link_back_to_the_root_is_a_cycle(i64):
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


@pytest.fixture
def chains(i32, i64):
    """Return the call of chains of three, no and two drafts; the target agrees up to the second of the first chain."""
    return {
        "draft_tokens": i64([11, 12, 13, 31, -1]),
        "cu_num_drafts": i32([0, 3, 3, 5]),
        "target_predict": i64([11, 12, 20, 13, 7, 31, 32, 33]),
        "max_num_drafts": 4,
    }


def test_greedy_chains_are_ragged(chains, equal, i32):
    got = reference.verify_chain_greedy(**chains)
    equal(got.output_tokens, i32([[11, 12, 20, -1, -1], [7, -1, -1, -1, -1], [31, 32, -1, -1, -1]]))
    equal(got.num_accepted_drafts, i32([2, 0, 1]))


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("cu_num_drafts", [0, 3, 2, 5], Reason.INCONSISTENT_LENGTHS),
        ("max_num_drafts", 2, Reason.COUNT_OUT_OF_RANGE),
        ("draft_tokens", [11, 12, 13, 31, -2], Reason.TOKEN_OUT_OF_RANGE),
        ("target_predict", [11, 12, 20, 13, 7, 31, 32, -1], Reason.TOKEN_OUT_OF_RANGE),
    ],
)
def test_greedy_chains_that_are_none_are_rejected(name, value, reason, chains):
    chains[name] = value if isinstance(value, int) else np.array(value, dtype=chains[name].dtype)
    with pytest.raises(SpecRejection) as caught:
        reference.verify_chain_greedy(**chains)
    assert caught.value.reason is reason
