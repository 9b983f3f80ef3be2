"""The second table: operations of the toy models, whose every logit is an exact integer."""

from specsim import discovery
from specsim.operations.record import Operation

MODEL_GROUPS = ("forwards", "frozen_forwards", "heads")
"""The groups in pipeline order."""

MODEL_TABLE: dict[str, Operation] = {
    operation.name: operation
    for group in discovery.modules_of(__name__, MODEL_GROUPS).values()
    for operation in group.OPERATIONS
}
"""Every operation of the toy models."""

__all__ = ["MODEL_GROUPS", "MODEL_TABLE"]
