"""Structural rules of an operation's input that bounds cannot express, one module a group.

The arguments have already passed the shape, dtype and bound checks of the table.
"""

from specsim.discovery import modules_of
from specsim.operations import ALL_GROUPS
from specsim.validation.rule import Arguments, Rule

__all__ = ["STRUCTURE", "check_structure"]

STRUCTURE: dict[str, tuple[Rule, ...]] = {
    name: rules for module in modules_of(__name__, ALL_GROUPS).values() for name, rules in vars(module)["RULES"].items()
}
"""The rules of each operation that has any, in the order in which they are checked."""


def check_structure(name: str, arguments: Arguments, axes: Arguments) -> None:
    """Check the structural rules of an operation, if it has any."""
    for one in STRUCTURE.get(name, ()):
        one.check(arguments, axes)
