"""Trees and chains: a box a node, levels from left to right, siblings in their order from the top down."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from specsim.pictures.frame import Panel, draw_panels, moved
from specsim.pictures.markup import CHARACTER, FONT_SIZE, LINE, element, number, shown, text, width_of
from specsim.pictures.states import LINES, State, box

PADDING, BETWEEN_LEVELS, BETWEEN_ROWS = 9, 34, 12
"""Pixels inside a box beside its text, between two columns, and between two rows."""


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


def draw_tree(nodes: Sequence[Node], title: str = "tree", *, prefix: str = "") -> str:
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

    Raises
    ------
    ValueError
        A node stands before its parent.
    """
    return draw_panels([tree_panel(nodes)], title, prefix=prefix)


def tree_panel(nodes: Sequence[Node]) -> Panel:
    """Return a tree as a panel; see ``draw_tree``."""
    children = _children_of(nodes)
    lines = [node.shown_lines() for node in nodes]
    heights = [2 * PADDING - 4 + LINE * len(rows) for rows in lines]
    depths: list[int] = []
    for node in nodes:
        depths.append(0 if node.parent is None else depths[node.parent] + 1)
    widths = [0.0] * (max(depths, default=-1) + 1)
    for depth, rows in zip(depths, lines, strict=True):
        # NOTE: the mark of a state stands in the upper right corner, beside the heading.
        need = max(width_of(rows[0]) + 2 * CHARACTER + 4, *map(width_of, rows)) + 2 * PADDING
        widths[depth] = max(widths[depth], need)
    lefts = [sum(widths[:depth]) + BETWEEN_LEVELS * depth for depth in range(len(widths))]
    tops = _tops(nodes, children, heights)
    edges, boxes = [], []
    for place, node in enumerate(nodes):
        left, top, width = lefts[depths[place]], tops[place], widths[depths[place]]
        if node.parent is not None:
            above = depths[place] - 1
            start = lefts[above] + widths[above], tops[node.parent] + heights[node.parent] / 2
            edges.append(_edge(*start, left, top + heights[place] / 2, node.state))
        boxes.append(moved(_box(node, lines[place], width, heights[place]), left, top))
    width = lefts[-1] + widths[-1] if widths else 0.0
    height = max((top + own for top, own in zip(tops, heights, strict=True)), default=0.0)
    return Panel(width, height, "".join(edges + boxes), _in_words(nodes), frozenset(node.state for node in nodes))


def _box(node: Node, lines: Sequence[str], width: float, height: float) -> str:
    parts = [
        element("title", "", escape(shown(f"{node.in_words()}: {node.state.value}"))),
        box(node.state, width, height),
    ]
    for place, line in enumerate(lines):
        weight = {"font_weight": "bold"} if place == 0 else {}
        kind = "ink" if place == 0 else "faint"
        parts.append(text(PADDING, PADDING + FONT_SIZE - 3 + LINE * place, line, kind, **weight))
    return element("g", "", "".join(parts), data_state=node.state.name.lower(), data_name=shown(node.name))


def _edge(left: float, top: float, right: float, bottom: float, state: State) -> str:
    kind, line = LINES[state]
    bend = number((left + right) / 2)
    path = (
        f"M{number(left)},{number(top)}C{bend},{number(top)} {bend},{number(bottom)} {number(right)},{number(bottom)}"
    )
    return element("path", kind, d=path, **line)


def _children_of(nodes: Sequence[Node]) -> list[list[int]]:
    children: list[list[int]] = [[] for _ in nodes]
    for place, node in enumerate(nodes):
        if node.parent is not None:
            if not 0 <= node.parent < place:
                expected = f"None or a place before {place}"
                raise ValueError(f"nodes[{place}].parent = {node.parent}, but should be {expected}")
            children[node.parent].append(place)
    return children


def _tops(nodes: Sequence[Node], children: Sequence[Sequence[int]], heights: Sequence[float]) -> list[float]:
    """Return how far down each node stands: in the middle of the room of all that hangs from it."""
    rooms = [*heights]
    for place in reversed(range(len(nodes))):
        below = sum(rooms[child] for child in children[place]) + BETWEEN_ROWS * max(len(children[place]) - 1, 0)
        rooms[place] = max(heights[place], below)
    begins = [0.0] * len(nodes)
    top = 0.0
    for place, node in enumerate(nodes):
        if node.parent is None:
            begins[place] = top
            top += rooms[place] + BETWEEN_ROWS
        below = sum(rooms[child] for child in children[place]) + BETWEEN_ROWS * max(len(children[place]) - 1, 0)
        begin = begins[place] + (rooms[place] - below) / 2
        for child in children[place]:
            begins[child] = begin
            begin += rooms[child] + BETWEEN_ROWS
    return [begin + (room - own) / 2 for begin, room, own in zip(begins, rooms, heights, strict=True)]


def _in_words(nodes: Sequence[Node]) -> str:
    sentences = []
    for node in nodes:
        below = "a root" if node.parent is None else f"below {nodes[node.parent].name}"
        state = "" if node.state is State.PLAIN else f", {node.state.value}"
        sentences.append(shown(f"{node.in_words()}, {below}{state}"))
    return "; ".join(sentences)
