"""What an operation with several outputs returns: a named tuple of its own, generic in the array type.

The classes follow from the table, each made when it is first asked for; ``outputs.pyi``, which
``python -m specsim.operations.derived.stub`` writes, names them for editors and type checkers.
"""

from collections import namedtuple
from functools import cache
from types import GenericAlias
from typing import Any

from specsim.operations import RECORDS
from specsim.operations.derived.signature import outputs_class_of

_OPERATIONS = {outputs_class_of(one): one for one in RECORDS.values() if len(one.contract.outputs) > 1}


@cache
def outputs_of(operation: str) -> Any:
    """Return the class of an operation with several outputs."""
    name = outputs_class_of(RECORDS[operation])
    outputs = namedtuple(name, [spec.name for spec in RECORDS[operation].contract.outputs], module=__name__)
    outputs.__doc__ = f"What ``{operation}`` returns."
    outputs.__class_getitem__ = classmethod(GenericAlias)
    return outputs


def __getattr__(name: str) -> Any:
    if name not in _OPERATIONS:
        raise AttributeError(f"module {__name__} has no attribute {name}")
    return outputs_of(_OPERATIONS[name].name)


def __dir__() -> list[str]:
    return [*globals(), *_OPERATIONS]
