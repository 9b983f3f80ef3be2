"""The arrays of this layer: torch tensors, on the GPU if there is one."""

from typing import Any

import ml_dtypes
import numpy as np
import torch
from numpy.typing import NDArray
from triton import knobs

from specsim.contracts.extents import Extent, overlaps_itself
from specsim.contracts.kinds import ArrayKind, Memory
from specsim.gpu.switches import debugging, is_capturing
from specsim.gpu.switches import poisoned as poisoned_outputs

__all__ = [
    "DEVICE",
    "KIND",
    "TENSORS",
    "debugging",
    "device_error",
    "extent_of",
    "fetch",
    "from_numpy",
    "is_capturing",
    "keep",
    "poisoned_outputs",
    "to_numpy",
]

KIND = "torch"
"""What a module says as its ``ARRAYS`` to be called with these."""

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")


def from_numpy(value: NDArray[Any]) -> torch.Tensor:
    """Copy a NumPy array to the device; a strided view stays one, and what is empty is laid out as torch does it.

    Entries that share an address go on sharing it along an axis of stride 0, and become entries of their own otherwise.
    """
    if value.flags.c_contiguous and not value.flags.writeable:
        value = value.copy()
    if any(stride < 0 for stride in value.strides) or not value.flags.aligned:
        value = value.copy()
    if value.dtype == ml_dtypes.bfloat16:
        tensor = torch.from_numpy(value.view(np.int16)).view(torch.bfloat16)
    else:
        tensor = torch.from_numpy(value)
    if not value.size:  # NOTE: strides of an empty NumPy array are 0, which no tensor of an engine has.
        return torch.empty(tensor.shape, dtype=tensor.dtype, device=DEVICE)
    if tensor.is_contiguous():
        return tensor.to(DEVICE)
    # NOTE: torch copies into no tensor in which entries share an address, so that each address is written once.
    once = [size if stride else 1 for size, stride in zip(tensor.shape, tensor.stride(), strict=True)]
    if overlaps_itself(extent_of(tensor.as_strided(once, tensor.stride()))):
        return tensor.contiguous().to(DEVICE)
    storage = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device=DEVICE)
    storage.as_strided(once, tensor.stride()).copy_(tensor.as_strided(once, tensor.stride()))
    return storage


def to_numpy(value: torch.Tensor) -> NDArray[Any]:
    """Bring a tensor to the host; bfloat16 arrives as that of ``ml_dtypes``."""
    on_host = value.detach().cpu()
    if on_host.dtype is torch.bfloat16:
        return np.asarray(on_host.view(torch.int16).numpy().view(ml_dtypes.bfloat16))
    return np.asarray(on_host.numpy())


def keep(value: torch.Tensor) -> torch.Tensor:
    """Return a copy on the same device that later writes do not reach; it is queued, and no one waits for it.

    The copy goes into the caller's stream: what was queued there before is in it, and what is queued after is not.

    Raises
    ------
    TypeError
        It is no tensor.
    """
    if not isinstance(value, torch.Tensor):
        raise TypeError(f"{type(value).__name__} is no tensor")
    return value.detach().clone(memory_format=torch.contiguous_format)


def fetch(kept: torch.Tensor) -> NDArray[Any]:
    """Bring a kept copy to the host, whichever stream it was queued in; this waits for the device."""
    if kept.device.type == "cuda":
        torch.cuda.synchronize(kept.device)
    return to_numpy(kept)


def device_error() -> str:
    """Return what the device answers to every further call of this process, or nothing while it works."""
    if not torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        return ""
    try:
        torch.cuda.synchronize()
    except RuntimeError as error:
        return (str(error).splitlines() or [type(error).__name__])[0]
    return ""


def _is_reachable(device: torch.device) -> bool:
    """Return whether kernels can follow a pointer to a device; interpreted ones copy from either."""
    return device.type == "cuda" or (device.type == "cpu" and bool(knobs.runtime.interpret))


def extent_of(tensor: torch.Tensor) -> Extent:
    """Return where a tensor lies in memory."""
    itemsize = tensor.element_size()
    return Extent(
        address=tensor.data_ptr(),
        shape=tuple(tensor.shape),
        strides=tuple(stride * itemsize for stride in tensor.stride()),
        itemsize=itemsize,
    )


def _block_of(tensor: torch.Tensor) -> tuple[int, int] | None:
    if not tensor.is_contiguous():
        return None
    start = tensor.data_ptr()
    return start, start + tensor.nbytes


MEMORY = Memory(extent_of, _block_of)
"""Where tensors lie."""

TENSORS = ArrayKind(
    name="Tensor",
    base=torch.Tensor,
    because="kernels run on tensors of one device",
    attribute="device",
    is_reachable=_is_reachable,
    reachable="a CUDA device, or the CPU where kernels are interpreted",
    memory=MEMORY,
    addresses=True,
)
"""The arrays of this layer."""
