import numpy as np
import pytest

from specsim import Reason, SpecRejection, reference
from specsim.hashing import GOLDEN, MASK, digest


def pool():
    return [np.full((6, 4), -1, dtype=np.int64) for _ in range(2)]


def pair(position, token):
    """Digest what one token leaves in keys and values of the lowest layer."""
    return digest([position, token, 0, 0]) + digest([position, token, 0, 1])


def committed(i64, i32):
    """Return the KV of tokens 7 and 9 in slots 4 and 2, and the hidden state of the second."""
    kv = pool()
    states = reference.target_forward(kv, i64([7, 9]), i64([0, 1]), i64([4, 2]), i32([[4, 2]]), i32([2]), i32([0, 2]))
    return kv, states[1:]


def test_the_seed_and_what_it_carries_on_by_hand(i64, i32, equal):
    """Tokens 5 and 3 follow; both forwards stand at position 1, over the same two keys."""
    kv, seed = committed(i64, i32)
    before = [buffer.copy() for buffer in kv]
    keys = (i64([1]), i32([4, 2]), i32([0, 2]), i64([0]))
    fold = (pair(0, 7) + pair(1, 9)) & MASK
    carried, foreseen, context = reference.frozen_kv_draft_forward(kv, i64([5]), seed, *keys, 1)
    assert foreseen.tolist() == [[(fold + pair(2, 5)) & MASK, (((7 << 8) + 9) << 8) + 5]]
    assert carried.tolist() == [[pair(2, 5) & MASK, foreseen[0, 1]]]
    assert context.tolist() == [digest([fold])]
    _, deeper, _ = reference.frozen_kv_draft_forward(kv, i64([3]), carried, *keys, 2)
    assert deeper[0, 0] == (fold + pair(2, 5) + pair(3, 3)) & MASK
    equal(tuple(kv), tuple(before))


def test_a_seed_that_the_keys_do_not_come_to_goes_wrong_by_the_difference(i64, i32):
    kv, seed = committed(i64, i32)
    arguments = (i64([1]), i32([4, 2]), i32([0, 2]), i64([0]), 1)
    right = reference.frozen_kv_draft_forward(kv, i64([5]), seed, *arguments)
    wrong = reference.frozen_kv_draft_forward(kv, i64([5]), seed + i64([[3, 0]]), *arguments)
    got = (wrong.foreseen_hidden_states - right.foreseen_hidden_states) & MASK
    assert got.tolist() == [[(3 + 3 * GOLDEN) & MASK, 0]]


def test_a_layer_that_the_target_has_not_is_rejected(i64, i32):
    kv, seed = committed(i64, i32)
    with pytest.raises(SpecRejection) as caught:
        reference.frozen_kv_draft_forward(kv, i64([5]), seed, i64([1]), i32([4]), i32([0, 1]), i64([1]), 1)
    assert caught.value.reason is Reason.COUNT_OUT_OF_RANGE
