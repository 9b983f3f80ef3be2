import pytest

from specsim import Reason, SpecRejection
from specsim.host.scheduling import (
    Retractions,
    chunk_length,
    decode_end,
    is_late,
    plan_retractions,
    waits_for_result,
)
from specsim.host.streams import StreamEvent, stream_edges


@pytest.mark.parametrize(
    ("num_left", "budget", "page_size", "length"),
    [(9, None, 4, 9), (9, 9, 4, 9), (9, 8, 4, 8), (9, 7, 4, 4), (9, 3, 4, 0), (3, 3, 4, 3), (9, 7, 1, 7)],
)
def test_a_chunk_ends_at_the_end_or_on_a_page(num_left, budget, page_size, length):
    assert chunk_length(num_left, budget, page_size) == length


def test_rows_grow_to_whole_pages_and_never_shrink():
    assert decode_end(7, 7, 12, 1) == 19
    assert decode_end(7, 7, 12, 4) == 20
    assert decode_end(7, 24, 12, 4) == 24


def test_k11_overlapped_ledger():
    committed, allocated, ledger = 7, 7, []
    for resolved in (0, 0, 3, 1, 4):
        committed += resolved
        allocated = decode_end(committed, allocated, 12, 1)
        ledger.append((allocated, committed))
    assert ledger == [(19, 7), (19, 7), (22, 10), (23, 11), (27, 15)]


@pytest.mark.parametrize(
    ("num_free", "needed", "owned", "plan"),
    [
        (9, (3, 3, 3), (5, 5, 5), Retractions(3)),
        (8, (3, 3, 3), (5, 5, 5), Retractions(2)),
        (0, (3, 3, 3), (5, 1, 1), Retractions(1, True)),
        (0, (3, 3, 3), (5, 2, 1), Retractions(1)),
        (0, (3,), (5,), Retractions(1, True)),
        (0, (), (), Retractions(0)),
    ],
)
def test_the_end_of_the_batch_gives_way(num_free, needed, owned, plan):
    assert plan_retractions(num_free, needed, owned) == plan


def test_every_request_of_a_crowd_says_what_it_owns():
    with pytest.raises(SpecRejection) as caught:
        plan_retractions(1, (1, 2), (1,))
    assert caught.value.reason is Reason.INCONSISTENT_LENGTHS


def test_a_result_is_late_after_an_end_or_a_retraction():
    assert [is_late(0, 0, False), is_late(0, 0, True), is_late(0, 1, False), is_late(1, 1, False)] == [0, 1, 1, 0]


def test_a_turn_waits_for_what_the_host_does():
    assert [waits_for_result([]), waits_for_result([False]), waits_for_result([False, True])] == [0, 0, 1]


def test_the_map_is_written_behind_reads_and_beside_forwards():
    queued = [StreamEvent(0, reads_map=True), StreamEvent(0, writes_slots=True)]
    write = StreamEvent(1, writes_map=True)
    assert stream_edges(write, queued) == (0,)
    assert stream_edges(StreamEvent(1, reads_map=True), [*queued, write]) == (0, 1, 2)
    assert stream_edges(StreamEvent(1, writes_slots=True), [*queued, write]) == (0, 1)
