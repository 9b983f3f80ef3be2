import pytest
from pytest import approx

from specsim.pictures import Cell, Move, SlotRow, State, draw_slots, draw_table
from tests.specsim.pictures.parsed import boxes_of, root_of, texts_of, words_of

BEFORE = SlotRow("before", (Cell("20", ("node 0",), State.ACCEPTED), Cell("21", (), State.REJECTED), Cell("22")))
AFTER = SlotRow("after", (Cell("20", (), State.ACCEPTED), Cell("21")))
MOVES = (Move(0, 0, 1, 0), Move(0, 2, 1, 1))


def test_rows_stand_below_each_other_and_moves_lead_from_entry_to_entry():
    svg = draw_slots([BEFORE, AFTER], MOVES)
    boxes = boxes_of(svg, "state")
    assert [box.lines[0] for box in boxes] == ["20", "21", "22", "20", "21"]
    assert boxes[0].top == boxes[2].top < boxes[3].top
    middles = [box.left + box.width / 2 for box in boxes]
    moves = [one.get("d") for one in root_of(svg).iter() if one.get("data-move") is not None]
    ends = [(float(path.split(",")[0][1:]), float(path.split(" ")[-1].split(",")[0])) for path in moves]
    # NOTE: paths have the corner of the panel as their origin, boxes that of the picture.
    assert [(a + 16, b + 16) for a, b in ends] == [approx((middles[0], middles[3])), approx((middles[2], middles[4]))]


def test_the_description_names_entries_and_moves():
    assert words_of(draw_slots([BEFORE, AFTER], MOVES, "slots of a verify")) == (
        "slots of a verify",
        "slots of a verify. before: 20 node 0 accepted, 21 rejected, 22; after: 20 accepted, 21; "
        "20 of before goes to 20 of after; 22 of before goes to 21 of after.",
    )


def test_a_long_row_is_cut():
    svg = draw_slots([SlotRow("row", tuple(Cell(str(slot)) for slot in range(1000)))])
    assert len(boxes_of(svg, "state")) == 24
    assert "… 976 more" in texts_of(svg)


@pytest.mark.parametrize("move", [Move(0, 3, 1, 0), Move(1, 0, 0, 0), Move(0, -1, 1, 0), Move(0, 0, 2, 0)])
def test_a_move_from_or_to_nowhere_is_refused(move):
    with pytest.raises(
        ValueError, match=r"^moves\[0\] = Move\(.*\), but should lead from an entry to one of a later row$"
    ):
        draw_slots([BEFORE, AFTER], [move])


def test_a_table_has_its_cells_row_by_row():
    svg = draw_table(("name", "entries"), [("a", "[1, 2]"), ("b", "<g>")], "arrays")
    assert texts_of(svg) == ["arrays", "name", "a", "b", "entries", "[1, 2]", "<g>"]
    assert words_of(svg) == ("arrays", "arrays. a [1, 2]; b <g>.")


def test_nothing_is_a_picture_too():
    for svg in (draw_slots([]), draw_slots([SlotRow("row", ())]), draw_table((), [], "nothing")):
        assert root_of(svg).get("role") == "img"
