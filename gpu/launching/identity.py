"""What tells calls of an operation apart, and where their tensors lie: written down as plain Python for each contract.

Two calls of one key have equal scalars, and tensors of equal sizes, element types and devices, which all are contiguous
or have equal strides, and whose addresses are equal modulo 16 bytes. So whatever a contract says of one but where its
tensors lie holds of the other, and so does what its launches take. (An axis of one entry may have any stride and the
tensor be contiguous; an index along it is 0.)
"""

from collections.abc import Callable, Mapping
from typing import Any

import torch

from specsim.contracts.contract import ArraySpec, Contract
from specsim.gpu.launching.lists import ListIdentity, identify_list
from specsim.gpu.launching.pointers import KVBuffers
from specsim.gpu.launching.prepared import ALIGNMENT

Identity = tuple[tuple[Any, ...], list[int]]
"""The key of a call, and the addresses of its tensors in the order of the contract, 0 for one that is absent."""

Identify = Callable[[Mapping[str, Any]], Identity | None]


def identify_by(contract: Contract) -> Identify:
    """Return the function that identifies calls; it returns None, or raises, where anything is out of the ordinary."""
    scope: dict[str, Any] = {
        "_Tensor": torch.Tensor,
        "_bool": bool,
        "_int": int,
        "_lie_at": _lie_at,
        "_list": _identity_of_list,
        "_tuple": tuple,
    }
    exec(compile(identity_source(contract), "<identity>", "exec"), scope)
    identify: Identify = scope["identify"]
    return identify


def identity_source(contract: Contract) -> str:
    """Write the function down: no loops but over lists, and each property of a tensor is asked for once."""
    arrays = contract.arrays
    first = min(arrays, key=lambda spec: (spec.optional, spec.each is not None))
    lines = [f"_{spec.name} = _arguments[{spec.name!r}]" for spec in contract.parameters]
    for scalar in contract.scalars:
        kinds = ("_int", "_bool") if scalar.flag else ("_int",)
        wrong = " and ".join(f"_{scalar.name}.__class__ is not {kind}" for kind in kinds)
        lines.append(f"if {wrong}: return None")
    for spec in arrays:
        if spec.each is not None:
            lines.append(f"{', '.join(f'_{spec.name}_{part}' for part in ListIdentity._fields)} = _list(_{spec.name})")
    lines.append(f"_place = _{first.name}{'_place' if first.each is not None else '.device'}")
    lines.append("_index = -1 if _place.index is None else _place.index")
    for spec in arrays:
        lines += _array_lines(spec, spec is first)
    # NOTE: only a GPU has an index, by which it is told from another one faster than by its name.
    single = "".join(f"_{spec.name}, " for spec in arrays if spec.each is None)
    lines.append(f"if _index < 0 and not _lie_at(_place, ({single})): return None")
    forms = ", ".join([*(f"_{scalar.name}" for scalar in contract.scalars), "_place", *map(_form, arrays)])
    lines += [
        f"_key = ({forms},)",
        f"if not ({' and '.join(map(_is_contiguous, arrays))}):",
        f"    _key += ({', '.join(map(_strides, arrays))},)",
        f"_addresses = [{', '.join('*' * (spec.each is not None) + _address(spec) for spec in arrays)}]",
        f"if ({' | '.join(f'_{spec.name}_bits' if spec.each is not None else _address(spec) for spec in arrays)})"
        f" % {ALIGNMENT}:",
        f"    _key += _tuple([_address % {ALIGNMENT} for _address in _addresses])",
        "return _key, _addresses",
    ]
    return "\n".join(["def identify(_arguments):", *(f"    {line}" for line in lines), ""])


def _identity_of_list(tensors: Any) -> tuple[Any, ...]:
    """Identify a list argument; of ``KVBuffers`` that is known.

    Raises
    ------
    TypeError
        As ``identify_list`` does.
    """
    if not isinstance(tensors, KVBuffers):
        return identify_list(tensors)
    if tensors.identity is None:
        raise TypeError("no plain tensors of one device")
    return tensors.identity


def _lie_at(place: torch.device, values: tuple[Any, ...]) -> bool:
    """Return whether tensors lie at one place."""
    return all(value is None or value.device == place for value in values)


def _array_lines(spec: ArraySpec, is_first: bool) -> list[str]:
    """Ask for the address of a tensor, and whether it lies on the device of the first."""
    name = f"_{spec.name}"
    if spec.each is not None:
        return [] if is_first else [f"if {name}_place != _place: return None"]
    elsewhere = [] if is_first else [f"if {name}.get_device() != _index: return None"]
    lines = [f"if {name}.__class__ is not _Tensor: return None", *elsewhere, f"{name}_at = {name}.data_ptr()"]
    if not spec.optional:
        return lines
    return [f"if {name} is None:", f"    {name}_at = 0", "else:", *(f"    {line}" for line in lines)]


def _address(spec: ArraySpec) -> str:
    return f"_{spec.name}_addresses" if spec.each is not None else f"_{spec.name}_at"


def _form(spec: ArraySpec) -> str:
    """Write what tells an argument apart, but for strides; of a list it says all."""
    name = f"_{spec.name}"
    if spec.each is not None:
        return f"{name}_form"
    properties = f"{name}.shape, {name}.dtype"
    return f"None if {name} is None else ({properties})" if spec.optional else properties


def _is_contiguous(spec: ArraySpec) -> str:
    name = f"_{spec.name}"
    if spec.each is not None:
        return "True"
    return f"({name} is None or {name}.is_contiguous())" if spec.optional else f"{name}.is_contiguous()"


def _strides(spec: ArraySpec) -> str:
    name = f"_{spec.name}"
    if spec.each is not None:
        return "None"
    return f"None if {name} is None else {name}.stride()" if spec.optional else f"{name}.stride()"
