"""The page of a document: what all commands have in common, and the templates."""

import os
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

import specsim
from specsim.conformance.plain_text import printable
from specsim.environment import DOCS
from specsim.reports import bench, check, matrix, mutants, soak
from specsim.reports.failures import Laws
from specsim.reports.tables import SIGNS

Document = Mapping[str, Any]

COMMANDS: Mapping[str, Callable[[Document, Laws], dict[str, Any]]] = {
    "check": check.view,
    "mutants": mutants.view,
    "matrix": matrix.view,
    "soak": soak.view,
    "bench": bench.view,
}
"""What a page needs of the document of each command; its template is called so too."""

WITHOUT_RESULTS = frozenset(("verdict", "command", "conclusion", "again", "device", "versions"))
"""The keys of a document where nothing ran."""

PLAIN = {
    "conforms": "Everything that was tried holds.",
    "fails": "Something that has to hold does not.",
    "inconclusive": "Nothing failed, but too little was decided.",
    "nothing selected": "There was nothing to try.",
    "interrupted": "The run was interrupted: what it had found by then is here.",
    "not run": "The run could not start.",
}
"""What each verdict means."""


def render(command: str, document: Document, docs: str = "") -> str:
    """Return the page of a document, as HTML.

    Parameters
    ----------
    command : str
        One of ``COMMANDS``.
    document : mapping
        What ``--json`` of the command prints. Files of cases that it names are read, from the working directory.
    docs : str
        Where the documentation is, with a slash at its end; empty where there is none to link.
    """
    common = {
        "command": command,
        "document": document,
        "verdict": document["verdict"],
        "sign": SIGNS.get(document["verdict"], "·"),
        "meaning": PLAIN.get(document["verdict"], ""),
        "reasons": document.get("inconclusive_because") or document.get("reasons") or [],
        "conclusion": document["conclusion"].removeprefix(f"{document['verdict']}: "),
        "implementation": document.get("implementation", ""),
        "remarks": document.get("remarks", ()),
        "facts": _facts(document),
        "contents": [],
    }
    if document.keys() == WITHOUT_RESULTS:
        return _environment().get_template("base.html.jinja").render(**common)
    own = COMMANDS[command](document, Laws(docs, document.get("statements", {})))
    return _environment().get_template(f"{command}.html.jinja").render(**common, **own)


def _facts(document: Document) -> list[tuple[str, Any]]:
    """Return under which circumstances the command ran, as far as the document says it."""
    module = " ".join(filter(None, (document.get("implementation"), document.get("version"))))
    given = {"module": module, **{name: document.get(name) for name in ("device", "seed", "profile")}}
    facts = [(name, value) for name, value in given.items() if value not in (None, "")]
    return [*facts, *document["versions"].items()]


def docs_beside(folder: Path) -> str:
    """Return where the documentation is for a page in a folder: as ``SPECSIM_DOCS`` says, or that of this checkout."""
    if os.environ.get(DOCS):
        return os.environ[DOCS].rstrip("/") + "/"
    docs = Path(specsim.__file__).resolve().parents[1] / "docs"
    is_here = (docs / "reference" / "laws.md").is_file()
    return f"{Path(os.path.relpath(docs, folder.resolve())).as_posix()}/" if is_here else ""


@cache
def _environment() -> Environment:
    # NOTE: everything is escaped, since names, messages and case files are a stranger's; a name that a template
    # misspells is an error and not a gap.
    return Environment(
        loader=PackageLoader("specsim.reports"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_shown,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _shown(value: Any) -> Any:
    """Return text in characters that neither turn the line around nor end the page."""
    return printable(value) if type(value) is str else value
