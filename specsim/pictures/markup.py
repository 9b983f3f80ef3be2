"""Elements of SVG as text: escaped, with the colours of light pages as attributes and those of dark ones in a style."""

import unicodedata
from collections.abc import Mapping
from html import escape

FONT = "ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono','Liberation Mono',monospace"
"""Fonts of one width, so that the room that a text takes is known where nothing measures it."""

FONT_SIZE, CHARACTER, LINE = 12, 7.3, 16
"""Pixels: the height of letters, the width of one, and from one line to the next."""

LONGEST = 120
"""Characters of a text that are drawn; more are cut."""

PAINT = {
    "ground": ({"fill": "#ffffff"}, {"fill": "#0d1117"}),
    "ink": ({"fill": "#1f2328"}, {"fill": "#e6edf3"}),
    "faint": ({"fill": "#59636e"}, {"fill": "#9198a1"}),
    "edge": ({"fill": "none", "stroke": "#818b98"}, {"stroke": "#6e7681"}),
    "rule": ({"fill": "none", "stroke": "#d1d9e0"}, {"stroke": "#30363d"}),
    "plain": ({"fill": "#f6f8fa", "stroke": "#818b98"}, {"fill": "#161b22", "stroke": "#8b949e"}),
    "accepted": ({"fill": "#d8f5df", "stroke": "#1a7f37"}, {"fill": "#11331c", "stroke": "#3fb950"}),
    "rejected": ({"fill": "#ffebe9", "stroke": "#cf222e"}, {"fill": "#3a1618", "stroke": "#f85149"}),
    "bonus": ({"fill": "#ddf4ff", "stroke": "#0969da"}, {"fill": "#0f2942", "stroke": "#58a6ff"}),
    "prefill": ({"fill": "#f3eafe", "stroke": "#8250df"}, {"fill": "#2a1e45", "stroke": "#a475f9"}),
    "accepted-line": ({"fill": "none", "stroke": "#1a7f37"}, {"stroke": "#3fb950"}),
    "rejected-line": ({"fill": "none", "stroke": "#cf222e"}, {"stroke": "#f85149"}),
    "bonus-line": ({"fill": "none", "stroke": "#0969da"}, {"stroke": "#58a6ff"}),
}
"""What each kind of element is painted with: attributes of light pages, and what changes on dark ones."""

CLASS = "specsim-picture"


def style() -> str:
    """Return the style that repaints every picture where the reader prefers dark pages."""
    rules = "".join(
        f".{CLASS} .s-{kind}{{{';'.join(f'{name}:{value}' for name, value in dark.items())}}}"
        for kind, (_, dark) in PAINT.items()
    )
    return f"<style>@media (prefers-color-scheme:dark){{{rules}}}</style>"


def element(tag: str, kind: str = "", content: str | None = None, /, **attributes: object) -> str:
    """Return an element; underscores in names of attributes stand for hyphens.

    Parameters
    ----------
    kind : str
        What paints it, a key of ``PAINT``; nothing paints it if empty.
    content : str or None
        Markup inside.
    """
    painted: Mapping[str, object] = {"class": f"s-{kind}", **PAINT[kind][0]} if kind else {}
    given = {name.replace("_", "-"): value for name, value in attributes.items()}
    words = "".join(f" {name}={quoted(number(value))}" for name, value in {**painted, **given}.items())
    return f"<{tag}{words}/>" if content is None else f"<{tag}{words}>{content}</{tag}>"


def quoted(value: str) -> str:
    """Return a value of an attribute in its quotes."""
    return f'"{escape(value)}"'


def number(value: object) -> str:
    """Return a value of an attribute; numbers have at most two decimals."""
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)


def text(x: float, y: float, words: str, kind: str = "ink", **attributes: object) -> str:
    """Return a line of text whose baseline begins at a point, nothing of no words."""
    return words and element("text", kind, escape(shown(words)), x=x, y=y, **attributes)


def shown(words: str, most: int = LONGEST) -> str:
    """Return text in one line of printable characters, cut; every other one is written as in a literal of Python."""
    cut = words if len(words) <= most else words[:most] + " …"
    if cut.isprintable():
        return cut
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in cut)


def width_of(words: str) -> float:
    """Return the pixels that a line of text takes, as drawn."""
    return sum(_columns(one) for one in shown(words)) * CHARACTER


def _columns(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 1 if character.isascii() or unicodedata.east_asian_width(character) in ("N", "Na", "H", "A") else 2
