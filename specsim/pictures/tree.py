"""Trees and chains: a box a node, levels from left to right, siblings in their order from the top down."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from html import escape

from specsim.pictures.frame import Panel, draw_panels, moved, stacked
from specsim.pictures.markup import CHARACTER, FONT_SIZE, LINE, element, number, shown, text, width_of

PADDING, BETWEEN_LEVELS, BETWEEN_ROWS = 9, 34, 12
"""Pixels inside a box beside its text, between two columns, and between two rows."""

ROUND = 17
"""Radius of the ends of a bonus token."""


class State(Enum):
    """What became of a node; the value is what a legend and a description say."""

    PLAIN = "not compared"
    ACCEPTED = "accepted"
    REJECTED = "rejected"
    BONUS = "bonus token"


LOOKS = {
    State.PLAIN: ("plain", {}, {}),
    State.ACCEPTED: ("accepted", {"stroke_width": 2.5}, {"stroke_width": 2.5}),
    State.REJECTED: ("rejected", {"stroke_dasharray": "5 3"}, {"stroke_dasharray": "5 3"}),
    State.BONUS: ("bonus", {"stroke_width": 1.5}, {"stroke_width": 1.5, "stroke_dasharray": "1.5 3"}),
}
"""How a state is drawn: what paints it, and attributes of its box and of the line that leads to it."""


@dataclass(frozen=True)
class Node:
    """What a node of a tree shows.

    Parameters
    ----------
    name : str
        What it is called, as ``"node 3"``.
    parent : int or None
        The place of its parent in the sequence, which is before its own; None for a root.
    token : str or None
        The token, as text.
    position, slot : int or None
        Where it stands in the text, and the KV slot that it is written to.
    state : State
        What became of it.
    lines : tuple of str
        Further lines.
    """

    name: str
    parent: int | None = None
    token: str | None = None
    position: int | None = None
    slot: int | None = None
    state: State = State.PLAIN
    lines: tuple[str, ...] = ()

    def shown_lines(self) -> list[str]:
        """Return what stands in its box; the first line is the heading."""
        places = [
            f"{word} {value}" for word, value in (("pos", self.position), ("slot", self.slot)) if value is not None
        ]
        heading = [self.name] if self.token is None else [f"token {self.token}", self.name]
        return [*heading, *([" ".join(places)] if places else []), *self.lines]

    def in_words(self) -> str:
        """Return the same in one line."""
        facts = [*self.shown_lines()[1:]] if self.token is None else [f"token {self.token}", *self.shown_lines()[2:]]
        facts = [fact.replace("pos ", "position ", 1) if fact.startswith("pos ") else fact for fact in facts]
        return " ".join([self.name, *facts])


def draw_tree(nodes: Sequence[Node], title: str = "tree", *, prefix: str = "", has_states: bool | None = None) -> str:
    """Return a tree as a document of SVG.

    Accepted nodes have a thick line and a tick, rejected ones a dashed line and a cross, a bonus token round ends and
    a dotted line to it; colours say the same.

    Parameters
    ----------
    nodes : sequence of Node
        Parents before their children; siblings in this order.
    title : str
        Drawn above.
    prefix : str
        As for ``draw_panels``.
    has_states : bool or None
        Whether to explain the states; None if a node has one other than plain.

    Raises
    ------
    ValueError
        A node stands before its parent.
    """
    return draw_panels([tree_panel(nodes, has_states=has_states)], title, prefix=prefix)


def tree_panel(nodes: Sequence[Node], *, has_states: bool | None = None) -> Panel:
    """Return a tree as a panel, with a legend of its states if it has any; see ``draw_tree``."""
    children = _children_of(nodes)
    lines = [node.shown_lines() for node in nodes]
    height = PADDING + LINE * max(map(len, lines), default=0) + PADDING - 4
    depths: list[int] = []
    for node in nodes:
        depths.append(0 if node.parent is None else depths[node.parent] + 1)
    widths = [0.0] * (max(depths, default=-1) + 1)
    for depth, rows in zip(depths, lines, strict=True):
        # NOTE: the mark of a state stands in the upper right corner, beside the heading.
        need = max(width_of(rows[0]) + 2 * CHARACTER + 4, *map(width_of, rows)) + 2 * PADDING
        widths[depth] = max(widths[depth], need)
    lefts = [sum(widths[:depth]) + BETWEEN_LEVELS * depth for depth in range(len(widths) + 1)]
    tops = _tops(children, nodes, height)
    middle = height / 2
    edges, boxes = [], []
    for place, node in enumerate(nodes):
        left, top, width = lefts[depths[place]], tops[place], widths[depths[place]]
        if node.parent is not None:
            above = depths[place] - 1
            start, end = lefts[above] + widths[above], left
            edges.append(_edge(start, tops[node.parent] + middle, end, top + middle, node.state))
        boxes.append(moved(_box(node, lines[place], width, height), left, top))
    drawing = Panel(
        max((lefts[depth] + widths[depth] for depth in depths), default=0.0),
        max(tops, default=-height) + height,
        "".join(edges + boxes),
        _in_words(nodes),
    )
    states = {node.state for node in nodes}
    explains = bool(states - {State.PLAIN}) if has_states is None else has_states
    return stacked([drawing, legend(states)]) if explains and nodes else drawing


def legend(states: set[State]) -> Panel:
    """Return what the looks of some states mean, in one row."""
    parts, left = [], 0.0
    for state in (one for one in State if one in states):
        parts.append(moved(box(state, 26, 14), left, 0))
        parts.append(text(left + 33, 11, state.value, "faint"))
        left += 33 + width_of(state.value) + 20
    return Panel(max(left - 20, 0.0), 16, "".join(parts), "")


def box(state: State, width: float, height: float) -> str:
    """Return the box of a state, with its mark in the upper right corner."""
    kind, outline, _ = LOOKS[state]
    radius = min(height / 2, ROUND) if state is State.BONUS else 4
    drawn = element("rect", kind, width=float(width), height=float(height), rx=float(radius), **outline)
    right = width - 13
    if state is State.ACCEPTED:
        drawn += _stroke(f"M{number(right)},7l3,3.5l5,-7", "accepted-line", 2)
    elif state is State.REJECTED:
        drawn += _stroke(f"M{number(right)},4l6,6m0,-6l-6,6", "rejected-line", 1.5)
    elif state is State.BONUS and height > 2 * LINE:
        inside = {"x": 3.0, "y": 3.0, "width": float(width - 6), "height": float(height - 6), "rx": float(ROUND - 3)}
        drawn += element("rect", "bonus-line", stroke_width=0.75, **inside)
    return drawn


def _stroke(path: str, kind: str, width: float) -> str:
    return element("path", kind, d=path, stroke_width=width, stroke_linecap="round", stroke_linejoin="round")


def _box(node: Node, lines: Sequence[str], width: float, height: float) -> str:
    parts = [
        element("title", content=escape(shown(f"{node.in_words()}: {node.state.value}"))),
        box(node.state, width, height),
    ]
    for place, line in enumerate(lines):
        weight = {"font_weight": "bold"} if place == 0 else {}
        kind = "ink" if place == 0 else "faint"
        parts.append(text(PADDING, PADDING + FONT_SIZE - 3 + LINE * place, line, kind, **weight))
    return element("g", content="".join(parts), data_state=node.state.name.lower(), data_name=shown(node.name))


def _edge(left: float, top: float, right: float, bottom: float, state: State) -> str:
    kind = {State.ACCEPTED: "accepted-line", State.REJECTED: "rejected-line", State.BONUS: "bonus-line"}.get(
        state, "edge"
    )
    bend = number((left + right) / 2)
    path = (
        f"M{number(left)},{number(top)}C{bend},{number(top)} {bend},{number(bottom)} {number(right)},{number(bottom)}"
    )
    return element("path", kind, d=path, **LOOKS[state][2])


def _children_of(nodes: Sequence[Node]) -> list[list[int]]:
    children: list[list[int]] = [[] for _ in nodes]
    for place, node in enumerate(nodes):
        if node.parent is not None:
            if not 0 <= node.parent < place:
                raise ValueError(f"nodes[{place}].parent = {node.parent}, but should be 0 to {place - 1} or None")
            children[node.parent].append(place)
    return children


def _tops(children: Sequence[Sequence[int]], nodes: Sequence[Node], height: float) -> list[float]:
    """Return how far down each node stands: leaves one below another, a parent in the middle of its children."""
    tops = [0.0] * len(nodes)
    num_leaves = 0
    waiting = [place for place, node in reversed([*enumerate(nodes)]) if node.parent is None]
    order = []
    while waiting:
        place = waiting.pop()
        order.append(place)
        if not children[place]:
            tops[place] = num_leaves * (height + BETWEEN_ROWS)
            num_leaves += 1
        waiting += reversed(children[place])
    for place in reversed(order):
        if children[place]:
            tops[place] = (tops[children[place][0]] + tops[children[place][-1]]) / 2
    return tops


def _in_words(nodes: Sequence[Node]) -> str:
    sentences = []
    for node in nodes:
        below = "a root" if node.parent is None else f"below {nodes[node.parent].name}"
        state = "" if node.state is State.PLAIN else f", {node.state.value}"
        sentences.append(shown(f"{node.in_words()}, {below}{state}"))
    return "; ".join(sentences)
