import pytest

from specsim import Reason, SpecRejection
from specsim.simulation.memory import (
    Books,
    DecodeSizes,
    Holding,
    Ledger,
    Memory,
    RadixCache,
    RowAllocator,
    SlotAllocator,
    admit_request,
    alloc_len_per_decode,
    allocate_chunk,
    make_room,
    new_tokens_required_next_decode,
    next_allocated_length,
    owned_length,
    plan_release,
    prepare_for_decode,
    publish_prefix,
    release_finished,
    release_retracted,
    required_row_width,
)

TREE = DecodeSizes(topk=2, num_steps=3, num_draft_tokens=6, allocates_ahead=True)


def memory_of(num_slots=61, num_rows=4, row_width=60, cache=None):
    return Memory(SlotAllocator(num_slots), RowAllocator(num_rows), row_width, cache)


def prefilled(memory, length):
    holding = Holding()
    admit_request(memory, holding, range(length))
    allocate_chunk(memory, holding, length)
    publish_prefix(memory, holding, range(length))
    return holding


@pytest.mark.parametrize(
    ("owned", "has_pair_keys", "key", "tail", "scratch"),
    [(12, True, 8, (8, 12), (12, 23)), (12, False, 12, (12, 12), (12, 23)), (13, True, 12, (12, 13), (16, 23))],
)
def test_a_release_of_pages_of_four(owned, has_pair_keys, key, tail, scratch):
    """The example of semantics, I.4."""
    plan = plan_release(Books(1, 0, 13, 23), owned, 4, has_pair_keys)
    assert (plan.num_key, plan.committed_ranges(key)[1], plan.scratch) == (key, tail, scratch)


def test_lengths_in_step():
    """K.11: accepting 3, 1 and 4 from 7, every result known before the next iteration."""
    memory = memory_of()
    holding = prefilled(memory, 7)
    seen = []
    for accepted in (3, 1, 4):
        prepare_for_decode(memory, [holding], TREE)
        holding.books = holding.books.resolve(accepted, 0, False)
        seen.append((holding.books.num_allocated, holding.books.num_committed))
    assert seen == [(19, 10), (22, 11), (23, 15)]


def test_lengths_under_overlap():
    """K.11: the result of an iteration is known after the next one was prepared."""
    memory = memory_of()
    holding = prefilled(memory, 7)
    seen = []
    for accepted in (0, 3, 1, 4):
        prepare_for_decode(memory, [holding], TREE)
        holding.books = holding.books.resolve(accepted, 0, False)
        seen.append((holding.books.num_allocated, holding.books.num_committed))
    assert seen == [(19, 7), (19, 10), (22, 11), (23, 15)]


def test_what_a_request_that_ended_under_overlap_gives_back():
    """K.11: 11 positions of text, 22 allocated; pair keys cache ten and free the slot of the eleventh with the rest."""
    memory = Memory(SlotAllocator(61), RowAllocator(4), 60, RadixCache(), has_pair_keys=True)
    holding = prefilled(memory, 7)
    holding.books, text = holding.books.allocate(7), [*range(12)]
    prepare_for_decode(memory, [holding], TREE)
    holding.books = holding.books.resolve(3, 0, False)
    prepare_for_decode(memory, [holding], TREE)
    holding.books = holding.books.resolve(1, 0, False)
    assert (holding.books.num_committed, holding.books.num_allocated) == (11, 22)
    release_finished(memory, holding, text, 11)
    assert (memory.cache.num_cached, memory.allocator.num_free, memory.rows.num_free) == (10, 50, 3)
    assert holding == Holding()
    Ledger(memory).check({})


