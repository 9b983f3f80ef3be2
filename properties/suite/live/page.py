"""The live page: tables that the suite computes, written into a page whose script computes them anew."""

import json
import re
from functools import cache
from pathlib import Path

from specsim.properties.suite.live import schedulers, streams, trees
from specsim.properties.suite.live.figures import Table

EXHIBITS = {"trees": trees, "schedules": schedulers, "streams": streams}
STYLE, SCRIPTS = "live.css", "*.js"
THREAD = re.compile(r"^\| `(\w+)` \| [^|]+ \| ([\w./-]+) #(\d+) \|$", re.MULTILINE)
"""How the page of mutants names the thread of a real fault."""


@cache
def tables() -> Table:
    """Return the tables of all exhibits."""
    return {name: module.table() for name, module in EXHIBITS.items()}


def page(source: Path, template: str, mutants_page: str) -> str:
    """Return the page as one document that loads nothing.

    Parameters
    ----------
    source : Path
        The folder with the template, its style and its scripts.
    template : str
        The template's name.
    mutants_page : str
        The page of mutants, which names the thread of each real fault.
    """
    threads = {number: [repository, thread] for number, repository, thread in THREAD.findall(mutants_page)}
    known = {number: threads[number] for number in trees.FAULTS if number in threads}
    document = json.dumps({**tables(), "threads": known}, separators=(",", ":")).replace("<", "\\u003c")
    parts = {f"table of {name}": module.html(tables()[name]) for name, module in EXHIBITS.items()}
    parts["style"] = (source / STYLE).read_text(encoding="utf-8")
    parts["script"] = "\n".join(path.read_text(encoding="utf-8") for path in sorted(source.glob(SCRIPTS)))
    parts["tables"] = document
    text = (source / template).read_text(encoding="utf-8")
    return re.sub(r"<!-- (table of \w+) -->|/\* (\w+) \*/", lambda mark: parts[mark[1] or mark[2]], text)
