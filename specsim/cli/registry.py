"""The commands: a module of this folder that defines a command of its own name is one.

Sources are read and not imported until a command is run, so that ``specsim --help`` answers at once.
"""

import ast
import importlib
from collections.abc import Iterator
from pathlib import Path

import click

FOLDER = Path(__file__).parent
MARK = "\n@click.command"


def command_texts() -> dict[str, str]:
    """Return what each command says of itself, by its name."""
    return {
        path.stem: text for path in sorted(FOLDER.glob("*.py")) for text in _text_of(path.stem, path.read_text("utf-8"))
    }


def import_command(name: str) -> click.Command | None:
    """Import a command; None if there is none of that name."""
    path = FOLDER / f"{name}.py"
    if not name.isidentifier() or not path.is_file() or MARK not in path.read_text("utf-8"):
        return None
    command = vars(importlib.import_module(f"{__package__}.{name}")).get(name)
    return command if isinstance(command, click.Command) else None


def _text_of(name: str, source: str) -> Iterator[str]:
    """Yield the docstring of the function that a module turns into its command, if it does."""
    if MARK not in source:
        return
    for statement in ast.parse(source).body:
        if isinstance(statement, ast.FunctionDef) and statement.name == name:
            yield ast.get_docstring(statement) or ""
