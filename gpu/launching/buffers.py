"""Check a call and allocate its outputs, both from the table."""

from collections.abc import Mapping
from typing import Any

import torch

from specsim.contracts.binding import Bindings, arrays_of, bind, output_form, reject
from specsim.gpu.arrays import to_numpy
from specsim.gpu.switches import checks_values, poison_pattern
from specsim.operations import RECORDS
from specsim.operations.record import Operation
from specsim.rejection import Reason, SpecRejection
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
    operation = RECORDS[name]
    device = _device(name, arguments)
    axes = bind(name, operation.contract, arguments)
    _require_tensors(operation, arguments)
    if checks_values():
        check_call(name, {key: _on_host(value) for key, value in arguments.items()})
    outputs: list[Any] = []
    for spec in operation.contract.outputs:
        form = output_form(spec, axes, arguments)
        outputs.append(None if form is None else _allocate(form[0], form[1], device))
    return axes, outputs


def _allocate(shape: tuple[int, ...], dtype: str, device: torch.device) -> torch.Tensor:
    pattern = poison_pattern()
    tensor = torch.empty(shape, dtype=getattr(torch, dtype), device=device)
    if pattern is not None and tensor.numel():
        tensor.view(torch.uint8).fill_(pattern & 1 if dtype == "bool" else pattern)
    return tensor


def _require_tensors(operation: Operation, arguments: Mapping[str, Any]) -> None:
    for spec in operation.contract.arrays:
        for label, _, entry in arrays_of(spec, arguments[spec.name]):
            if not isinstance(entry, torch.Tensor):
                raise reject(
                    Reason.WRONG_DEVICE, label, type(entry).__name__, "Tensor", operation.name, "kernels run on tensors"
                )


def _device(name: str, arguments: Mapping[str, Any]) -> torch.device:
    devices: dict[torch.device, str] = {}
    for key, value in arguments.items():
        for tensor in value if isinstance(value, list | tuple) else (value,):
            if isinstance(tensor, torch.Tensor):
                devices.setdefault(tensor.device, key)
    if len(devices) > 1:
        first, second, *_ = devices
        raise SpecRejection(
            Reason.WRONG_DEVICE,
            what=f"{devices[second]}.device",
            got=second,
            expected=str(first),
            because=f"{devices[first]} of the same {name} call is there",
        )
    return next(iter(devices), torch.device("cpu"))


def _on_host(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return to_numpy(value)
    if isinstance(value, list | tuple):
        return [_on_host(entry) for entry in value]
    return value
