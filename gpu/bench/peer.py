"""Functions of another module on the inputs that ours are timed with: what they take, and whether they agree."""

import warnings
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from specsim import gpu
from specsim.conformance.backend import Backend
from specsim.conformance.outcomes import Observation, first_difference
from specsim.conformance.outside import why_outside
from specsim.conformance.plain_text import first_line
from specsim.gpu.arrays import DEVICE, to_numpy
from specsim.operations import RECORDS


def taken(peer: Backend, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments as a peer takes them: in plain blocks, where it declares that it needs these."""
    if not peer.limits.is_contiguous:
        return dict(arguments)
    return {name: value.contiguous() if isinstance(value, Tensor) else value for name, value in arguments.items()}


def declines(peer: Backend, operation: str, arguments: Mapping[str, Any]) -> bool:
    """Return whether a peer declares that it does not take a call."""
    return not peer.limits.are_none and why_outside(peer.limits, RECORDS[operation], on_host(arguments)) is not None


def find_difference(peer: Backend, operation: str, arguments: Mapping[str, Any]) -> str | None:
    """Say where a peer's outputs differ from ours, or why it cannot be captured in a CUDA graph; None where it can.

    Outputs that are not equal bit for bit are compared as the contract says: what it leaves undefined is left out, and
    probabilities may differ by rounding. The arguments are as before afterwards.
    """
    given = taken(peer, arguments)
    expected = _outputs_of(operation, vars(gpu)[operation], arguments)
    try:
        observed = _outputs_of(operation, peer.functions[operation], given)
    except Exception as error:  # NOTE: a module may raise anything at all.
        return f"{type(error).__name__}: {first_line(error)}"
    if not peer.limits.writes_scratch:
        observed.update(dict.fromkeys(RECORDS[operation].contract.scratch))
    if not all(_is_equal(value, observed.get(name)) for name, value in expected.items()):
        ours, theirs = (Observation(outputs=on_host(outputs)) for outputs in (expected, observed))
        difference = first_difference(operation, on_host(arguments), ours, theirs)
        if difference is not None:
            return difference
    return _why_not_captured(operation, peer.functions[operation], given)


def on_host(value: Any) -> Any:
    """Return tensors, alone, listed or by name, as arrays of the host."""
    if isinstance(value, Mapping):
        return {name: on_host(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [on_host(one) for one in value]
    return to_numpy(value) if isinstance(value, Tensor) else value


def _outputs_of(operation: str, function: Callable[..., Any], arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a call returns and what it writes, by name; what it wrote is put back."""
    contract = RECORDS[operation].contract
    before = {name: _copied(arguments[name]) for name in contract.writes}
    try:
        returned = function(**arguments)
        outputs = returned if isinstance(returned, tuple) else (returned,) if contract.outputs else ()
        if len(outputs) != len(contract.outputs):
            raise TypeError(f"{len(outputs)} arrays were returned, but should be {len(contract.outputs)}")
        named = {spec.name: output for spec, output in zip(contract.outputs, outputs, strict=True)}
        written = {name: _copied(arguments[name]) for name in contract.writes}
        # NOTE: what is returned may be a view of what was written, which is put back.
        return ({name: _copied(output) for name, output in named.items()} if written else named) | written
    finally:
        for name, kept in before.items():
            for target, source in zip(_tensors(arguments[name]), _tensors(kept), strict=True):
                target.copy_(source)


def _why_not_captured(operation: str, function: Callable[..., Any], arguments: Mapping[str, Any]) -> str | None:
    """Return why a CUDA graph could not capture a function that has run before, where torch knows."""
    if DEVICE.type != "cuda":
        return None
    with warnings.catch_warnings():  # NOTE: torch calls the mode a prototype, each time.
        warnings.simplefilter("ignore")
        torch.cuda.set_sync_debug_mode("error")
    try:
        _outputs_of(operation, function, arguments)
    except RuntimeError as error:
        return f"it waits for the device, which no CUDA graph can: {first_line(error)}"
    finally:
        torch.cuda.set_sync_debug_mode("default")
    return None


def _is_equal(expected: Any, observed: Any) -> bool:
    mine, theirs = _tensors(expected), _tensors(observed)
    return len(mine) == len(theirs) and all(
        isinstance(other, Tensor)
        and (one.dtype, one.shape, one.device) == (other.dtype, other.shape, other.device)
        and torch.equal(one, other)
        for one, other in zip(mine, theirs, strict=True)
    )


def _tensors(value: Any) -> list[Any]:
    return [*value] if isinstance(value, list | tuple) else [] if value is None else [value]


def _copied(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_copied(one) for one in value]
    return value.clone() if isinstance(value, Tensor) else value
