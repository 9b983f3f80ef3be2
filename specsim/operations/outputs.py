"""What an operation with several outputs returns: a named tuple of its own, generic in the array type.

The classes follow from the table; ``outputs.pyi``, which ``python -m specsim.operations.stub`` writes, names them for
editors and type checkers.
"""

from collections import namedtuple
from types import GenericAlias
from typing import Any

from specsim.operations import RECORDS
from specsim.operations.record import Operation
from specsim.operations.signature import outputs_class_of


def _named_tuple(operation: Operation) -> Any:
    name = outputs_class_of(operation)
    outputs = namedtuple(name, [spec.name for spec in operation.contract.outputs], module=__name__)  # type: ignore[misc]
    outputs.__doc__ = f"What ``{operation.name}`` returns."
    outputs.__class_getitem__ = classmethod(GenericAlias)  # type: ignore[attr-defined]
    return outputs


OUTPUTS = {name: _named_tuple(record) for name, record in RECORDS.items() if len(record.contract.outputs) > 1}
"""The class of each operation that has several outputs, by the operation's name."""

globals().update({outputs.__name__: outputs for outputs in OUTPUTS.values()})
