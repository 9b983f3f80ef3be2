"""The document around drawings: panels one below another, under one title and with a description in words."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from specsim.pictures.markup import CLASS, FONT, FONT_SIZE, LINE, element, number, quoted, shown, style, text, width_of
from specsim.pictures.states import State, legend

MARGIN, GAP = 16, 18
"""Pixels around everything, and between two panels."""

LONGEST_WORDS = 1 << 14
"""Characters of a description."""


@dataclass(frozen=True)
class Panel:
    """A drawing whose upper left corner is the origin.

    Parameters
    ----------
    width, height : float
        Pixels that it takes.
    markup : str
        Its elements.
    words : str
        The same in words.
    states : frozenset of State
        What a legend has to explain.
    """

    width: float
    height: float
    markup: str
    words: str
    states: frozenset[State] = frozenset()


def text_panel(lines: Sequence[str], kind: str = "ink", weight: str = "normal") -> Panel:
    """Return lines of text as a panel."""
    markup = "".join(
        text(0, LINE * place + FONT_SIZE, line, kind, **({} if weight == "normal" else {"font_weight": weight}))
        for place, line in enumerate(lines)
    )
    width = max(map(width_of, lines), default=0.0)
    return Panel(width, LINE * len(lines), markup, ". ".join(map(shown, lines)))


def stacked(panels: Sequence[Panel], gap: float = GAP) -> Panel:
    """Return panels one below another as one."""
    parts, top = [], 0.0
    for panel in panels:
        parts.append(moved(panel.markup, 0, top))
        top += panel.height + gap
    height = top - gap if panels else 0.0
    words = " ".join(f"{panel.words.rstrip('.')}." for panel in panels if panel.words)
    states = frozenset[State]().union(*(panel.states for panel in panels))
    return Panel(max((panel.width for panel in panels), default=0.0), height, "".join(parts), words, states)


def moved(markup: str, x: float, y: float) -> str:
    """Return elements moved to the right and down."""
    if not x and not y:
        return markup
    return element("g", "", markup, transform=f"translate({number(x)},{number(y)})")


def draw_panels(panels: Sequence[Panel], title: str, *, prefix: str = "") -> str:
    """Return a document of SVG: the title, what states look like if there are any, and panels one below another.

    Parameters
    ----------
    title : str
        Drawn above, and the name that screen readers say; the description is the words of the panels.
    prefix : str
        What ids of title and description begin with, one of its own for each picture of a page; no ids if empty.
    """
    head = [text_panel([title], weight="bold")]
    states = stacked(panels).states
    if states - {State.PLAIN}:
        markup, width = legend(states)
        head.append(Panel(width, LINE, markup, ""))
    whole = stacked([*head, *panels])
    width, height = whole.width + 2 * MARGIN, whole.height + 2 * MARGIN
    words = whole.words if len(whole.words) <= LONGEST_WORDS else whole.words[:LONGEST_WORDS] + " …"
    marks = ("", "")
    labelled = ""
    if prefix:
        ids = [f"{prefix}{part}" for part in ("title", "desc")]
        labelled = f" aria-labelledby={quoted(' '.join(ids))}"
        marks = tuple(f" id={quoted(one)}" for one in ids)  # type: ignore[assignment]
    size = (number(width), number(height))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="{CLASS}" role="img"{labelled} width="{size[0]}"'
        f' height="{size[1]}" viewBox="0 0 {size[0]} {size[1]}" font-family={quoted(FONT)}'
        f' font-size="{FONT_SIZE}">'
        f"<title{marks[0]}>{escape(shown(title))}</title><desc{marks[1]}>{escape(words)}</desc>{style()}"
        + element("rect", "ground", width=width, height=height)
        + moved(whole.markup, MARGIN, MARGIN)
        + "</svg>\n"
    )
