"""Filters of engines that take logits, as operations that take and return probabilities."""

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

Filter = Callable[["torch.Tensor"], "torch.Tensor"]
"""Returns logits of which those that are left out are -inf."""


def renormalised(probabilities: "torch.Tensor", keep: Filter) -> "torch.Tensor":
    """Return the softmax of what a filter keeps of the logarithms of probabilities."""
    return keep(probabilities.log()).softmax(dim=-1)


def renormalised_by_row(
    probabilities: "torch.Tensor", settings: "torch.Tensor", filter_of: "Callable[[float], Filter]"
) -> "torch.Tensor":
    """Do the same with a filter for each row, of an engine whose filters have one setting for a whole batch."""
    import torch

    pairs = zip(probabilities[:, None].unbind(), settings.tolist(), strict=True)
    rows = [renormalised(row, filter_of(setting)) for row, setting in pairs]
    return torch.cat(rows) if rows else probabilities.clone()
