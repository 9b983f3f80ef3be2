"""Tables of text: a heading above each column, a rule below the headings."""

from collections.abc import Sequence

from specsim.pictures.frame import Panel, draw_panels
from specsim.pictures.markup import FONT_SIZE, LINE, element, number, shown, text, width_of

BETWEEN_COLUMNS = 20
"""Pixels between two columns."""


def draw_table(headings: Sequence[str], rows: Sequence[Sequence[str]], title: str, *, prefix: str = "") -> str:
    """Return a table as a document of SVG.

    Parameters
    ----------
    headings : sequence of str
        What stands above the columns.
    rows : sequence of sequence of str
        As many cells a row as there are headings.
    title : str
        Drawn above.
    prefix : str
        As for ``draw_panels``.
    """
    return draw_panels([table_panel(headings, rows)], title, prefix=prefix)


def table_panel(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> Panel:
    """Return a table as a panel."""
    columns = [[heading, *(row[place] for row in rows)] for place, heading in enumerate(headings)]
    parts, left, words = [], 0.0, []
    height = LINE * (len(rows) + 1) + 8
    for column in columns:
        parts.append(text(left, FONT_SIZE, column[0], "faint"))
        for place, cell in enumerate(column[1:], 1):
            parts.append(text(left, LINE * place + FONT_SIZE + 6, cell))
        left += max(map(width_of, column)) + BETWEEN_COLUMNS
    width = max(left - BETWEEN_COLUMNS, 0.0)
    parts.append(element("path", "rule", d=f"M0,{LINE + 2.5}H{number(width)}"))
    for row in rows:
        words.append(" ".join(shown(cell) for cell in row if cell))
    return Panel(width, height, "".join(parts), "; ".join(words))
