"""The second table: operations of the toy models, whose every logit is an exact integer."""

from specsim.operations.models import forwards, heads
from specsim.operations.record import Operation

MODEL_TABLE: dict[str, Operation] = {
    operation.name: operation for group in (forwards, heads) for operation in group.OPERATIONS
}
"""Every operation of the toy models, in pipeline order."""

__all__ = ["MODEL_TABLE"]
