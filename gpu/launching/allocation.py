"""Fresh memory for outputs and scratch, by the shortest way that torch offers."""

from collections.abc import Callable, Mapping
from typing import Any

import torch

Allocate = Callable[[tuple[int, ...], tuple[int, ...], torch.dtype], torch.Tensor]
"""Takes sizes, strides and element type; allocates on the current device."""

_ALLOCATORS = {"cuda": "_empty_strided_cuda", "cpu": "_empty_strided_cpu"}


def allocator_of(device: torch.device) -> Allocate:
    """Return what allocates on a device while that is the current one.

    It is what code that torch compiles calls, two microseconds shorter than ``torch.empty``; where this version has no
    such function it is ``torch.empty_strided``.
    """
    found: Allocate | None = _functions().get(_ALLOCATORS.get(device.type, ""))
    if found is None:
        return lambda shape, strides, dtype: torch.empty_strided(shape, strides, dtype=dtype, device=device)
    return found


def _functions() -> Mapping[str, Any]:
    """Return the functions that compiled code calls; they have no public name, and need not be there."""
    try:
        return vars(torch._C._dynamo.guards)
    except AttributeError:
        return {}


def allocate_bytes(allocate: Allocate, count: int) -> torch.Tensor:
    """Return so many bytes."""
    return allocate((count,), (1,), torch.uint8)
