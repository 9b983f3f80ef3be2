"""Which arrays share memory, and what is refused of arguments that are written."""

import numpy as np
import pytest

from specsim import reference
from specsim.contracts.extents import Extent, overlap, overlaps_itself, pairs_sharing
from specsim.contracts.kinds import NUMPY, extent_of_ndarray
from specsim.contracts.lists import ArrayTuple
from specsim.rejection import Reason, SpecRejection

POOL = np.zeros((6, 4, 3), np.float32)


def extents(*arrays):
    return [extent_of_ndarray(array) for array in arrays]


@pytest.mark.parametrize(
    ("one", "other", "shared"),
    [
        (POOL[:3], POOL[3:], False),
        (POOL[:4], POOL[3:], True),
        (POOL[:, 0], POOL[:, 1], False),
        (POOL[:, :2], POOL[:, 1:3], True),
        (POOL[::2], POOL[1::2], False),
        (POOL[::2], POOL[::3], True),
        (POOL[::-1], POOL[:1], True),
        (POOL[:, 0, 0], POOL[:, 0, 1:], False),
        (POOL.T, POOL[5:, 3:, 2:], True),
        (POOL[:0], POOL, False),
    ],
)
def test_views_of_one_buffer(one, other, shared):
    found = list(pairs_sharing(extents(one, other), [True, False]))
    assert bool(found) == shared == bool(np.shares_memory(one, other))
    assert list(pairs_sharing(extents(other, one), [True, False])) == found
    assert not list(pairs_sharing(extents(one, other), [False, False]))


def test_all_layers_in_one_interleaved_buffer_share_nothing():
    pool = np.zeros((32, 64, 2, 8), np.float16)
    views = [pool[:, layer, part] for layer in range(64) for part in range(2)]
    assert not list(pairs_sharing(extents(*views), [True] * len(views)))
    assert list(pairs_sharing(extents(*views, pool[:, 3, 1, 2:5]), [True] * 129)) == [(7, 128)]


def test_addresses_of_another_device_are_not_followed():
    one = Extent(1 << 40, (8, 2), (16, 4), 4)
    assert overlap(one, one._replace(address=(1 << 40) + 4))
    assert not overlap(one, one._replace(address=(1 << 40) + 8))


@pytest.mark.parametrize(
    ("array", "shared"),
    [
        (POOL, False),
        (POOL.T, False),
        (POOL[::-2], False),
        (np.lib.stride_tricks.as_strided(POOL, (3, 3), (0, 4)), True),
        (np.lib.stride_tricks.sliding_window_view(POOL[0, 0], 2), True),
        (np.lib.stride_tricks.as_strided(POOL, (1, 3), (0, 4)), False),
    ],
)
def test_entries_at_one_address(array, shared):
    assert overlaps_itself(extent_of_ndarray(array)) == shared


def frozen(array):
    array.flags.writeable = False
    return array


SLOTS = np.array([1, 2])
WORDS = np.zeros(6, np.int64)


@pytest.mark.parametrize(
    ("buffers", "target_slots", "reason", "what"),
    [
        ([POOL.copy(), frozen(POOL.copy())], SLOTS, Reason.READ_ONLY, "kv_buffers[1]"),
        ([POOL, POOL], SLOTS, Reason.SHARED_MEMORY, "kv_buffers[1]"),
        ([POOL[:, :2], POOL[:, 1:]], SLOTS, Reason.SHARED_MEMORY, "kv_buffers[1]"),
        ([np.lib.stride_tricks.as_strided(POOL, (4, 3), (0, 4))], SLOTS, Reason.SHARED_MEMORY, "kv_buffers[0]"),
        ([WORDS], WORDS[:2], Reason.SHARED_MEMORY, "target_slots"),
        ([POOL.astype(object)], SLOTS, Reason.WRONG_DTYPE, "kv_buffers[0].dtype"),
        ([np.ma.masked_array(POOL)], SLOTS, Reason.WRONG_KIND, "kv_buffers[0]"),
        ([POOL.astype(np.complex64)], SLOTS, Reason.WRONG_DTYPE, "kv_buffers[0].dtype"),
    ],
)
def test_a_buffer_that_cannot_be_written_is_refused_before_the_first_is(buffers, target_slots, reason, what):
    before = [np.array(buffer, copy=True) for buffer in buffers]
    with pytest.raises(SpecRejection) as caught:
        reference.move_kv_cache(buffers, target_slots, SLOTS + 1)
    assert (caught.value.reason, caught.value.what) == (reason, what)
    assert all((old == new).all() for old, new in zip(before, buffers, strict=True))


def test_what_is_only_read_may_be_read_only_and_shared():
    links = frozen(np.full((1, 2), -1, np.int64))
    index = frozen(np.array([[0, 1]]))
    outputs = reference.verify_tree_greedy(index, index, links, links, index, 1)
    assert outputs[2].tolist() == [0]


def test_buffers_that_never_change_know_what_touches_them():
    memory = np.zeros(100, np.uint8)
    start = memory.__array_interface__["data"][0]
    kept = ArrayTuple([memory[40:50], memory[10:20], memory[15:30:3], memory[60:60]], NUMPY)
    assert [(one - start, other - start) for one, other in kept.blocks] == [(10, 28), (40, 50)]
    touched = [
        (one, other)
        for one, other in [(0, 10), (0, 11), (27, 28), (28, 40), (28, 41), (49, 99), (50, 99), (12, 13), (0, 99)]
        if kept.touches(start + one, start + other)
    ]
    assert touched == [(0, 11), (27, 28), (28, 41), (49, 99), (12, 13), (0, 99)]
