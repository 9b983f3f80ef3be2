"""K.11 and I.4: what a request that ends leaves to the prefix cache, and what it gives back."""

import pytest

from specsim.counts import count_drafts
from specsim.properties.mutants import all_mutants
from specsim.simulation.memory import (
    Books,
    DecodeSizes,
    Holding,
    Memory,
    RadixCache,
    RowAllocator,
    SlotAllocator,
    admit_request,
    allocate_chunk,
    owned_length,
    plan_release,
    prepare_for_decode,
    release_finished,
)

SIZES = DecodeSizes(topk=2, num_steps=3, num_draft_tokens=6, allocates_ahead=True)
PROMPT, OUTPUT = list(range(7)), list(range(20, 25))


def test_k11_an_end_leaves_ten_pairs_and_frees_the_rest():
    """The request ends with result 1: of 22 positions it owns 11, of which the last one has no pair."""
    memory = Memory(SlotAllocator(60), RowAllocator(2), 50, RadixCache(), has_pair_keys=True)
    holding = Holding()
    admit_request(memory, holding, PROMPT)
    allocate_chunk(memory, holding, len(PROMPT))
    for num_tokens in (0, 3, 1):
        prepare_for_decode(memory, [holding], SIZES)
        holding.books = holding.books.resolve(num_tokens, 0, is_finished=False)
    prepared, slots = (holding.books.num_allocated, holding.books.num_committed), list(holding.slots)
    num_owned = owned_length(holding.books.num_committed, len(PROMPT), len(OUTPUT))
    num_free = memory.allocator.num_free
    release_finished(memory, holding, [*PROMPT, *OUTPUT], num_owned)
    assert (prepared, num_owned) == ((22, 11), 11)
    assert memory.cache.slots == frozenset(slots[:10])
    assert memory.allocator.free_pages[-12:] == tuple(slots[10:])
    assert memory.allocator.num_free == num_free + 12
    late = holding.books.resolve(4, 0, is_finished=True)
    assert (late.num_committed, late.num_allocated) == (0, 0)


def test_k11_engines_that_claim_the_root_hand_over_a_pair_too_many():
    """The seeded fault K12 claims the root's position when it prepares; a result then adds the drafts alone."""
    (fault,) = (mutant for mutant in all_mutants() if mutant.id == "K12")
    memory, holding = Memory(SlotAllocator(60), RowAllocator(2), 50), Holding()
    admit_request(memory, holding, PROMPT)
    allocate_chunk(memory, holding, len(PROMPT))
    launch = fault.inject(prepare_for_decode)
    seen = []
    for event in ("launch", "launch", 3, "launch", 1, 4):
        if event == "launch":
            launch(memory, [holding], SIZES)
        else:
            holding.books = holding.books.resolve(count_drafts(event), 0, is_finished=False)
        seen.append((holding.books.num_allocated, holding.books.num_committed))
    assert seen == [(19, 8), (20, 9), (20, 11), (23, 12), (23, 12), (23, 15)]
    plan = plan_release(Books(row=1, num_committed=12, num_allocated=23), 12, 1, has_pair_keys=True)
    assert (plan.num_key, plan.committed_ranges(11)[1], plan.scratch) == (11, (11, 12), (12, 23))


@pytest.mark.parametrize(
    ("num_owned", "has_pair_keys", "num_key", "tail", "scratch"),
    [(12, True, 8, (8, 12), (12, 23)), (12, False, 12, (12, 12), (12, 23)), (13, True, 12, (12, 13), (16, 23))],
    ids=["twelve", "twelve under single tokens", "thirteen"],
)
def test_i4_pages_of_four(num_owned, has_pair_keys, num_key, tail, scratch):
    books = Books(row=1, num_committed=num_owned, num_allocated=23)
    plan = plan_release(books, num_owned, 4, has_pair_keys)
    assert (plan.num_key, plan.committed_ranges(0)[1], plan.scratch) == (num_key, tail, scratch)
