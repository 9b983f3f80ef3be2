"""What a browser makes of a picture: nothing is asked of a network, and everything drawn lies inside."""

import pytest

from specsim.pictures import (
    Activity,
    Cell,
    Column,
    Moment,
    Move,
    Node,
    SlotRow,
    State,
    draw_slots,
    draw_table,
    draw_timeline,
    draw_tree,
)
from tests import browser

open_page = browser.open_page

WIDE = [Node("node 0", None, "5", 12, 3, State.ACCEPTED)] + [
    Node(f"node {node}", 0 if node < 17 else 16, str(1000 + node), 13, 40 + node, State.REJECTED, ("target 7",))
    for node in range(1, 33)
]
PICTURES = {
    "tree": draw_tree(WIDE, "a wide tree"),
    "strange": draw_tree(
        [Node("节点 0", None, "<script>alert(1)</script>"), Node("ノード", 0, "👩‍🚀é" * 6)], "日本語 & Ελληνικά"
    ),
    "slots": draw_slots(
        [SlotRow(label, tuple(Cell(str(slot)) for slot in range(9))) for label in ("before", "after")],
        [Move(0, 8, 1, 1)],
    ),
    "timeline": draw_timeline(
        [f"request {number}" for number in range(9)],
        [Column("verify", (Moment(Activity.VERIFY, "10/15"),) * 9, 4000 + one, (one - 1, one)) for one in range(60)],
        1 << 20,
    ),
    "table": draw_table(("name", "entries"), [("accept_index", "[[0, 2, -1]]")], "a table"),
}

OUTSIDE_OF_THE_VIEW = """() => [...document.querySelectorAll("svg")].flatMap(svg => {
    const frame = svg.getBoundingClientRect();
    return [...svg.querySelectorAll("rect, text, path")].flatMap(element => {
        const box = element.getBoundingClientRect();
        const is_inside = box.left >= frame.left - 1 && box.right <= frame.right + 1
            && box.top >= frame.top - 1 && box.bottom <= frame.bottom + 1;
        return is_inside ? [] : [`${element.tagName} ${element.textContent}`];
    });
})"""
WIDTHS = (400, 1600)


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_is_whole_at_any_width_and_asks_nothing_of_a_network(open_page, tmp_path, name):
    path = tmp_path / "picture.svg"
    path.write_text(PICTURES[name], encoding="utf-8")
    opened = open_page(path)
    for width in WIDTHS:
        opened.page.set_viewport_size({"width": width, "height": 900})
        assert opened.page.evaluate(OUTSIDE_OF_THE_VIEW) == []
    assert (opened.errors, opened.requests) == ([], [])
    opened.page.close()


def test_pictures_stand_in_a_page_beside_each_other(open_page, tmp_path):
    path = tmp_path / "page.html"
    style = "<style>svg{max-width:100%;height:auto}</style>"
    path.write_text(f"<!doctype html><meta charset=utf-8>{style}{''.join(PICTURES.values())}", encoding="utf-8")
    opened = open_page(path)
    for width in WIDTHS:
        opened.page.set_viewport_size({"width": width, "height": 900})
        assert opened.page.evaluate(OUTSIDE_OF_THE_VIEW) == []
        assert opened.ending_after(width, "svg") == []
    assert (opened.errors, opened.requests) == ([], [])
    opened.page.close()


def test_dark_pages_get_a_dark_picture(open_page, tmp_path):
    path = tmp_path / "picture.svg"
    path.write_text(PICTURES["tree"], encoding="utf-8")
    grounds = [
        open_page(path, scheme=scheme).page.evaluate("getComputedStyle(document.querySelector('.s-ground')).fill")
        for scheme in ("light", "dark")
    ]
    assert grounds == ["rgb(255, 255, 255)", "rgb(13, 17, 23)"]
