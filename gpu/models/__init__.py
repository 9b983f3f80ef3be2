"""The toy models' operations on the device, and the models that they make up."""

import torch

from specsim.gpu.arrays import DEVICE
from specsim.gpu.models.toy_model import ToyModel
from specsim.simulation.models.ground_truth import LanguageModel

__all__ = ["ToyModel", "load_model"]


def load_model(language_model: LanguageModel, device: torch.device = DEVICE) -> ToyModel:
    """Return a toy model that the device's worker can run, its tables on the device."""
    return ToyModel(language_model, device)