def test_reserves_widths_and_demands():
    assert [alloc_len_per_decode(TREE, size) for size in (1, 4, 16)] == [6, 16, 64]
    assert alloc_len_per_decode(DecodeSizes(1, 3, 4), 16) == 4
    assert alloc_len_per_decode(DecodeSizes(), 16) == 1
    assert required_row_width(100, TREE, 4) == 100 + 32 + 3
    assert [next_allocated_length(7, 0, TREE, size) for size in (1, 4)] == [19, 40]
    assert next_allocated_length(7, 30, TREE, 1) == 30
    batch = (Books(1, 0, 8, 8), Books(2, 0, 9, 13))
    assert new_tokens_required_next_decode(batch, DecodeSizes(), 4) == 4
    assert new_tokens_required_next_decode(batch, DecodeSizes(2, 3, 6), 1) == 12
    assert new_tokens_required_next_decode(batch, DecodeSizes(2, 3, 6), 4) == 32
    assert new_tokens_required_next_decode(batch, DecodeSizes(1, 3, 4), 4) == 8
    assert new_tokens_required_next_decode(batch, TREE, 1) == 12 + 8
    assert [owned_length(12, 5, end) for end in (None, 4, 9)] == [12, 9, 12]


def test_a_row_that_is_too_short_is_refused_before_anything_changes():
    memory = memory_of(row_width=19)
    batch = [prefilled(memory, 7), prefilled(memory, 8)]
    before = ([one.books for one in batch], memory.allocator.free_pages)
    with pytest.raises(SpecRejection) as caught:
        prepare_for_decode(memory, batch, TREE)
    assert str(caught.value) == (
        "ROW_TOO_SHORT: positions to allocate is 20, but should be at most 19, "
        "because a row holds no more, and the next one is another request's"
    )
    assert ([one.books for one in batch], memory.allocator.free_pages) == before


def test_the_end_of_the_batch_gives_way_and_the_last_one_gives_up():
    memory = memory_of(num_slots=31)
    batch = [prefilled(memory, 7), prefilled(memory, 8), prefilled(memory, 9)]

    def demand(holdings):
        return new_tokens_required_next_decode([one.books for one in holdings], TREE, 1)

    room = make_room(memory, batch, demand, lambda holding: release_retracted(memory, holding))
    assert (room.num_kept, room.retracted, room.aborted) == (1, (2, 1), None)
    assert [one.books.is_retracted for one in batch] == [False, True, True]
    Ledger(memory).check({"kept": batch[0]})
    room = make_room(memory, batch[:1], lambda holdings: 31, lambda holding: None)
    assert (room.num_kept, room.retracted, room.aborted) == (0, (), 0)


def test_a_result_from_before_a_retraction_means_nothing():
    books = Books(1, 0, 8, 20)
    assert books.resolve(3, 0, False).num_committed == 11
    assert books.resolve(3, 0, True) == books
    again = books.retract().admit(2, 0).fill(8).allocate(20)
    assert again.resolve(3, 0, False) == again
    assert again.resolve(3, 1, False).num_committed == 11


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda books: books.commit(13), Reason.COUNT_OUT_OF_RANGE),
        (lambda books: books.commit(-1), Reason.COUNT_OUT_OF_RANGE),
        (lambda books: books.allocate(19), Reason.COUNT_OUT_OF_RANGE),
        (lambda books: books.protect(9), Reason.COUNT_OUT_OF_RANGE),
        (lambda books: books.protect(3), Reason.COUNT_OUT_OF_RANGE),
        (lambda books: books.admit(2, 0), Reason.DUPLICATE_ROW),
        (lambda books: books.free_committed().free_committed(), Reason.DOUBLE_FREE),
        (lambda books: books.free_overallocated().free_overallocated(), Reason.DOUBLE_FREE),
        (lambda books: plan_release(books, 3, 4, False), Reason.COUNT_OUT_OF_RANGE),
    ],
)
def test_lengths_out_of_order_are_refused(change, reason):
    with pytest.raises(SpecRejection) as caught:
        change(Books(1, 4, 8, 20))
    assert caught.value.reason is reason


def test_a_ledger_names_who_owns_a_slot_twice():
    memory = memory_of()
    one, other = prefilled(memory, 3), prefilled(memory, 3)
    other.slots[2] = one.slots[0]
    with pytest.raises(AssertionError) as caught:
        Ledger(memory).check({"A": one, "B": other})
    assert str(caught.value) == "owners of slot 1 = ['request A', 'request B'], but should be one"
