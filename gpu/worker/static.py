"""Buffers that graphs read and the host loads, with guards around them where they are watched."""

from collections.abc import Mapping, Sequence
from math import prod

import torch
from torch import Tensor

from specsim.gpu.arrays import DEVICE
from specsim.gpu.launching.simulated import GUARD, GUARD_BYTE, POISON, CaptureError
from specsim.gpu.switches import guards_buffers


def static_zeros(shape: Sequence[int], dtype: torch.dtype) -> Tensor:
    """Return zeros that a graph may read for good; where buffers are guarded, between two zones that nothing writes."""
    if not guards_buffers():
        return torch.zeros(tuple(shape), dtype=dtype, device=DEVICE)
    num_bytes = prod(shape) * dtype.itemsize
    guarded = torch.full((num_bytes + 2 * GUARD,), GUARD_BYTE, dtype=torch.uint8, device=DEVICE)
    return guarded[GUARD : GUARD + num_bytes].view(dtype).view(tuple(shape)).zero_()


def poison_static(buffers: Mapping[str, Tensor], given: dict[str, Tensor]) -> dict[str, Tensor]:
    """Write what nothing may rely on into buffers that are loaded next, and return what they are loaded with.

    Integers are small enough for any index. A batch that V1 carries may lie in these very buffers, and is copied first.
    """
    if not guards_buffers():
        return given
    copied = {name: values.clone() for name, values in given.items()}
    for values in buffers.values():
        values.fill_(torch.nan if values.is_floating_point() else POISON)
    return copied


def require_guards(buffers: Mapping[str, Tensor]) -> None:
    """Raise if something was written beside a guarded buffer; the host waits for the device to see it.

    Raises
    ------
    CaptureError
        A guard has been written.
    """
    if not guards_buffers():
        return
    written = {}
    for name, values in buffers.items():
        guarded = torch.empty(0, dtype=torch.uint8, device=DEVICE).set_(values.untyped_storage())
        num_bytes = values.numel() * values.itemsize
        if len(guarded) == num_bytes + 2 * GUARD:
            written[name] = (torch.cat([guarded[:GUARD], guarded[GUARD + num_bytes :]]) != GUARD_BYTE).any()
    if not written:
        return
    past = [
        name for name, is_written in zip(written, torch.stack([*written.values()]).tolist(), strict=True) if is_written
    ]
    if past:
        raise CaptureError(f"a stage wrote past {' and '.join(past)}, which batches are loaded into")
