"""Fractions as the live page writes and reads them."""

from collections.abc import Iterable, Mapping
from fractions import Fraction
from html import escape
from typing import Any

from specsim.properties.distribution import Outcome

Table = dict[str, Any]


def in_words(outcome: Iterable[int]) -> str:
    """Return tokens with spaces between them."""
    return " ".join(map(str, outcome))


def law_in_words(law: Mapping[Outcome, Fraction]) -> dict[str, str]:
    """Return the fractions of a law by its outputs, in order; impossible ones are left out."""
    return {in_words(output): str(law[output]) for output in sorted(law) if law[output]}


def headline(figure: Fraction) -> dict[str, str | float]:
    """Return a figure as the fraction that it is, and as a number that people compare."""
    return {"exact": str(figure), "about": float(figure)}


def html_table(caption: str, header: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Return a table whose first column names the rows; 0 stands back, so that what is off is seen."""
    head = "".join(f'<th scope="col">{escape(one)}</th>' for one in header)
    lines = [f"<table><caption>{escape(caption)}</caption><thead><tr>{head}</tr></thead><tbody>"]
    for name, *cells in rows:
        figures = "".join(f'<td class="{"zero" if one == "0" else "off"}">{escape(one)}</td>' for one in cells)
        lines.append(f'<tr><th scope="row">{escape(name)}</th>{figures}</tr>')
    return "\n".join([*lines, "</tbody></table>"])
