"""What crosses between host and device inside an iteration: up without waiting, down in one copy."""

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from specsim.gpu.arrays import DEVICE, to_numpy
from specsim.phases import DflashDraftInput, Phase

_ALIGNMENT = 16
"""Numbers of 8 bytes between the starts of two arrays, so that each lies as a fresh one would."""


def upload(arrays: Sequence[Any], device: torch.device) -> tuple[Tensor, ...]:
    """Bring integer arrays of the host to the device in one copy that no one waits for.

    Returns
    -------
    uploaded : tuple of Tensor
        One int64 [number] an array, flat.
    """
    flat = [np.asarray(one, dtype=np.int64).reshape(-1) for one in arrays]
    begins, end = [], 0
    for one in flat:
        begins.append(end)
        end += -(-len(one) // _ALIGNMENT) * _ALIGNMENT
    packed = np.zeros(end, dtype=np.int64)
    for begin, one in zip(begins, flat, strict=True):
        packed[begin : begin + len(one)] = one
    on_device = send(packed, device)
    return tuple(on_device[begin : begin + len(one)] for begin, one in zip(begins, flat, strict=True))


def send(array: NDArray[Any], device: torch.device) -> Tensor:
    """Bring an array of the host to the device in a copy that no one waits for."""
    return pinned(array, device).to(device, non_blocking=True)


def pinned(array: NDArray[Any], device: torch.device = DEVICE) -> Tensor:
    """Return a tensor of the host that a copy to the device need not wait for."""
    tensor = torch.from_numpy(array)
    return tensor.pin_memory() if device.type == "cuda" and len(array) else tensor


def download(tensors: Sequence[Tensor]) -> list[NDArray[Any]]:
    """Wait for the device once, and return tensors of one dtype as arrays of the host, in the shapes that they have."""
    packed = to_numpy(torch.cat([one.reshape(-1) for one in tensors]))
    ends = np.cumsum([one.numel() for one in tensors])
    return [part.reshape(one.shape) for part, one in zip(np.split(packed, ends[:-1]), tensors, strict=True)]


def on_host(phase: Phase, num_live: int | None = None) -> Phase:
    """Copy a phase object to the host; with ``num_live``, cut the requests that pad it off every array.

    Features that have one width a request are cut to those of its accepted tokens.
    """
    changed: dict[str, Any] = {}
    for field in fields(phase):
        value = getattr(phase, field.name)
        if isinstance(value, Tensor):
            if num_live is not None:
                batch = phase.num_requests
                value = value[: num_live * (value.shape[0] // batch if batch else 0)]
            changed[field.name] = to_numpy(value)
    if isinstance(phase, DflashDraftInput) and num_live and changed.get("target_hidden") is not None:
        features, counts = changed["target_hidden"], changed["ctx_lens"]
        is_accepted = np.arange(len(features) // num_live) < counts[:, None]
        changed["target_hidden"] = features[is_accepted.reshape(-1)]
    return replace(phase, **changed)
