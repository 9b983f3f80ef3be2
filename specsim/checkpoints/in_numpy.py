"""A model on torch tensors as a model on NumPy arrays: the memory is the same, so what it writes is written."""

from dataclasses import fields, is_dataclass, replace
from typing import Any

import numpy as np
import torch


def mapped(value: Any, convert: Any) -> Any:
    """Return the value with every array of nested containers and dataclasses converted."""
    if isinstance(value, dict):
        return {name: mapped(one, convert) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(mapped(one, convert) for one in value)
    if is_dataclass(value) and not isinstance(value, type):
        return replace(value, **{field.name: mapped(getattr(value, field.name), convert) for field in fields(value)})
    return convert(value) if isinstance(value, np.ndarray | torch.Tensor) else value


class InNumpy:
    """The adapter, whatever the model."""

    def __init__(self, model: Any) -> None:
        self.model = model
        self.description = replace(model.description, arrays="numpy")

    def _run(self, forward: Any, *arguments: Any) -> Any:
        return mapped(forward(*(mapped(one, torch.from_numpy) for one in arguments)), torch.Tensor.numpy)

    def prefill(self, *arguments: Any) -> Any:
        """Run chunks of prompts."""
        return self._run(self.model.prefill, *arguments)

    def verify(self, *arguments: Any) -> Any:
        """Run one tree a request."""
        return self._run(self.model.verify, *arguments)

    def draft_step(self, *arguments: Any) -> Any:
        """Run the draft over one token a beam."""
        return self._run(self.model.draft_step, *arguments)

    def draft_extend(self, *arguments: Any) -> Any:
        """Run the draft over what it has to catch up with."""
        return self._run(self.model.draft_extend, *arguments)
