"""What identifies a list of tensors: worked out in every call for a plain list, once for one that never changes."""

from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from operator import or_
from typing import Any, NamedTuple

import torch

MOST_KEPT = 1024


class ListIdentity(NamedTuple):
    """What tells a list argument apart, the addresses of its tensors, all their bits, and where the first lies."""

    form: Any
    addresses: tuple[int, ...]
    bits: int
    device: torch.device


class KeptForm:
    """Stands for the form of a list that never changes; equal forms are one object."""


_KEPT: dict[tuple[Any, ...], KeptForm] = {}


def identify_list(tensors: Any) -> ListIdentity:
    """Identify a list of tensors.

    Raises
    ------
    AttributeError, IndexError
        It is no list, or an empty one.
    """
    if not isinstance(tensors, list | tuple):
        raise AttributeError("no list of tensors")
    form = tuple([(one.__class__, one.shape, one.stride(), one.dtype, one.device) for one in tensors])
    addresses = tuple([one.data_ptr() for one in tensors])
    return ListIdentity(form, addresses, reduce(or_, addresses), tensors[0].device)


def tensors_of(arguments: Mapping[str, Any], names: Iterable[str]) -> list[Any]:
    """Return arguments that are tensors or lists of tensors in one list; None where one is absent."""
    tensors: list[Any] = []
    for name in names:
        value = arguments[name]
        tensors += value if isinstance(value, list | tuple) else (value,)
    return tensors


def keep_identity(tensors: Sequence[torch.Tensor]) -> ListIdentity | None:
    """Identify a list that never changes by one object in the place of its form; None for an empty list."""
    if not tensors:
        return None
    identity = identify_list(tensors)
    if len(_KEPT) >= MOST_KEPT:
        _KEPT.clear()
    return identity._replace(form=_KEPT.setdefault(identity.form, KeptForm()))
