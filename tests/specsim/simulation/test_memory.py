import pytest

from specsim import Reason, SpecRejection
from specsim.simulation.memory import Allocator


def test_zero_is_never_given_out():
    assert sorted(Allocator(5, "slot").allocate(4)) == [1, 2, 3, 4]


def test_shuffled_slots_are_the_same_slots():
    given = Allocator(50, "slot", shuffle_seed=1).allocate(49)
    assert sorted(given) == list(range(1, 50))
    assert given != sorted(given)


def test_too_many_are_refused_and_none_is_lost():
    allocator = Allocator(4, "slot")
    with pytest.raises(SpecRejection) as caught:
        allocator.allocate(4)
    assert caught.value.reason is Reason.OUT_OF_SLOTS
    assert allocator.num_free == 3


@pytest.mark.parametrize("freed", [[2, 2], [3], [0]])
def test_freeing_what_nobody_owns_is_refused(freed):
    allocator = Allocator(4, "slot")
    allocator.allocate(2)
    before = allocator.owned
    with pytest.raises(SpecRejection) as caught:
        allocator.free(freed)
    assert caught.value.reason is Reason.DOUBLE_FREE
    assert allocator.owned == before


def test_freed_slots_come_back():
    allocator = Allocator(4, "slot")
    allocator.free(allocator.allocate(3))
    assert sorted(allocator.allocate(3)) == [1, 2, 3]


def test_borrowed_numbers_are_handed_out_again():
    allocator = Allocator(9, "slot", shuffle_seed=3)
    kept = allocator.allocate(2)
    before = allocator.snapshot()
    borrowed = allocator.allocate(4)
    allocator.restore(before)
    assert (allocator.owned, allocator.num_free) == (frozenset(kept), 6)
    assert allocator.allocate(4) == borrowed


def test_nothing_may_be_freed_while_numbers_are_borrowed():
    allocator = Allocator(9, "slot")
    kept = allocator.allocate(2)
    before = allocator.snapshot()
    allocator.free(kept[:1])
    with pytest.raises(SpecRejection) as caught:
        allocator.restore(before)
    assert caught.value.reason is Reason.DOUBLE_FREE
