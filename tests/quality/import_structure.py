"""The import structure as a Mermaid diagram.

``python tests/quality/import_structure.py`` prints it, ``--write`` brings the page of the architecture up to it.
Rooms and floors come from the import contracts in ``pyproject.toml``, arrows from the imports in the sources.
An arrow that follows from others is left out.
"""

import ast
import sys
import tomllib
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "architecture.md"
START, END = "<!-- import structure: begin -->", "<!-- import structure: end -->"


def floors():
    """Return the rooms of each floor, the top one first."""
    configuration = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = configuration["tool"]["importlinter"]["contracts"]
    layers = next(contract for contract in contracts if contract["type"] == "layers")["layers"]
    return [[room.strip(" ()") for room in layer.replace(":", "|").split("|")] for layer in layers]


def imports():
    """Return the rooms that each room imports, itself left out; imports inside functions count."""
    rooms = {room for floor in floors() for room in floor}
    found = {room: set() for room in rooms}
    for path, names in names_imported().items():
        room = path.relative_to(ROOT).parts[0]
        if room == "specsim":
            room = path.relative_to(ROOT / "specsim").parts[0].removesuffix(".py")
        if room not in rooms:
            continue
        found[room] |= {name for name in names if name in rooms and name != room}
    return found


@cache
def names_imported():
    """Return the first names below ``specsim`` that each source file imports."""
    trees = {path: ast.parse(path.read_text(encoding="utf-8")) for path in sources()}
    return {path: {name for node in ast.walk(tree) for name in imported(node)} for path, tree in trees.items()}


def sources():
    """Return every source file, each once."""
    folders = ("specsim", "reference", "gpu", "properties")
    return sorted({path.resolve() for folder in folders for path in (ROOT / folder).rglob("*.py")})


def imported(node):
    """Yield the first name below ``specsim`` of everything that a node imports."""
    if isinstance(node, ast.Import):
        for alias in node.names:
            package, _, rest = alias.name.partition(".")
            if package == "specsim" and rest:
                yield rest.split(".")[0]
    if isinstance(node, ast.ImportFrom) and node.module is not None:
        package, _, rest = node.module.partition(".")
        if package == "specsim":
            yield from [rest.split(".")[0]] if rest else [alias.name for alias in node.names]


def reduced(arrows):
    """Return the arrows without those that a longer way implies."""

    def reachable(room):
        return arrows[room] | {below for other in arrows[room] for below in reachable(other)}

    return {
        room: {
            below for below in arrows[room] if not any(below in reachable(other) for other in arrows[room] - {below})
        }
        for room in arrows
    }


def upward(arrows):
    """Return every arrow that does not lead to a lower floor."""
    floor_of = {room: number for number, floor in enumerate(floors()) for room in floor}
    return sorted((room, below) for room in arrows for below in arrows[room] if floor_of[below] <= floor_of[room])


def diagram():
    """Return the diagram, floors from the top."""
    arrows = imports()
    lines = ["```mermaid", "flowchart TB"]
    for number, floor in enumerate(floors()):
        lines.append(f'    subgraph floor{number}[" "]')
        lines += [f"        {node(room)}[{room}]" for room in floor]
        lines.append("    end")
    for room, belows in sorted(reduced(arrows).items()):
        lines += [f"    {node(room)} --> {node(below)}" for below in sorted(belows)]
    return "\n".join([*lines, "```"])


def node(room):
    """Return a name that Mermaid takes."""
    return room.strip("_") or room


def page():
    """Return the page with today's diagram between its two marks."""
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(START)
    after = rest.partition(END)[2]
    return f"{before}{START}\n{diagram()}\n{END}{after}"


if __name__ == "__main__":
    if "--write" in sys.argv[1:]:
        PAGE.write_text(page(), encoding="utf-8")
    else:
        print(diagram())
