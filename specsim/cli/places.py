"""Where an operation stands in each layer: files and lines, found in the sources without importing them."""

import ast
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import specsim
from specsim.operations import RECORDS

LAYERS = ("reference", "gpu", "gpu/kernels", "properties/strategies")


@dataclass(frozen=True)
class Place:
    """One definition; ``layer`` is the folder's role."""

    layer: str
    name: str
    path: str
    line: int


def places_of(operation: str) -> list[Place]:
    """Return the record, the function of each layer, and the kernels of an operation."""
    root = Path(specsim.__file__).parent
    table_file = next((root / "operations").rglob(f"{RECORDS[operation].group}.py"))
    places = [Place("table", operation, _shown(table_file), _line_of_record(table_file, operation))]
    for layer in LAYERS:
        for path in _sources(root / layer):
            for name, line in _functions(path):
                if name == operation or (layer == "gpu/kernels" and name.startswith(f"_{operation}_")):
                    places.append(Place(layer, name, _shown(path), line))
    return places


def _sources(folder: Path) -> list[Path]:
    """Return the modules of a layer and of its models' room."""
    return sorted((*folder.glob("*.py"), *folder.glob("models/*.py")))


def _functions(path: Path) -> Iterator[tuple[str, int]]:
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef):
            yield node.name, node.lineno


def _line_of_record(path: Path, operation: str) -> int:
    lines = path.read_text(encoding="utf-8").splitlines()
    return next((number for number, line in enumerate(lines, 1) if f'name="{operation}"' in line), 1)


def _shown(path: Path) -> str:
    resolved = path.resolve()
    return os.path.relpath(resolved) if resolved.is_relative_to(Path.cwd()) else str(resolved)
