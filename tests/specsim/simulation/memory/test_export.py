"""What leaves memory, by hand: lengths of either cache, lists of pages, and pages that stay until they have arrived."""

import pytest

from specsim import Reason, SpecRejection
from specsim.simulation.memory import (
    Books,
    Export,
    ExportLengths,
    Exports,
    Holding,
    Ledger,
    Memory,
    PageAllocator,
    RowAllocator,
    SwaAllocator,
    admit_request,
    allocate_chunk,
    allocate_loaded,
    export_text,
    release_finished,
    release_retracted,
)

TEXT = list(range(20, 29))


def started(has_pair_keys=False, num_positions=8):
    """Return a memory with pages of four, and a request of which so much is written."""
    exports = Exports(4)
    memory = Memory(PageAllocator(40, 4), RowAllocator(3), 40, has_pair_keys=has_pair_keys, exports=exports)
    holding = Holding(Books())
    admit_request(memory, holding, TEXT)
    allocate_chunk(memory, holding, num_positions)
    return memory, holding


def of_pages(*pages):
    slots = tuple(page * 4 + place for page in pages for place in range(4))
    return Export((0,) * len(slots), slots, ExportLengths(len(slots), len(slots)), len(pages))


def test_tokens_and_slots_are_as_many_as_were_fed():
    memory, holding = started()
    export = export_text(memory, holding, TEXT, ExportLengths(8, 8, 8))
    assert export == Export(tuple(TEXT[:8]), tuple(range(4, 12)), ExportLengths(8, 8, 8), 2)


def test_the_last_entry_of_a_shifted_draft_waits_for_its_token():
    memory, holding = started(has_pair_keys=True)
    export = export_text(memory, holding, TEXT, ExportLengths(8, 8))
    assert (export.lengths, export.num_pages) == (ExportLengths(8, 7), 1)


def test_an_end_cuts_and_states_after_it_do_not_leave():
    memory, holding = started()
    export = export_text(memory, holding, TEXT[:7], ExportLengths(8, 8, 8), num_tokens=9)
    assert (export.tokens, export.lengths, export.num_pages) == (tuple(TEXT[:7]), ExportLengths(7, 7, 0), 1)


@pytest.mark.parametrize(
    "written",
    [ExportLengths(9, 9), ExportLengths(8, 9), ExportLengths(7, 7, 8), ExportLengths(8, 8, -1)],
    ids=["unfed", "draft ahead", "states ahead", "negative states"],
)
def test_lengths_that_contradict_are_refused(written):
    memory, holding = started()
    with pytest.raises(SpecRejection) as refusal:
        export_text(memory, holding, TEXT, written)
    assert refusal.value.reason is Reason.COUNT_OUT_OF_RANGE


def test_more_than_the_request_has_slots_is_refused():
    memory, holding = started(num_positions=6)
    with pytest.raises(SpecRejection, match=r"written.target"):
        export_text(memory, holding, TEXT, ExportLengths(7, 7))


def test_pages_leave_once_and_the_list_goes_back_with_the_text():
    exports = Exports(4)
    assert exports.begin("one", of_pages(5, 7)).slots == of_pages(5, 7).slots
    assert exports.begin("one", of_pages(5, 7, 9)).slots == of_pages(9).slots
    assert exports.begin("one", of_pages(5)).slots == ()
    assert exports.left_of("one") == of_pages(5).slots
    assert exports.begin("one", of_pages(5, 8)).slots == of_pages(8).slots
    exports.forget("one")
    assert exports.left_of("one") == ()


@pytest.mark.parametrize("is_retracted", [False, True], ids=["finished", "retracted"])
def test_a_page_on_its_way_is_free_when_it_has_arrived(is_retracted):
    memory, holding = started(num_positions=6)
    export = export_text(memory, holding, TEXT[:7], ExportLengths(6, 6))
    transfer = memory.exports.begin("one", export)
    if is_retracted:
        release_retracted(memory, holding)
    else:
        release_finished(memory, holding, TEXT[:6], 6)
    assert (transfer.slots, memory.exports.late) == ((4, 5, 6, 7), (4, 5, 6, 7))
    assert 1 not in memory.allocator.free_pages
    Ledger(memory).check({})
    memory.end_export(transfer.number)
    assert 1 in memory.allocator.free_pages
    Ledger(memory).check({})
    with pytest.raises(SpecRejection) as refusal:
        memory.end_export(transfer.number)
    assert refusal.value.reason is Reason.DOUBLE_FREE


def test_a_page_of_two_transfers_waits_for_both():
    exports = Exports(4)
    numbers = [exports.begin(name, of_pages(3)).number for name in ("one", "other")]
    assert exports.keep(of_pages(3, 4).slots) == list(of_pages(4).slots)
    assert exports.end(numbers[0]) == []
    assert exports.end(numbers[1]) == list(of_pages(3).slots)


def test_a_text_is_loaded_page_by_page_where_a_window_passes_most_of_it():
    """Twenty positions, a window of five on pages of four: the last page keeps its SWA slots."""
    swa = SwaAllocator(PageAllocator(40, 4), PageAllocator(16, 4))
    memory = Memory(swa, RowAllocator(3), 40, swa=swa, window=5)
    holding = Holding(Books())
    admit_request(memory, holding, list(range(21)))
    lost = allocate_loaded(memory, holding, 20)
    assert holding.books.num_committed == len(holding.slots) == 20
    assert [slot > 0 for slot in swa.swa_slots(holding.slots)] == [False] * 16 + [True] * 4
    assert lost == holding.slots[:16]
    Ledger(memory).check({0: holding})
