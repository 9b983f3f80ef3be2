"""Where a callable stands in each layer: files and lines; layers are read and not imported."""

import ast
import inspect
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import specsim
from specsim.conformance.catalogue import Entry
from specsim.operations.without_coins import SUFFIX

LAYERS = ("reference", "gpu", "gpu/kernels", "properties/strategies")


@dataclass(frozen=True)
class Place:
    """One definition; ``layer`` is the folder's role."""

    layer: str
    name: str
    path: str
    line: int


def places_of(entry: Entry) -> list[Place]:
    """Return the record, the function of each layer, and the kernels of an operation; or where a host function is.

    A sampler without coins has the record of the operation that it is a form of.
    """
    root = Path(specsim.__file__).parent
    if entry.on_host is not None:
        path = Path(inspect.getfile(entry.on_host))
        return [Place("host", entry.name, _shown(path), inspect.getsourcelines(entry.on_host)[1])]
    operation = entry.name.removesuffix(SUFFIX)
    table_file = next((root / "operations").rglob(f"{entry.group}.py"))
    places = [Place("table", operation, _shown(table_file), _line_of_record(table_file, operation))]
    for layer in LAYERS if entry.name == operation else ():
        for path in _sources(root / layer):
            for name, line in _functions(path, operation):
                if name == operation or (layer == "gpu/kernels" and name.startswith(f"_{operation}_")):
                    places.append(Place(layer, name, _shown(path), line))
    return places


def _sources(folder: Path) -> list[Path]:
    """Return the modules of a layer and of its models' room."""
    return sorted((*folder.glob("*.py"), *folder.glob("models/*.py")))


def _functions(path: Path, word: str) -> Iterator[tuple[str, int]]:
    """Yield the functions of a module that mentions a word, and their lines; to parse every module would take long."""
    text = path.read_text(encoding="utf-8")
    for node in ast.parse(text).body if word in text else ():
        if isinstance(node, ast.FunctionDef):
            yield node.name, node.lineno


def _line_of_record(path: Path, operation: str) -> int:
    lines = path.read_text(encoding="utf-8").splitlines()
    return next((number for number, line in enumerate(lines, 1) if f'name="{operation}"' in line), 1)


def _shown(path: Path) -> str:
    resolved = path.resolve()
    return os.path.relpath(resolved) if resolved.is_relative_to(Path.cwd()) else str(resolved)
