"""Structural rules of an operation's input that bounds cannot express, each named like its operation.

The arguments have already passed the shape, dtype and bound checks of the table.
"""

from specsim.discovery import modules_of
from specsim.operations import ALL_GROUPS, RECORDS
from specsim.validation.common import Arguments

__all__ = ["STRUCTURE", "check_structure"]

STRUCTURE = {
    name: vars(module)[name]
    for module in modules_of(__name__, ALL_GROUPS).values()
    for name in RECORDS
    if name in vars(module)
}
"""The rule of each operation that has one."""


def check_structure(name: str, arguments: Arguments, axes: Arguments) -> None:
    """Check the structural rules of an operation, if it has any."""
    if name in STRUCTURE:
        STRUCTURE[name](arguments, axes)
