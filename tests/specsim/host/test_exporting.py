import pytest

from specsim import Reason, SpecRejection
from specsim.host.exporting import exportable_pages, loadable_positions


def test_a_page_leaves_when_all_of_its_positions_were_fed():
    assert [exportable_pages(written, written + 1, 0, 4) for written in range(9)] == [0, 0, 0, 0, 1, 1, 1, 1, 2]


def test_an_end_takes_the_page_back_that_it_cuts():
    assert [exportable_pages(8, 9, 0, 4, final) for final in range(10)] == [0, 0, 0, 0, 1, 1, 1, 1, 2, 2]


@pytest.mark.parametrize(
    "lengths",
    [(9, 9, 0, 4), (-1, 9, 0, 4), (8, 9, 9, 4), (8, 9, -1, 4), (8, 9, 8, 4, 7), (8, 9, 0, 0), (8, 9, 0, 4, 10)],
    ids=["unfed", "negative", "cached", "negative cached", "cached after the end", "no slot", "end after the text"],
)
def test_lengths_that_contradict_are_refused(lengths):
    with pytest.raises(SpecRejection) as refusal:
        exportable_pages(*lengths)
    assert refusal.value.reason is Reason.COUNT_OUT_OF_RANGE


def test_another_engine_loads_all_but_the_last_token():
    assert loadable_positions(9, 8) == 8
    assert loadable_positions(8, 8) == 7
    assert loadable_positions(9, 8, num_draft=7) == 7
    assert loadable_positions(20, 8, num_draft=8, num_states=8) == 8


def test_a_window_has_to_reach_back_from_the_first_token_that_is_computed():
    assert loadable_positions(9, 8, window=5, window_start=4) == 8
    assert loadable_positions(9, 8, window=4, window_start=4, page_size=4) == 8
    assert loadable_positions(9, 8, window=1, window_start=8) == 8


@pytest.mark.parametrize(
    ("lengths", "reason"),
    [
        ({"num_tokens": 1, "num_target": 1}, Reason.COUNT_OUT_OF_RANGE),
        ({"num_tokens": 9, "num_target": 8, "num_draft": 0}, Reason.COUNT_OUT_OF_RANGE),
        ({"num_tokens": 9, "num_target": 8, "num_states": 0}, Reason.COUNT_OUT_OF_RANGE),
        ({"num_tokens": 9, "num_target": 8, "num_draft": 7, "num_states": 8}, Reason.INCONSISTENT_LENGTHS),
        ({"num_tokens": 9, "num_target": 8, "window": 5, "window_start": 5}, Reason.UNMAPPED_SLOT),
        ({"num_tokens": 9, "num_target": 8, "window": 4, "window_start": 5, "page_size": 4}, Reason.UNMAPPED_SLOT),
    ],
    ids=["one token", "no draft", "no states", "states ahead of the draft", "a window that is gone", "part of a page"],
)
def test_what_cannot_be_loaded_is_refused(lengths, reason):
    with pytest.raises(SpecRejection) as refusal:
        loadable_positions(**lengths)
    assert refusal.value.reason is reason
