"""SWA slots by hand: who gets one, when it goes, and what becomes of a cached front whose window is gone."""

import pytest

from specsim import Reason, SpecRejection
from specsim.simulation.memory import (
    Holding,
    Memory,
    PageAllocator,
    RadixCache,
    RowAllocator,
    SlotAllocator,
    SlotRange,
    SwaAllocator,
    admit_request,
    allocate_chunk,
    evict_behind_window,
    most_swa_slots,
    num_behind_window,
    publish_prefix,
    release_finished,
    release_retracted,
    with_swa_slots,
)
from specsim.simulation.memory.decode import evict_for
from specsim.simulation.memory.prefill import match_prefix

TEXT = (1, 2, 3, 4, 5, 6, 7, 8, 9)


def memory_of(num_slots=20, num_swa_slots=20, window=3, has_cache=True):
    swa = SwaAllocator(SlotAllocator(num_slots), SlotAllocator(num_swa_slots))
    cache = RadixCache() if has_cache else None
    return Memory(swa, RowAllocator(4), 40, cache, has_pair_keys=False, swa=swa, window=window)


def refusal(call, *arguments):
    with pytest.raises(SpecRejection) as caught:
        call(*arguments)
    return caught.value


def left_by_a_long_output(memory):
    """Let a request fill two positions, decode to nine, lose what is before its window, and end."""
    holding = Holding()
    admit_request(memory, holding, TEXT[:2])
    allocate_chunk(memory, holding, 2)
    publish_prefix(memory, holding, TEXT[:2])
    allocate_chunk(memory, holding, 9)
    evict_behind_window(memory, holding, 9)
    release_finished(memory, holding, TEXT, 9)
    return holding


def test_both_pools_give_or_neither():
    allocator = SwaAllocator(SlotAllocator(9), SlotAllocator(4))
    assert allocator.extend([0], [3], [-1]) == [[1, 2, 3]]
    assert allocator.swa_slots([1, 2, 3, 4]) == (1, 2, 3, 0)
    assert refusal(allocator.allocate, 1).reason is Reason.OUT_OF_SLOTS
    assert (allocator.full.num_free, allocator.swa.num_free, allocator.num_free) == (5, 0, 0)


def test_a_page_is_mapped_place_by_place_and_goes_as_a_whole():
    allocator = SwaAllocator(PageAllocator(24, 4), PageAllocator(12, 4))
    assert allocator.extend([0], [6], [-1]) == [[4, 5, 6, 7, 8, 9]]
    allocator.evict([4, 5, 6, 7])
    assert allocator.full_to_swa.tolist() == [0] * 8 + [8, 9, 10, 11] + [0] * 12
    assert allocator.extend([6], [9], [9]) == [[10, 11, 12]]
    assert allocator.swa_slots([10, 11, 12]) == (10, 11, 4)
    assert refusal(allocator.evict, [8, 9]).reason is Reason.NOT_DIVISIBLE
    assert refusal(allocator.evict, [4, 5, 6, 7]).reason is Reason.DOUBLE_FREE


def test_a_page_that_is_filled_further_needs_its_swa_slots():
    allocator = SwaAllocator(PageAllocator(24, 4), PageAllocator(24, 4))
    (slots,) = allocator.extend([0], [6], [-1])
    allocator.evict([8, 9, 10, 11])
    before = allocator.free_pages
    caught = refusal(allocator.extend, [6], [14], slots[-1:])
    assert str(caught).startswith("UNMAPPED_SLOT: last slots is [9], but should be slots with an SWA slot")
    assert allocator.free_pages == before


def test_pages_of_two_sizes_are_refused():
    caught = refusal(SwaAllocator, PageAllocator(24, 4), SlotAllocator(24))
    assert caught.reason is Reason.BAD_CONFIGURATION


def test_a_backup_of_one_pool_is_refused():
    allocator = SwaAllocator(SlotAllocator(9), SlotAllocator(9))
    assert refusal(allocator.restore, SlotAllocator(9).backup()).reason is Reason.UNMAPPED_SLOT


@pytest.mark.parametrize(
    ("next_position", "window", "page_size", "expected"),
    [(9, 3, 1, 7), (9, 3, 4, 4), (3, 3, 1, 1), (2, 3, 1, 0), (0, 1, 1, 0), (5, 1, 1, 5), (5, 1, 2, 4), (9, 90, 1, 0)],
)
def test_what_is_before_a_window(next_position, window, page_size, expected):
    assert num_behind_window(next_position, window, page_size) == expected


def test_what_a_request_holds_at_once_is_bounded():
    assert (most_swa_slots(5, 3, 1), most_swa_slots(5, 3, 4)) == (7, 16)


def test_a_request_gives_its_window_back_as_it_goes_and_everything_when_it_goes():
    memory = memory_of(has_cache=False)
    holding = Holding()
    admit_request(memory, holding, TEXT)
    allocate_chunk(memory, holding, 6)
    assert evict_behind_window(memory, holding, 6) == [1, 2, 3, 4]
    assert evict_behind_window(memory, holding, 6) == []
    assert (memory.swa.swa.num_free, memory.swa.full.num_free, holding.num_evicted) == (17, 13, 4)
    release_retracted(memory, holding)
    assert (memory.swa.swa.num_free, memory.swa.full.num_free, holding.num_evicted) == (19, 19, 0)


def test_what_the_cache_has_keeps_its_slots():
    memory = memory_of()
    holding = Holding()
    admit_request(memory, holding, TEXT)
    allocate_chunk(memory, holding, 6)
    publish_prefix(memory, holding, TEXT[:6])
    assert (evict_behind_window(memory, holding, 6), memory.swa.swa.num_free) == ([], 13)


def test_a_hit_ends_where_its_window_is_still_there():
    memory = memory_of()
    left_by_a_long_output(memory)
    slots = memory.cache.match(TEXT).slots
    assert [slot > 0 for slot in memory.swa.swa_slots(slots)] == [True] * 2 + [False] * 5 + [True] * 2
    assert len(match_prefix(memory, (*TEXT, 10)).slots) == 9
    assert len(match_prefix(memory, TEXT[:8]).slots) == 2


def test_slots_that_a_cached_front_had_lost_come_back_with_who_computes_them_again():
    memory = memory_of(40, 40)
    left_by_a_long_output(memory)
    cached = memory.cache.match(TEXT).slots
    holding = Holding()
    hit = admit_request(memory, holding, (*TEXT[:7], 50))
    allocate_chunk(memory, holding, 7)
    own = memory.swa.swa_slots(holding.slots[2:])
    given = publish_prefix(memory, holding, TEXT[:7])
    assert (hit.end, given.slots, memory.swa.swa_slots(cached[2:7])) == (2, cached[2:7], own)
    assert len(match_prefix(memory, TEXT[:8]).slots) == 7


def test_leaves_that_have_no_swa_slots_do_not_stop_the_cache_from_giving_more():
    memory = memory_of(30, 12)
    left_by_a_long_output(memory)
    memory.cache.insert((90, 91, 92), memory.allocator.allocate(3))
    memory.cache.match((90, 91, 92))
    memory.allocator.allocate(memory.allocator.num_free)
    assert (evict_for(memory, 4), memory.swa.swa.num_free, memory.cache.num_cached) == (True, 7, 0)


def test_a_range_says_what_its_slots_and_others_have_now():
    memory = memory_of()
    memory.swa.allocate(3)
    memory.swa.evict([2])
    (reported,) = with_swa_slots(memory, [SlotRange(1, 4, 6, (1, 2), remapped=(3, 4))])
    assert reported.swa_slots == (1, 0, 3, 0)
