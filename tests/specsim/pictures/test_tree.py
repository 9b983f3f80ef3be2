import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specsim.pictures import Node, State, draw_tree
from specsim.topology import Topology
from tests.specsim.pictures.parsed import boxes_of, ids_of, root_of, tags_of, texts_of, words_of

NODES = [
    Node("node 0", None, "5", 12, 40, State.ACCEPTED),
    Node("node 1", 0, "6", 13, 41, State.REJECTED, ("target 9",)),
    Node("node 2", 0, "7", 13, 42, State.ACCEPTED),
    Node("bonus", 2, "8", state=State.BONUS),
    Node("node 3", 1, "9", 14, 43),
]
TAGS = {"svg", "title", "desc", "style", "g", "rect", "path", "text"}


@st.composite
def nodes(draw):
    """Draw a forest: parents one by one, and a few texts that its nodes share."""
    above = draw(st.lists(st.integers(-1, 24), min_size=1, max_size=25))
    texts = draw(st.lists(st.text(max_size=9), min_size=3, max_size=3))
    random = draw(st.randoms(use_true_random=False))
    return [
        Node(
            random.choice(texts),
            None if min(parent, place - 1) < 0 else min(parent, place - 1),
            random.choice([None, *texts]),
            random.choice([None, 2**31]),
            random.choice([None, 7]),
            random.choice([*State]),
            random.choice([(), tuple(texts)]),
        )
        for place, parent in enumerate(above)
    ]


def test_a_node_shows_token_position_and_slot():
    assert [box.lines for box in boxes_of(draw_tree(NODES), "name")] == [
        ("token 5", "node 0", "pos 12 slot 40"),
        ("token 6", "node 1", "pos 13 slot 41", "target 9"),
        ("token 7", "node 2", "pos 13 slot 42"),
        ("token 8", "bonus"),
        ("token 9", "node 3", "pos 14 slot 43"),
    ]


def test_levels_go_to_the_right_and_siblings_down():
    places = {box.marks["name"]: (box.left, box.top) for box in boxes_of(draw_tree(NODES), "name")}
    lefts = {left for left, _ in places.values()}
    by_level = [["node 0"], ["node 1", "node 2"], ["node 3", "bonus"]]
    assert [[places[name][0] for name in level] for level in by_level] == [
        [left] * len(level) for left, level in zip(sorted(lefts), by_level, strict=True)
    ]
    assert places["node 1"][1] < places["node 0"][1] < places["node 2"][1]


def test_the_description_says_the_same():
    assert words_of(draw_tree(NODES, "a tree")) == (
        "a tree",
        "a tree. node 0 token 5 position 12 slot 40, a root, accepted; "
        "node 1 token 6 position 13 slot 41 target 9, below node 0, rejected; "
        "node 2 token 7 position 13 slot 42, below node 0, accepted; "
        "bonus token 8, below node 2, bonus token; "
        "node 3 token 9 position 14 slot 43, below node 1.",
    )


def test_states_differ_without_colours():
    """Each state has its own outline or corners, and a legend explains those that there are."""
    shapes = set()
    for state in State:
        svg = draw_tree([Node("node 0", state=state)])
        (group,) = [one for one in root_of(svg).iter() if one.get("data-name")]
        rectangles = [one for one in group if one.tag.endswith("rect")]
        marks = [one.get("d") for one in group if one.tag.endswith("path")]
        names = ("stroke-dasharray", "stroke-width", "rx")
        shapes.add((*(rectangles[0].get(name) for name in names), len(marks), len(rectangles)))
        assert (state.value in texts_of(svg)) == (state is not State.PLAIN)
    assert len(shapes) == len(State)


def test_text_of_strangers_is_text():
    planted = '</text><script>alert(1)</script><image href="https://example.org/x"/>'
    svg = draw_tree([Node(planted, None, planted, lines=(planted, "a\x1b[2J\u202eb\x00\ud800"))], planted)
    assert tags_of(svg) == TAGS - {"path"}
    assert planted in texts_of(svg)
    assert texts_of(svg)[-1] == "a\\x1b[2J\\u202eb\\x00\\ud800"
    assert words_of(svg)[0] == planted


def test_long_text_is_cut():
    svg = draw_tree([Node("n" * 100_000, lines=("x" * 100_000,))], "t" * 100_000)
    assert max(map(len, texts_of(svg))) == 122
    assert len(svg) < 5_000


def test_a_picture_stands_alone():
    """Nothing in it refers to anything, and several fit into one page."""
    svg = draw_tree(NODES)
    root = root_of(svg)
    assert (root.get("role"), ids_of(svg)) == ("img", [])
    assert not [name for one in root.iter() for name in one.attrib if "href" in name or name.startswith("on")]
    assert "url(" not in svg
    assert ids_of(draw_tree(NODES, prefix="a-")) == ["a-title", "a-desc"]
    assert root_of(draw_tree(NODES, prefix="a-")).get("aria-labelledby") == "a-title a-desc"


def test_it_has_colours_of_light_pages_without_any_style():
    root = root_of(draw_tree(NODES))
    painted = [one for one in root.iter() if (one.get("class") or "").startswith("s-")]
    assert painted
    assert not [one.get("class") for one in painted if one.get("fill") is None]
    style = next(one.text for one in root if one.tag.endswith("style"))
    assert style.startswith("@media (prefers-color-scheme:dark){")
    assert not [kind for one in painted if f".{(kind := one.get('class'))}{{" not in style]


def test_a_node_before_its_parent_is_refused():
    with pytest.raises(ValueError, match=r"^nodes\[0\]\.parent = 1, but should be None or a place before 0$"):
        draw_tree([Node("node 0", 1), Node("node 1")])


@settings(max_examples=40)
@given(nodes())
def test_any_tree_is_well_formed_whole_and_without_overlaps(drawn):
    svg = draw_tree(drawn, drawn[0].name)
    assert svg == draw_tree([*drawn], drawn[0].name)
    assert tags_of(svg) <= TAGS
    left, top, width, height = map(float, root_of(svg).get("viewBox").split())
    boxes = boxes_of(svg, "name")
    assert len(boxes) == len(drawn)
    for place, (node, box) in enumerate(zip(drawn, boxes, strict=True)):
        assert left <= box.left and box.left + box.width <= width
        assert top <= box.top and box.top + box.height <= height
        assert not any(box.overlaps(other) for other in boxes[:place])
        if node.parent is not None:
            parent = boxes[node.parent]
            assert box.left > parent.left + parent.width


@settings(max_examples=40)
@given(st.lists(st.integers(-1, 30), min_size=1, max_size=31))
def test_a_topology_draws_itself(above):
    topology = Topology.from_parents([min(parent, node - 1) for node, parent in enumerate(above)])
    svg = topology._repr_svg_()
    drawn = [box.marks["name"] for box in boxes_of(svg, "name")]
    assert drawn == [f"node {node}" for node in topology.in_order]
    assert sorted(topology.in_order) == [*range(len(topology))]
    assert svg == Topology(topology.children)._repr_svg_()
