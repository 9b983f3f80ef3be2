import pytest

from specsim import Reason, SpecRejection
from specsim.simulation.memory import Holding, Memory, PageAllocator, RadixCache, RowAllocator, SlotAllocator, key_units
from specsim.simulation.memory.prefill import admit_request, allocate_chunk, match_prefix, publish_prefix

TEXT = (1, 2, 3, 4, 5, 6, 7, 8, 9)


def memory_of(page_size, has_pair_keys=True):
    allocator = SlotAllocator(41) if page_size == 1 else PageAllocator(44, page_size)
    return Memory(allocator, RowAllocator(4), 40, RadixCache(page_size), has_pair_keys)


def filled(memory, text):
    """Return what a request has after its prompt."""
    holding = Holding()
    admit_request(memory, holding, text)
    allocate_chunk(memory, holding, len(text))
    publish_prefix(memory, holding, text)
    return holding


@pytest.mark.parametrize(("page_size", "forked", "again"), [(1, 3, 7), (4, 0, 4)])
def test_pairs_are_hit_up_to_the_last_but_one_token(page_size, forked, again):
    """The example of semantics, I.7: nine tokens are eight pairs."""
    memory = memory_of(page_size)
    filled(memory, TEXT)
    assert memory.cache.num_cached == 8
    assert len(match_prefix(memory, (1, 2, 3, 4, 50, 60)).slots) == forked
    assert len(match_prefix(memory, TEXT).slots) == again


def test_single_tokens_are_hit_up_to_the_last():
    memory = memory_of(1, has_pair_keys=False)
    filled(memory, TEXT)
    assert len(match_prefix(memory, TEXT).slots) == 8
    assert len(match_prefix(memory, (1, 2, 3, 4, 50)).slots) == 4
    assert key_units((7, 8, 9), has_pair_keys=True) == [(7, 8), (8, 9)]


def test_a_row_is_pointed_at_what_came_first():
    memory = memory_of(4)
    one, other = Holding(), Holding()
    for holding in (one, other):
        admit_request(memory, holding, TEXT)
        allocate_chunk(memory, holding, 9)
    own = list(other.slots)
    assert publish_prefix(memory, one, TEXT).slots == tuple(one.slots[:8])
    given = publish_prefix(memory, other, TEXT)
    assert (given.row, given.start, given.end, given.slots) == (2, 0, 8, tuple(one.slots[:8]))
    assert other.slots == [*one.slots[:8], own[8]]
    assert (other.books.num_protected, memory.cache.num_cached, memory.allocator.num_free) == (8, 8, 24)
    assert memory.cache.evict(8) == []


def test_the_least_recently_used_leaf_goes_as_a_whole():
    cache = RadixCache()
    cache.insert((1, 2, 3), (11, 12, 13))
    cache.insert((1, 2, 4, 5), (11, 12, 14, 15))
    cache.insert((9,), (16,))
    cache.match((1, 2, 3))
    assert cache.evict(1) == [14, 15]
    assert cache.evict(2) == [16, 13]
    locked = cache.match((1, 2)).node
    cache.lock(locked)
    assert (cache.evict(1), cache.num_cached, cache.num_evictable) == ([], 2, 0)
    cache.unlock(locked)
    assert cache.evict(1) == [11, 12]
    with pytest.raises(SpecRejection) as caught:
        cache.lock(locked)
    assert str(caught.value) == (
        "NODE_OUT_OF_RANGE: node of the prefix cache is gone, but should be what a match returned, "
        "because an evicted front is matched again before it is locked"
    )


@pytest.mark.parametrize(
    ("key", "slots", "reason"),
    [
        ((1, 2), (4,), Reason.INCONSISTENT_LENGTHS),
        ((1, 2), (4, 4), Reason.DUPLICATE_SLOT),
        ((5, 6), (2, 3), Reason.DUPLICATE_SLOT),
        ((5, 6), (7, 8), Reason.INCONSISTENT_LENGTHS),
    ],
)
def test_slots_that_cannot_be_owned_are_refused(key, slots, reason):
    cache = RadixCache(2)
    cache.insert((3, 4), (2, 3))
    with pytest.raises(SpecRejection) as caught:
        cache.insert(key, slots)
    assert caught.value.reason is reason
    assert cache.slots == {2, 3}
