import pytest

from specsim.host.scheduling import chunk_length, is_late, waits_for_result
from specsim.host.streams import StreamEvent, stream_edges


@pytest.mark.parametrize(
    ("num_left", "budget", "page_size", "length"),
    [(9, None, 4, 9), (9, 9, 4, 9), (9, 8, 4, 8), (9, 7, 4, 4), (9, 3, 4, 0), (3, 3, 4, 3), (9, 7, 1, 7)],
)
def test_a_chunk_ends_at_the_end_or_on_a_page(num_left, budget, page_size, length):
    assert chunk_length(num_left, budget, page_size) == length


def test_a_result_is_late_after_an_end_or_a_retraction():
    assert [is_late(0, 0, False), is_late(0, 0, True), is_late(0, 1, False), is_late(1, 1, False)] == [0, 1, 1, 0]


def test_a_turn_waits_for_what_the_host_does():
    assert [waits_for_result([]), waits_for_result([False]), waits_for_result([False, True])] == [0, 0, 1]


def test_the_map_is_written_after_reads_and_beside_forwards():
    queued = [StreamEvent(0, reads_map=True), StreamEvent(0, writes_slots=True)]
    write = StreamEvent(1, writes_map=True)
    assert stream_edges(write, queued) == (0,)
    assert stream_edges(StreamEvent(1, reads_map=True), [*queued, write]) == (0, 1, 2)
    assert stream_edges(StreamEvent(1, writes_slots=True), [*queued, write]) == (0, 1)
