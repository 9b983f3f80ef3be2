"""The page of host functions: ``python -m specsim.conformance.page`` prints ``docs/host-functions.md``."""

import inspect
import re

from specsim.assertion import require_present
from specsim.conformance.binding import asked_by
from specsim.conformance.catalogue import CATALOGUE, Entry, Kind, names_of

HEADER = """# Host functions

Rules, figures, stops and hand-overs: functions that run on the host, beside the [operations](semantics.md);
`python -m specsim.conformance.page` prints this page. A module that is checked may define functions of these names, and
the laws then hold of its own; `specsim.load("package.module")` calls them like operations. What is marked "conformance
only" is there for engines that are checked: nothing in specsim runs it. In a run an engine calls what the module
brings of stops, scheduling and memory wherever it calls any, also from inside of another function of ours.
"""
PARTS = """## Parts of an engine

Classes and functions that our engine is built from. A module that is checked may define its own, or name the module
where they stand, `PARTS = "package.module"`; what the classes have to offer says
[`specsim.simulation.memory.protocols`](../specsim/simulation/memory/protocols.py).
"""
QUALIFIER = re.compile(r"\b(?:\w+\.)+(?=\w)")
ARRAY = re.compile(r"ndarray\[tuple\[Any, \.\.\.\], dtype\[(\w+)\]\]")
WIDTH = 100


def page() -> str:
    """Return the page."""
    parts = [HEADER]
    entries = [CATALOGUE[name] for name in names_of(Kind.HOST_FUNCTION)]
    for group in dict.fromkeys(entry.group for entry in entries):
        parts.append(f"## {group}\n")
        parts += [section(entry) for entry in entries if entry.group == group]
    parts.append(PARTS)
    parts += [section(CATALOGUE[name]) for name in names_of(Kind.PART)]
    return "\n".join(parts)


def section(entry: Entry) -> str:
    """Return the section of one host function."""
    mark = " Conformance only." if entry.is_conformance_only else ""
    mark += f" Not asked for in runs: {entry.outside_runs}." if entry.outside_runs and not mark else ""
    head = f"### `{entry.name}`\n\n{summary_of(entry)} Source: {entry.source}.{mark}"
    return f"{head}\n\n```python\n{signature_of(entry)}\n```\n"


def summary_of(entry: Entry) -> str:
    """Return the first line of what the function says of itself."""
    return (inspect.getdoc(entry.on_host) or "").partition("\n")[0]


def signature_of(entry: Entry) -> str:
    """Return the head of the function, types without their modules, over several lines where one is too long.

    Without what ours takes to call others of the catalogue, which no one else's has to take.
    """
    function = require_present("function", entry.on_host)
    signature = inspect.signature(function)
    asked = asked_by(entry.name)
    parameters = [_spelt(str(one)) for name, one in signature.parameters.items() if name not in asked]
    head, tail = f"class {entry.name}", ""
    if not inspect.isclass(function):
        head, tail = f"def {entry.name}", f" -> {_spelt(inspect.formatannotation(signature.return_annotation))}"
    line = f"{head}({', '.join(parameters)}){tail}"
    if len(line) <= WIDTH:
        return line
    lines = "".join(f"    {parameter},\n" for parameter in parameters)
    return f"{head}(\n{lines}){tail}"


def _spelt(annotation: str) -> str:
    return ARRAY.sub(r"NDArray[\1]", QUALIFIER.sub("", annotation))


if __name__ == "__main__":
    print(page(), end="")
