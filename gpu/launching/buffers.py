"""Check a call and allocate its outputs, both from the table."""

from collections.abc import Mapping
from typing import Any

import torch

from specsim.contracts.binding import Bindings
from specsim.contracts.compiled import compile_contract
from specsim.gpu.arrays import TENSORS, to_numpy
from specsim.gpu.switches import checks_values, poison_pattern
from specsim.operations import RECORDS
from specsim.validation.checking import check_call


def prepare(name: str, arguments: Mapping[str, Any]) -> tuple[Bindings, list[Any]]:
    """Check the arguments of an operation and allocate its outputs on their device.

    Parameters
    ----------
    name : str
        The operation.
    arguments : mapping
        Every argument by name, as a host function's ``locals()`` gives them.

    Returns
    -------
    axes : dict
        What each axis is bound to.
    outputs : list of tensor or None
        One a declared output, in order, uninitialised; None where the optional source is absent.

    Raises
    ------
    SpecRejection
        As the reference does; entries are checked only inside ``debugging()``.
    """
    checked = compile_contract(name, RECORDS[name].contract, TENSORS).check(arguments)
    if checks_values():
        check_call(name, {key: _on_host(value) for key, value in arguments.items()})
    device = checked.place or torch.device("cpu")
    outputs = [None if form is None else _allocate(form[0], form[1], device) for form in checked.forms]
    return checked.axes, outputs


def _allocate(shape: tuple[int, ...], dtype: str, device: torch.device) -> torch.Tensor:
    pattern = poison_pattern()
    tensor = torch.empty(shape, dtype=getattr(torch, dtype), device=device)
    if pattern is not None and tensor.numel():
        tensor.view(torch.uint8).fill_(pattern & 1 if dtype == "bool" else pattern)
    return tensor


def _on_host(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return to_numpy(value)
    if isinstance(value, list | tuple):
        return [_on_host(entry) for entry in value]
    return value
