"""The toy models' operations in NumPy, and the models that they make up."""

from specsim.conformance.arrays import Array
from specsim.conformance.direct import oracle
from specsim.operations.protocol import ModelOperations
from specsim.reference.models.toy_model import ToyModel
from specsim.simulation.models.ground_truth import LanguageModel

__all__ = ["ToyModel", "load_model"]


def load_model(language_model: LanguageModel, operations: ModelOperations[Array] | None = None) -> ToyModel:
    """Return a toy model that a NumPy worker can run.

    ``operations`` computes it, and reads everything in every forward. Without them the oracle does, and keeps what it
    has read where the worker says that it may.
    """
    return ToyModel(language_model, operations or oracle(), may_keep=operations is None)
