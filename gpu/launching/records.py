"""What is launched under which contract: the table's operations, and what a worker launches in the place of several."""

from collections import namedtuple
from functools import cache
from typing import Any

from specsim.operations import RECORDS
from specsim.operations.derived.signature import outputs_class_of
from specsim.operations.outputs import outputs_of
from specsim.operations.record import Operation

FUSED: dict[str, Operation] = {}
"""What workers launch in the place of several operations, by name; ``specsim.gpu.worker`` fills it."""


def record_of(name: str) -> Operation:
    """Return the record of an operation, or of what is launched in the place of several."""
    return RECORDS[name] if name in RECORDS else FUSED[name]


@cache
def outputs_class(name: str) -> Any:
    """Return the class of what is returned where there are several outputs."""
    if name in RECORDS:
        return outputs_of(name)
    return namedtuple(outputs_class_of(FUSED[name]), [spec.name for spec in FUSED[name].contract.outputs])
