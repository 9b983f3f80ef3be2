"""Check a call and allocate its outputs, both from the table."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any, NamedTuple

import torch

from specsim.contracts.compiled import CompiledContract, compile_contract
from specsim.gpu.arrays import TENSORS, to_numpy
from specsim.gpu.launching.mode import current_mode
from specsim.gpu.launching.records import outputs_class, record_of
from specsim.gpu.switches import checks_values, poison_pattern
from specsim.validation.checking import check_call

DTYPES: dict[str, torch.dtype] = {
    str(value).removeprefix("torch."): value for value in vars(torch).values() if isinstance(value, torch.dtype)
}
"""Element types by their names in the table."""

ANYWHERE = replace(TENSORS, is_reachable=lambda place: True, memory=None, symbols=(torch.SymInt,))
"""Arrays that no kernel touches, such as those of a trace."""


class Call(NamedTuple):
    """A call that has been checked, with buffers for what it returns.

    Attributes
    ----------
    name : str
        The operation.
    arguments : mapping
        As they were given, by name.
    axes : mapping
        The size of every axis and the value of every scalar, as plain integers.
    outputs : named tuple, tensor or None
        What the operation returns, uninitialised; launch into other buffers with ``call._replace(outputs=…)``.
    device : torch.device
        Where its tensors lie.
    allocated : list of tensors
        Scratch memory that the call has asked for.
    """

    name: str
    arguments: Mapping[str, Any]
    axes: Mapping[str, int]
    outputs: Any
    device: torch.device
    allocated: list[torch.Tensor]

    def scratch(self, *shape: int, dtype: torch.dtype) -> torch.Tensor:
        """Return memory for what one launch leaves to the next; everything else is an argument or an output."""
        tensor = torch.empty(shape, dtype=dtype, device=self.device)
        poison([tensor], poison_pattern())
        self.allocated.append(tensor)
        return tensor

    def contiguous(self, *names: str) -> dict[str, torch.Tensor]:
        """Return arguments by name, copied where their entries do not lie side by side."""
        arguments = self.arguments
        return {
            name: arguments[name] if arguments[name].is_contiguous() else arguments[name].contiguous() for name in names
        }

    def group(self, *names: str) -> tuple[torch.Tensor, ...]:
        """Return arguments as ``contiguous`` does, for a kernel that takes them together."""
        return tuple(self.contiguous(*names).values())

    def returned(self) -> dict[str, Any]:
        """Return outputs by name, without those that are absent."""
        outputs = self.outputs if isinstance(self.outputs, tuple) else (self.outputs,)
        specs = record_of(self.name).contract.outputs
        return {spec.name: value for spec, value in zip(specs, outputs, strict=True) if value is not None}


def prepare(name: str, arguments: Mapping[str, Any], key: tuple[Any, ...] | None = None) -> Call:
    """Check the arguments of an operation and allocate its outputs on their device.

    Parameters
    ----------
    name : str
        The operation.
    arguments : mapping
        Every argument by name.
    key : tuple or None
        The key of the call, where it is known.

    Raises
    ------
    SpecRejection
        As the reference does; entries are checked only inside ``debugging()``, or under ``SPECSIM_DEBUG=1``.
    """
    runs = current_mode().runs
    contract, pack = _checks_of(name, runs)
    checked = contract.check(arguments, key)
    if runs and checks_values():
        check_entries(name, arguments)
    device = checked.place
    outputs = [
        None if form is None else torch.empty(form[0], dtype=DTYPES[form[1]], device=device) for form in checked.forms
    ]
    poison(outputs, poison_pattern())
    return Call(name, arguments, checked.axes, pack(outputs), device, [])


@cache
def _checks_of(name: str, runs: bool) -> tuple[CompiledContract, Callable[[list[Any]], Any]]:
    """Return the compiled contract of an operation, and what makes of a list of outputs what it returns."""
    contract = record_of(name).contract
    compiled = compile_contract(name, contract, TENSORS if runs else ANYWHERE)
    if len(contract.outputs) > 1:
        return compiled, outputs_class(name)._make
    return compiled, lambda outputs: outputs[0] if outputs else None


def check_entries(name: str, arguments: Mapping[str, Any]) -> None:
    """Check a call with its entries, which waits for the device."""
    check_call(name, {key: _on_host(value) for key, value in arguments.items()}, contract=record_of(name).contract)


def poison(fresh: Sequence[Any], pattern: int | None) -> None:
    """Fill fresh memory with a pattern of bytes, if there is one; stand-ins have no memory."""
    if pattern is None:
        return
    for tensor in fresh:
        if tensor.__class__ is torch.Tensor and tensor.numel() and not tensor.is_meta:
            tensor.view(torch.uint8).fill_(pattern & 1 if tensor.dtype is torch.bool else pattern)


def _on_host(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return to_numpy(value)
    if isinstance(value, list | tuple):
        return [_on_host(entry) for entry in value]
    return value
