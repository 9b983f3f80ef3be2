"""The operations as methods, generic in the array type: what a loaded backend offers, and what a worker receives.

``protocol.pyi``, which ``python -m specsim.operations.derived.stub`` writes from the tables, has the methods.
"""

from typing import Protocol, TypeVar

ArrayT = TypeVar("ArrayT")


class Operations(Protocol[ArrayT]):
    """The public operations."""


class ModelOperations(Protocol[ArrayT]):
    """The operations of the toy models."""
