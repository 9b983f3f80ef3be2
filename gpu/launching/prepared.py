"""Launches that are ready to go: a compiled kernel, and how its arguments are put together."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import itemgetter, or_
from typing import Any

from triton import knobs

from specsim.gpu.launching.plan import Plan, buffer_of

ALIGNMENT = 16
"""Bytes: Triton compiles a kernel anew for pointers that they do not divide."""

MOST_FORMS = 4096
MOST_FORMS_OF_A_PLAN = 64


class Form:
    """What buffers have in common that a kernel is compiled for; equal forms are the same object."""


_FORMS: dict[tuple[Any, ...], Form] = {}


@dataclass(frozen=True, slots=True)
class Prepared:
    """A kernel that is compiled for a plan and a form of buffers.

    ``pick`` puts addresses of buffers, then what the plan fixes, into the order of the kernel's parameters.
    """

    compiled: Any
    grid: tuple[int, int, int]
    pick: Callable[[Sequence[Any]], tuple[Any, ...]]

    def run(self, stream: int, arguments: tuple[Any, ...]) -> None:
        """Start the kernel; through the door for profilers if one listens."""
        if knobs.runtime.launch_enter_hook.calls or knobs.runtime.launch_exit_hook.calls:
            self.compiled[self.grid](*arguments, stream=stream)
            return
        compiled = self.compiled
        compiled.run(*self.grid, stream, compiled.function, compiled.packed_metadata, None, None, None, *arguments)


def start(plans: Sequence[Plan], buffers: Mapping[str, Any], device: int, stream: int) -> None:
    """Start kernels on a device's stream; each is compiled when it first meets a form of buffers."""
    addresses, form = form_of(device, buffers)
    for plan in plans:
        prepared = plan.prepared.get(form)
        if prepared is None:
            _start_first(plan, buffers, form)
        else:
            prepared.run(stream, prepared.pick((*addresses, *plan.fixed.values())))


def form_of(device: int, buffers: Mapping[str, Any]) -> tuple[list[Any], Form]:
    """Return the address of every buffer, a tuple of them for a tuple of buffers, and the form of all of them."""
    tensors = buffers.values()
    try:
        addresses: list[Any] = [tensor.data_ptr() for tensor in tensors]
        key = (device, *buffers, *[tensor.dtype for tensor in tensors])
        if reduce(or_, addresses) % ALIGNMENT:
            key += tuple(address % ALIGNMENT == 0 for address in addresses)
    except AttributeError:
        addresses, key = _with_tuples(device, buffers)
    form = _FORMS.get(key)
    if form is None:
        if len(_FORMS) >= MOST_FORMS:
            _FORMS.clear()
        form = _FORMS.setdefault(key, Form())
    return addresses, form


def _with_tuples(device: int, buffers: Mapping[str, Any]) -> tuple[list[Any], tuple[Any, ...]]:
    addresses: list[Any] = []
    key: list[Any] = [device, *buffers]
    for entry in buffers.values():
        tensors = entry if isinstance(entry, tuple) else (entry,)
        own = tuple(tensor.data_ptr() for tensor in tensors)
        addresses.append(own if isinstance(entry, tuple) else own[0])
        key.append(
            tuple((tensor.dtype, address % ALIGNMENT == 0) for tensor, address in zip(tensors, own, strict=True))
        )
    return addresses, tuple(key)


def _start_first(plan: Plan, buffers: Mapping[str, Any], form: Form) -> None:
    """Start a kernel by way of the just-in-time compiler, and keep what it compiled."""
    compiled = plan.kernel[plan.grid](**plan.arguments(buffers), num_warps=plan.num_warps, **plan.options)
    x, y, z = (*plan.grid, 1, 1)[:3]
    if len(plan.prepared) >= MOST_FORMS_OF_A_PLAN:
        plan.prepared.clear()
    plan.prepared[form] = Prepared(compiled, (x, y, z), itemgetter(*_places(plan, tuple(buffers))))


def _places(plan: Plan, buffers: tuple[str, ...]) -> list[int]:
    """Return where each parameter of the kernel stands among all buffers and, behind them, what is fixed."""
    fixed = {name: place for place, name in enumerate(plan.fixed, start=len(buffers))}
    return [fixed[name] if name in fixed else buffers.index(buffer_of(name)) for name in plan.kernel.arg_names]
