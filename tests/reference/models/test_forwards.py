import numpy as np
import pytest

from specsim import Reason, SpecRejection, reference
from specsim.hashing import MASK, digest


def pool(num_slots=6):
    return [np.full((num_slots, 4), -1, dtype=np.int64) for _ in range(2)]


def pair(position, token, context):
    """Digest what one token leaves in keys and values of the only layer."""
    return digest([position, token, context, 0]) + digest([position, token, context, 1])


def test_a_causal_token_sees_the_prefix_and_itself(i64, i32):
    buffers = pool()
    hidden = reference.target_forward(
        buffers, i64([7, 9]), i64([0, 1]), i64([4, 2]), i32([[4, 2]]), i32([2]), i32([0, 2])
    )
    first, both = pair(0, 7, 0) & MASK, (pair(0, 7, 0) + pair(1, 9, 0)) & MASK
    assert hidden.tolist() == [[first, 7], [both, (7 << 8) + 9]]
    assert buffers[0][[4, 2]].tolist() == [[0, 7, 0, 0], [1, 9, 0, 0]]
    assert buffers[1][[4, 2]].tolist() == [[0, 7, 0, 1], [1, 9, 0, 1]]
    assert (buffers[0][[0, 1, 3, 5]] == -1).all()


def test_a_tree_mask_hides_the_sibling(i64, i32):
    mask = np.array([1, 0, 0, 1, 1, 0, 1, 0, 1], dtype=bool)
    hidden = reference.target_forward(
        pool(), i64([7, 8, 9]), i64([0, 1, 1]), i64([1, 2, 3]), i32([[1, 2, 3]]), i32([3]), i32([0, 3]), mask
    )
    assert hidden[2].tolist() == [(pair(0, 7, 0) + pair(1, 9, 0)) & MASK, (7 << 8) + 9]


def test_pages_of_two_slots(i64, i32):
    one = reference.target_forward(
        pool(), i64([7, 8, 9]), i64([0, 1, 2]), i64([4, 5, 2]), i32([[4, 5, 2]]), i32([3]), i32([0, 3])
    )
    two = reference.target_forward(
        pool(), i64([7, 8, 9]), i64([0, 1, 2]), i64([4, 5, 2]), i32([[2, 1]]), i32([3]), i32([0, 3]), None, 2
    )
    assert one.tolist() == two.tolist()


def test_a_slot_outside_the_pool_is_rejected(i64, i32):
    with pytest.raises(SpecRejection) as caught:
        reference.target_forward(pool(), i64([7]), i64([0]), i64([6]), i32([[1]]), i32([1]), i32([0, 1]))
    assert caught.value.reason is Reason.SLOT_OUT_OF_RANGE


def test_draft_decode_predicts_the_targets_hidden_state(i64, i32):
    """The hidden state after token 9 is that of the target, and the context digests the draft's own entries."""
    target = reference.target_forward(pool(), i64([7]), i64([0]), i64([4]), i32([[4]]), i32([1]), i32([0, 1]))
    hidden, context = reference.draft_decode_forward(
        pool(), i64([9]), target, i64([0]), i64([3]), i32([3]), i32([0, 1])
    )
    both = (pair(0, 7, 0) + pair(1, 9, 0)) & MASK
    assert hidden.tolist() == [[both, (7 << 8) + 9]]
    own = pair(0, 9, digest([pair(0, 7, 0) & MASK, 7])) & MASK
    assert context.tolist() == [digest([own])]


def test_draft_extend_equals_decode_token_by_token(i64, i32):
    target = reference.target_forward(
        pool(), i64([7, 9]), i64([0, 1]), i64([4, 2]), i32([[4, 2]]), i32([2]), i32([0, 2])
    )
    extended, context = reference.draft_extend_forward(
        pool(), i64([9, 5]), target, i64([0, 1]), i64([4, 2]), i32([[4, 2]]), i32([2]), i32([0, 2])
    )
    buffers = pool()
    for place, slots in enumerate(([4], [4, 2])):
        row = slice(place, place + 1)
        got = reference.draft_decode_forward(
            buffers,
            i64([9, 5])[row],
            target[row],
            i64([0, 1])[row],
            i64([4, 2])[row],
            i32(slots),
            i32([0, len(slots)]),
        )
        assert (got[0].tolist(), got[1].tolist()) == (extended[row].tolist(), context[row].tolist())
