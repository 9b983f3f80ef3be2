"""What tells calls of an operation apart, and where their tensors lie: written down as plain Python for each contract.

Two calls of one key have equal scalars, and tensors of equal sizes, strides, element types and devices, whose addresses
are equal modulo 16 bytes. So whatever a contract says of one but where its tensors lie holds of the other, and so does
what its launches take.
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
        "_list": _identity_of_list,
        "_tuple": tuple,
    }
    exec(compile(identity_source(contract), "<identity>", "exec"), scope)
    identify: Identify = scope["identify"]
    return identify


def identity_source(contract: Contract) -> str:
    """Write the function down: no loops but over lists, and each property of a tensor is asked for once."""
    lines = [f"_{spec.name} = _arguments[{spec.name!r}]" for spec in contract.parameters]
    for scalar in contract.scalars:
        kinds = ("_int", "_bool") if scalar.flag else ("_int",)
        wrong = " and ".join(f"_{scalar.name}.__class__ is not {kind}" for kind in kinds)
        lines.append(f"if {wrong}: return None")
    lines += [f"_{spec.name} = _list(_{spec.name})" for spec in contract.arrays if spec.each is not None]
    first = min(contract.arrays, key=lambda spec: (spec.optional, spec.each is not None))
    lines.append(f"_place = _{first.name}.device")
    for spec in contract.arrays:
        lines += _array_lines(spec, spec is first)
    forms = [form for spec in contract.arrays for form in _forms(spec)]
    lines.append(f"_key = ({', '.join([*(f'_{scalar.name}' for scalar in contract.scalars), '_place', *forms])},)")
    lists = [spec.each is not None for spec in contract.arrays]
    addresses = [
        f"*_{spec.name}.addresses" if is_list else f"_{spec.name}_at"
        for spec, is_list in zip(contract.arrays, lists, strict=True)
    ]
    bits = [
        f"_{spec.name}.bits" if is_list else f"_{spec.name}_at"
        for spec, is_list in zip(contract.arrays, lists, strict=True)
    ]
    lines += [
        f"_addresses = [{', '.join(addresses)}]",
        f"if ({' | '.join(bits)}) % {ALIGNMENT}:",
        f"    _key += _tuple([_address % {ALIGNMENT} for _address in _addresses])",
        "return _key, _addresses",
    ]
    return "\n".join(["def identify(_arguments):", *(f"    {line}" for line in lines), ""])


def _identity_of_list(tensors: Any) -> ListIdentity:
    """Identify a list argument; of ``KVBuffers`` that is known.

    Raises
    ------
    AttributeError, IndexError
        It is no list, or an empty one.
    """
    if isinstance(tensors, KVBuffers) and tensors.identity is not None:
        return tensors.identity
    return identify_list(tensors)


def _array_lines(spec: ArraySpec, is_first: bool) -> list[str]:
    """Ask for the address of a tensor, and whether it lies on the device of the first."""
    name = f"_{spec.name}"
    elsewhere = [] if is_first else [f"if {name}.device != _place: return None"]
    if spec.each is not None:
        return elsewhere
    lines = [f"if {name}.__class__ is not _Tensor: return None", *elsewhere, f"{name}_at = {name}.data_ptr()"]
    if not spec.optional:
        return lines
    lines.append(f"{name}_form = ({', '.join(_properties(name))})")
    absent = f"{name}_form, {name}_at = None, 0"
    return [f"if {name} is None:", f"    {absent}", "else:", *(f"    {line}" for line in lines)]


def _forms(spec: ArraySpec) -> list[str]:
    if spec.each is not None:
        return [f"_{spec.name}.form"]
    return [f"_{spec.name}_form"] if spec.optional else _properties(f"_{spec.name}")


def _properties(name: str) -> list[str]:
    return [f"{name}.shape", f"{name}.stride()", f"{name}.dtype"]
