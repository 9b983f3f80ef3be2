"""The oracle: NumPy, loops, one request at a time. Import it as ``specsim.reference``."""

if __name__ != "specsim.reference":
    raise ImportError(f"import this package as specsim.reference, not as {__name__}")

from typing import TYPE_CHECKING

from specsim.reference import exports
from specsim.reference.exports import *  # noqa: F403

HOST = "specsim.conformance.catalogue"
PARTS = "specsim.simulation.parts"
REJECTS = True

if TYPE_CHECKING:
    from specsim.conformance.arrays import Array
    from specsim.operations.protocol import ModelOperations, Operations

    # NOTE: type checkers compare the signatures of all functions with the tables here.
    _OPERATIONS: Operations[Array] = exports
    _MODEL_OPERATIONS: ModelOperations[Array] = exports

__all__ = ["HOST", "PARTS", "REJECTS"]
__all__ += exports.__all__
