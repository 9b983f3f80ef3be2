import numpy as np
import pytest

from specsim import Reason, SpecRejection, reference

WIDTH = 64 * 132


def pages(count):
    """Return pages whose bytes differ by place."""
    return np.random.default_rng(count).integers(0, 256, (count, WIDTH), dtype=np.uint8)


def test_a_slot_is_a_key_and_a_scale_of_its_page(i64):
    layers = [pages(2), pages(0), pages(2)[::-1].copy()]
    before = [layer.copy() for layer in layers]
    reference.move_indexer_cache(layers, i64([64]), i64([66]), 128)
    for layer, old in zip(layers, before, strict=True):
        if len(layer):
            assert layer[1, :128].tolist() == old[1, 256:384].tolist()
            assert layer[1, 8192:8196].tolist() == old[1, 8200:8204].tolist()
            assert np.flatnonzero(layer != old).min() >= WIDTH
            assert {*np.flatnonzero(layer[1] != old[1]).tolist()} <= {*range(128), *range(8192, 8196)}


def test_pairs_across_pages_are_a_snapshot(i64):
    layer = pages(2)
    before = layer.copy()
    reference.move_indexer_cache([layer], i64([63, 64, 65]), i64([64, 65, 63]), 128)
    assert layer[0, 63 * 128 : 64 * 128].tolist() == before[1, :128].tolist()
    assert layer[1, :128].tolist() == before[1, 128:256].tolist()
    assert layer[1, 128:256].tolist() == before[0, 63 * 128 : 64 * 128].tolist()
    assert layer[1, 8196:8200].tolist() == before[0, 8192 + 252 : 8192 + 256].tolist()


def test_scales_are_as_wide_as_the_key_asks(i64):
    layer = np.arange(64 * 33, dtype=np.int64).astype(np.uint8)[None, :].copy()
    reference.move_indexer_cache([layer], i64([1]), i64([3]), 32)
    assert layer[0, 32:64].tolist() == [*range(96, 128)]
    assert layer[0, 64 * 32 + 1] == (64 * 32 + 3) % 256


@pytest.mark.parametrize(
    ("targets", "sources", "head_dim", "reason"),
    [
        ([1, 1], [2, 3], 128, Reason.DUPLICATE_SLOT),
        ([128], [1], 128, Reason.SLOT_OUT_OF_RANGE),
        ([1], [2], 100, Reason.SCALAR_OUT_OF_RANGE),
        ([1], [2], 64, Reason.WRONG_SHAPE),
    ],
)
def test_bad_moves_of_an_indexer_are_refused(i64, targets, sources, head_dim, reason):
    width = 64 * (head_dim + 4 * head_dim // 128) if reason is Reason.SCALAR_OUT_OF_RANGE else WIDTH
    layer = np.zeros((2, width), np.uint8)
    with pytest.raises(SpecRejection) as caught:
        reference.move_indexer_cache([layer], i64(targets), i64(sources), head_dim)
    assert caught.value.reason is reason


def test_a_pair_is_looked_up_on_both_sides(equal, i64, i32):
    table = i32([0, 5, 0, 2, 0, 9])
    got = reference.translate_move_slots(i64([3, 2, 0]), i64([5, 4, 0]), table)
    equal(tuple(got), (i64([2, 0, 0]), i64([9, 0, 0])))


@pytest.mark.parametrize(
    ("table", "targets", "sources", "reason", "what"),
    [
        ([0, 5, 0], [1], [2], Reason.UNMAPPED_SLOT, "full_to_swa[source_slots[0]]"),
        ([0, 5, 0], [2], [1], Reason.UNMAPPED_SLOT, "full_to_swa[target_slots[0]]"),
        ([3, 5, 7], [1], [2], Reason.UNMAPPED_SLOT, "full_to_swa[0]"),
        ([0, 5, 5], [1, 2], [2, 1], Reason.DUPLICATE_SLOT, "full_to_swa[target_slots]"),
    ],
)
def test_pairs_that_the_window_cannot_follow_are_refused(i64, table, targets, sources, reason, what):
    with pytest.raises(SpecRejection) as caught:
        reference.translate_move_slots(i64(targets), i64(sources), i64(table))
    assert (caught.value.reason, caught.value.what) == (reason, what)
