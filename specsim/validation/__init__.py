"""Structural rules of an operation's input that bounds cannot express, each named like its operation.

The arguments have already passed the shape, dtype and bound checks of the table.
"""

from specsim.operations import RECORDS
from specsim.validation import acceptance, attention, draft, extend, forwards, probabilities, slots, verify
from specsim.validation.common import Arguments

__all__ = ["STRUCTURE", "check_structure"]

STRUCTURE = {
    name: vars(module)[name]
    for module in (draft, verify, attention, probabilities, acceptance, slots, extend, forwards)
    for name in RECORDS
    if name in vars(module)
}
"""The rule of each operation that has one."""


def check_structure(name: str, arguments: Arguments, axes: Arguments) -> None:
    """Check the structural rules of an operation, if it has any."""
    if name in STRUCTURE:
        STRUCTURE[name](arguments, axes)
