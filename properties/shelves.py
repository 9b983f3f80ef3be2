"""Where laws, faults and what they draw stand: a package for each subject, a module for each kind."""

from types import ModuleType

from specsim.discovery import modules_named

SHELVES = ("operations", "host", "memory", "runs")
"""Packages of specsim.properties: operations, host functions, memory without an engine, whole runs."""


def modules_of_kind(kind: str) -> dict[str, ModuleType]:
    """Import the modules of one kind on every shelf and return them by their name.

    Parameters
    ----------
    kind : {"strategy", "laws", "faults"}
        The kind; a module is called so, or so with an underscore and what it is about.
    """
    found: dict[str, ModuleType] = {}
    for shelf in SHELVES:
        found |= modules_named(f"{__package__}.{shelf}", kind)
    return found
