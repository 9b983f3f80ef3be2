import pytest

from specsim import Reason, SpecRejection
from specsim.simulation.memory import PageAllocator, RowAllocator, SlotAllocator, make_allocator


def pages_from(first, count=8):
    """Return an allocator of pages of four slots whose free pages begin with some page, and the slots before it."""
    allocator = PageAllocator(count * 4 + 4, 4)
    return allocator, allocator.allocate((first - 1) * 4)


def refusal(call, *arguments):
    with pytest.raises(SpecRejection) as caught:
        call(*arguments)
    return caught.value


def test_zero_is_never_given_out():
    assert SlotAllocator(5).allocate(4) == [1, 2, 3, 4]
    assert PageAllocator(9, 3).allocate(6) == [3, 4, 5, 6, 7, 8]
    assert RowAllocator(3).allocate(2) == [1, 2]


def test_shuffled_slots_are_the_same_slots():
    given = SlotAllocator(50, shuffle_seed=1).allocate(49)
    assert sorted(given) == list(range(1, 50))
    assert given != sorted(given)
    pages = PageAllocator(100, 2, shuffle_seed=1).free_pages
    assert sorted(pages) == list(range(1, 50)) and list(pages) != sorted(pages)


def test_too_many_are_refused_and_none_is_lost():
    allocator = SlotAllocator(4)
    assert refusal(allocator.allocate, 4).reason is Reason.OUT_OF_SLOTS
    assert allocator.num_free == 3


@pytest.mark.parametrize("freed", [[2, 2], [3], [0]])
def test_freeing_what_no_one_owns_is_refused(freed):
    allocator = SlotAllocator(4)
    allocator.allocate(2)
    before = allocator.owned_pages
    caught = refusal(allocator.free, freed)
    assert caught.reason is Reason.DOUBLE_FREE
    assert allocator.owned_pages == before
    assert str(caught) == (
        f"DOUBLE_FREE: freed slots is {freed[-1:]}, but should be owned ones, each once, "
        "because freeing twice gives one number to two owners"
    )


def test_freed_slots_come_back_after_the_free_ones():
    allocator = SlotAllocator(6)
    allocator.allocate(3)
    allocator.free([3, 1])
    assert allocator.allocate(4) == [4, 5, 3, 1]


def test_freed_pages_come_back_before_the_free_ones_in_order():
    allocator = PageAllocator(24, 4)
    allocator.allocate(16)
    allocator.free([17, 5, 6])
    assert allocator.free_pages == (1, 4, 5)


def test_a_request_fills_its_last_page_before_it_gets_others():
    """The example of semantics, I.6."""
    allocator, _ = pages_from(6)
    assert allocator.free_pages == (6, 7, 8)
    assert allocator.extend([9], [16], [12]) == [[13, 14, 15, 24, 25, 26, 27]]
    assert allocator.free_pages == (7, 8)
    allocator.free([25])
    assert allocator.free_pages == (6, 7, 8)


def test_a_page_that_several_slots_name_is_freed_once():
    """The example goes on: 25 and 30 lie in pages 6 and 7."""
    allocator, _ = pages_from(6)
    allocator.extend([9, 0], [16, 4], [12, -1])
    assert allocator.free_pages == (8,)
    allocator.free([25, 30, 24])
    assert allocator.free_pages == (6, 7, 8)


def test_requests_are_extended_in_batch_order():
    allocator, _ = pages_from(3)
    assert allocator.extend([2, 0, 4], [5, 1, 4], [5, -1, 11]) == [[6, 7, 12], [16], []]


def test_a_batch_without_room_gets_nothing():
    allocator, _ = pages_from(7)
    assert refusal(allocator.extend, [0, 0, 0], [4, 4, 1], [-1, -1, -1]).reason is Reason.OUT_OF_SLOTS
    assert allocator.free_pages == (7, 8)
    assert allocator.extend([], [], []) == []


def test_a_last_slot_out_of_place_is_refused():
    allocator, _ = pages_from(6)
    caught = refusal(allocator.extend, [9], [16], [13])
    assert str(caught) == (
        "INCONSISTENT_LENGTHS: last_slots[0] is 13, but should be the slot of position 8, "
        "because positions and slots of a page of 4 run side by side"
    )
    assert refusal(allocator.extend, [8], [6], [11]).reason is Reason.COUNT_OUT_OF_RANGE
    assert refusal(allocator.extend, [1], [2], [24]).reason is Reason.DOUBLE_FREE
    assert refusal(allocator.extend, [1, 1], [2, 2], [4, 4]).reason is Reason.DUPLICATE_SLOT
    assert refusal(allocator.allocate, 3).reason is Reason.NOT_DIVISIBLE
    assert allocator.free_pages == (6, 7, 8)


def test_what_is_freed_in_a_group_is_available_at_its_end():
    allocator, slots = pages_from(4)
    row = slots[:6]
    allocator.begin_free_group()
    allocator.free(row[:5])
    allocator.free(row[5:])
    row.clear()
    assert (allocator.free_pages, allocator.freed_in_group) == ((4, 5, 6, 7, 8), (4, 5, 6, 7, 8, 9))
    assert (allocator.owned_pages, allocator.num_free) == ({3}, 20)
    assert refusal(allocator.free, [6]).reason is Reason.DOUBLE_FREE
    assert str(refusal(allocator.begin_free_group)) == (
        "OPEN_FREE_GROUP: free group is open already, but should be closed, because groups do not nest"
    )
    allocator.end_free_group()
    assert (allocator.free_pages, allocator.freed_in_group) == ((1, 2, 4, 5, 6, 7, 8), ())
    assert refusal(allocator.end_free_group).reason is Reason.OPEN_FREE_GROUP


def test_borrowed_slots_are_handed_out_again():
    allocator = SlotAllocator(9, shuffle_seed=3)
    kept = allocator.allocate(2)
    before = allocator.backup()
    borrowed = allocator.allocate(4)
    allocator.restore(before)
    assert (allocator.owned_pages, allocator.num_free) == (frozenset(kept), 6)
    assert allocator.allocate(4) == borrowed


def test_nothing_may_be_freed_while_slots_are_borrowed():
    allocator = SlotAllocator(9)
    kept = allocator.allocate(2)
    before = allocator.backup()
    allocator.free(kept[:1])
    assert refusal(allocator.restore, before).reason is Reason.DOUBLE_FREE
    allocator.begin_free_group()
    before = allocator.backup()
    allocator.free(kept[1:])
    assert refusal(allocator.restore, before).reason is Reason.DOUBLE_FREE


def test_the_page_size_chooses_the_allocator():
    assert isinstance(make_allocator(9), SlotAllocator)
    assert isinstance(make_allocator(9, 2), PageAllocator)
    assert refusal(PageAllocator, 9, 1).reason is Reason.BAD_CONFIGURATION
