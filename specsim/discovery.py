"""Find modules where they stand, so that no list of them is written by hand."""

import importlib
from collections.abc import Callable, Collection
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any


def modules_of(package: str, names: Collection[str] | None = None) -> dict[str, ModuleType]:
    """Import the modules of a package and return them by their last name.

    Packages inside it, and modules whose name starts with an underscore, are left out.

    Parameters
    ----------
    package : str
        As in an import; it has been imported, or is being imported.
    names : collection of str or None
        Import only these, those that are there, in this order; by default all, in alphabetical order.
    """
    folders = map(Path, importlib.import_module(package).__path__)
    there = sorted(path.stem for folder in folders for path in folder.glob("*.py") if not path.stem.startswith("_"))
    chosen = there if names is None else [name for name in names if name in there]
    return {name: importlib.import_module(f"{package}.{name}") for name in chosen}


def modules_named(package: str, kind: str) -> dict[str, ModuleType]:
    """Import the modules of one kind inside a package, at any depth, and return them by their whole name.

    Parameters
    ----------
    package : str
        As in an import; it has been imported, or is being imported.
    kind : str
        A module is called so, or so with an underscore and more: ``laws``, ``laws_chains``.
    """
    folders = list(map(Path, importlib.import_module(package).__path__))
    found = sorted(
        path.relative_to(folder).with_suffix("")
        for folder in folders
        for path in folder.rglob("*.py")
        if path.stem == kind or path.stem.startswith(f"{kind}_")
    )
    names = [".".join((package, *path.parts)) for path in found]
    return {name: importlib.import_module(name) for name in names}


@cache
def modules_that_say(constant: str, file: str) -> dict[str, str]:
    """Find the modules of one name inside the packages of specsim that assign a string to a constant.

    The sources are read and not imported, because a package may need what is not installed.

    Returns
    -------
    modules : dict
        Name of the module, as in an import, by what it says.
    """
    import ast

    root = Path(__file__).parent
    found: dict[str, str] = {}
    for path in sorted(root.glob(f"*/{file}.py")):
        for statement in ast.parse(path.read_text(encoding="utf-8")).body:
            match statement:
                case ast.Assign(targets=[ast.Name(id=name)], value=ast.Constant(value=str(value))) if name == constant:
                    found[value] = f"{__package__}.{path.parent.name}.{file}"
    return found


def import_class(path: str) -> Callable[..., Any]:
    """Return the class that ``package.module.Class`` names."""
    module, _, name = path.rpartition(".")
    loaded: Callable[..., Any] = vars(importlib.import_module(module))[name]
    return loaded
