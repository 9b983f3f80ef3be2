import pytest

from specsim import Reason, SpecRejection
from specsim.host.exporting import exportable_pages


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
