"""What identifies a list of tensors: worked out in every call for a plain list, once for one that never changes."""

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import torch

MOST_KEPT, MOST_LENGTHS = 1024, 256
"""Lists that never change, and lengths of lists, of which something is kept; an engine has one a layer count."""


class ListIdentity(NamedTuple):
    """What tells a list argument apart, the addresses of its tensors, all their bits, and where they lie."""

    form: Any
    addresses: Sequence[int]
    bits: int
    place: torch.device


class KeptForm:
    """Stands for the form of a list that never changes; equal forms are one object."""


_KEPT: dict[tuple[Any, ...], KeptForm] = {}


def identify_list(tensors: Any) -> tuple[Any, Sequence[int], int, torch.device]:
    """Return what a ``ListIdentity`` holds.

    Raises
    ------
    TypeError
        It is no list of plain tensors that lie on one device, or an empty one.
    """
    if not isinstance(tensors, list | tuple) or not tensors:
        raise TypeError("no list of tensors")
    return _reader_of(len(tensors))(tensors)


def keep_identity(tensors: Sequence[torch.Tensor], *facts: Any) -> ListIdentity | None:
    """Identify a list that never changes, and facts about it, by one object; None where it has no identity."""
    try:
        identity = ListIdentity(*identify_list(tensors))
    except TypeError:
        return None
    if len(_KEPT) >= MOST_KEPT:
        _KEPT.clear()
    return identity._replace(form=_KEPT.setdefault((*identity.form, *facts), KeptForm()))


@lru_cache(MOST_LENGTHS)
def _reader_of(count: int) -> Callable[[Any], tuple[Any, Sequence[int], int, torch.device]]:
    """Write down how lists of one length are read: entry by entry, at half the cost of a loop."""
    scope: dict[str, Any] = {"_Tensor": torch.Tensor, "_TypeError": TypeError}
    exec(compile(list_source(count), "<list>", "exec"), scope)
    reader: Callable[[Any], Any] = scope["read"]
    return reader


def list_source(count: int) -> str:
    """Write the function that reads a list of so many tensors."""
    names = [f"_{number}" for number in range(count)]
    first, *others = names
    elsewhere = [f"{name}.get_device() != _index" for name in others]
    # NOTE: only a GPU has an index, by which it is told from another one faster than by its name.
    elsewhere += ["_index < 0 and (" + " or ".join(f"{name}.device != _place" for name in others) + ")"] * bool(others)
    addresses = [f"{name}_at" for name in names]
    lines = [
        f"{', '.join(names)}, = _tensors",
        f"if {' or '.join(f'{name}.__class__ is not _Tensor' for name in names)}:",
        "    raise _TypeError('no plain tensors')",
        f"_place, _index = {first}.device, {first}.get_device()",
        f"if {' or '.join(elsewhere) or False}:",
        "    raise _TypeError('no tensors of one device')",
        *(f"{address} = {name}.data_ptr()" for name, address in zip(names, addresses, strict=True)),
        f"_form = ({', '.join(f'{name}.shape, {name}.dtype' for name in names)})",
        f"if not ({' and '.join(f'{name}.is_contiguous()' for name in names)}):",
        f"    _form += ({', '.join(f'{name}.stride()' for name in names)},)",
        f"return _form, ({', '.join(addresses)},), {' | '.join(addresses)}, _place",
    ]
    return "\n".join(["def read(_tensors):", *(f"    {line}" for line in lines), ""])
