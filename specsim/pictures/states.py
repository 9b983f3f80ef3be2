"""What becomes of a draft or of a slot, and how that looks: lines, corners and marks say it as well as colours."""

from enum import Enum

from specsim.pictures.markup import element, number, text, width_of

ROUND = 17
"""Radius of the ends of a bonus token."""


class State(Enum):
    """What became of a node or an entry; the value is what a legend and a description say."""

    PLAIN = "not compared"
    ACCEPTED = "accepted"
    REJECTED = "rejected"
    BONUS = "bonus token"


LINES: dict[State, tuple[str, dict[str, object]]] = {
    State.PLAIN: ("edge", {}),
    State.ACCEPTED: ("accepted-line", {"stroke_width": 2.5}),
    State.REJECTED: ("rejected-line", {"stroke_dasharray": "5 3"}),
    State.BONUS: ("bonus-line", {"stroke_width": 1.5, "stroke_dasharray": "1.5 3"}),
}
"""What paints the line that leads to a node, and its attributes; those of the box are the same but a bonus token's."""


def box(state: State, width: float, height: float) -> str:
    """Return the box of a state, with its mark in the upper right corner."""
    radius = min(height / 2, ROUND) if state is State.BONUS else 4
    outline = {"stroke_width": 1.5} if state is State.BONUS else LINES[state][1]
    drawn = element("rect", state.name.lower(), width=width, height=height, rx=radius, **outline)
    right = number(width - 13)
    if state is State.ACCEPTED:
        drawn += _stroke(f"M{right},7l3,3.5l5,-7", "accepted-line", 2)
    elif state is State.REJECTED:
        drawn += _stroke(f"M{right},4l6,6m0,-6l-6,6", "rejected-line", 1.5)
    elif state is State.BONUS and height > 2 * ROUND:
        inside = {"x": 3, "y": 3, "width": width - 6, "height": height - 6, "rx": ROUND - 3}
        drawn += element("rect", "bonus-line", stroke_width=0.75, **inside)
    return drawn


def legend(states: frozenset[State]) -> tuple[str, float]:
    """Return what the looks of some states mean, in one row, and the pixels that it is wide."""
    parts, left = [], 0.0
    for state in (one for one in State if one in states):
        parts.append(element("g", "", box(state, 26, 14), transform=f"translate({number(left)},0)"))
        parts.append(text(left + 33, 11, state.value, "faint"))
        left += 33 + width_of(state.value) + 20
    return "".join(parts), max(left - 20, 0.0)


def _stroke(path: str, kind: str, width: float) -> str:
    return element("path", kind, d=path, stroke_width=width, stroke_linecap="round", stroke_linejoin="round")
