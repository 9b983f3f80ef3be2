"""The table of the page about mutants that says who dies latest, from the record of kills.

``python -m specsim.properties.suite.hunt.page tests/properties/mutants/kills.json docs/mutants.md`` writes it.
"""

import sys
from pathlib import Path

from specsim.properties.suite.hunt.kills import Kills, read_kills

START = "<!-- latest: begin, written by python -m specsim.properties.suite.hunt.page -->"
END = "<!-- latest: end -->"
SHOWN = 12
"""Mutants of the table."""


def page(text: str, kills: Kills) -> str:
    """Return the page with its table as the record is."""
    before, _, rest = text.partition(START)
    _, _, after = rest.partition(END)
    return "\n".join([f"{before}{START}", *_lines(kills), f"{END}{after}"])


def _lines(kills: Kills) -> list[str]:
    latest = sorted(kills.rows.items(), key=lambda entry: (-entry[1].median, entry[0]))[:SHOWN]
    rows = [
        f"| `{mutant}` | {row.median:g} | {max(one or 0 for one in row.examples)} | `{row.killers[0]}` |"
        for mutant, row in latest
    ]
    return ["| mutant | median | latest | surest killer |", "|---|---|---|---|", *rows]


if __name__ == "__main__":
    record, place = map(Path, sys.argv[1:])
    place.write_text(page(place.read_text(encoding="utf-8"), read_kills(record)), encoding="utf-8")
