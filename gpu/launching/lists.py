"""What identifies a list of tensors: worked out in every call for a plain list, once for one that never changes."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch

MOST_KEPT = 1024


class ListIdentity(NamedTuple):
    """What tells a list argument apart, the addresses of its tensors, all their bits, and where the first lies."""

    form: Any
    addresses: Sequence[int]
    bits: int
    device: torch.device

    def get_device(self) -> int:
        """Return the number of the GPU, -1 elsewhere; as a tensor does."""
        return -1 if self.device.index is None else self.device.index


class KeptForm:
    """Stands for the form of a list that never changes; equal forms are one object."""


_KEPT: dict[tuple[Any, ...], KeptForm] = {}


def identify_list(tensors: Any) -> ListIdentity:
    """Identify a list of tensors.

    Raises
    ------
    TypeError, IndexError
        It is no list of plain tensors that lie on one device, or an empty one.
    """
    if not isinstance(tensors, list | tuple):
        raise TypeError("no list of tensors")
    first = tensors[0]
    index, device = first.get_device(), first.device
    form: list[Any] = []
    addresses: list[int] = []
    bits, is_contiguous = 0, True
    for one in tensors:
        # NOTE: only a GPU has an index, by which it is told from another one faster than by its name.
        if one.__class__ is not torch.Tensor or one.get_device() != index or (index < 0 and one.device != device):
            raise TypeError("no plain tensors of one device")
        address = one.data_ptr()
        addresses.append(address)
        bits |= address
        form.append(one.shape)
        form.append(one.dtype)
        is_contiguous = is_contiguous and one.is_contiguous()
    if not is_contiguous:
        form += [one.stride() for one in tensors]
    return ListIdentity(tuple(form), addresses, bits, device)


def keep_identity(tensors: Sequence[torch.Tensor], *facts: Any) -> ListIdentity | None:
    """Identify a list that never changes, and facts about it, by one object; None where it has no identity."""
    try:
        identity = identify_list(tensors)
    except (IndexError, TypeError):
        return None
    if len(_KEPT) >= MOST_KEPT:
        _KEPT.clear()
    return identity._replace(form=_KEPT.setdefault((*identity.form, *facts), KeptForm()))
