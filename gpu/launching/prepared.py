"""Launches that are ready to go: a compiled kernel, and how its arguments are put together."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial, reduce
from operator import itemgetter, or_
from typing import Any, NamedTuple

from triton import knobs

from specsim.contracts.keys import POINTER_ALIGNMENT
from specsim.gpu.kernels.device.succession import starts_early
from specsim.gpu.launching.plan import Plan

MOST_FORMS = 4096
"""Forms, and compiled kernels, that are kept: an engine has one a stream and kind of buffers."""


class Form:
    """Where buffers lie, and what they have in common that a kernel is compiled for; equal forms are one object."""


_FORMS: dict[tuple[Any, ...], Form] = {}
_COMPILED: dict[tuple[Any, ...], Any] = {}
"""Compiled kernels by form of buffers and kind of plan: a plan that differs in sizes alone need not be compiled."""


class Prepared(NamedTuple):
    """A kernel compiled for a plan and a form of buffers; ``begin(*pick(addresses), *fixed)`` starts it."""

    begin: Callable[..., None]
    pick: Callable[[Sequence[Any]], Sequence[Any]]
    fixed: tuple[Any, ...]


def start(plans: Sequence[Plan], buffers: Mapping[str, Any], device: int, stream: int) -> list[Prepared]:
    """Start kernels on a stream of a device; each is compiled when it first meets a form of buffers.

    Returns
    -------
    list of Prepared
        What starts each plan again on buffers of this form.
    """
    addresses, form = form_of(device, stream, buffers)
    hooks = knobs.runtime.launch_enter_hook.calls or knobs.runtime.launch_exit_hook.calls
    started = []
    for plan in plans:
        key = (form, *plan.kind)
        compiled = _COMPILED.get(key)
        is_ready = compiled is not None and not hooks
        if not is_ready:
            # NOTE: profilers listen at the compiler's own door.
            options = {"num_warps": plan.num_warps, "launch_pdl": starts_early(device), **plan.options}
            compiled = plan.kernel[plan.grid](**plan.arguments(buffers), **options)
            if len(_COMPILED) >= MOST_FORMS:
                _COMPILED.clear()
            _COMPILED[key] = compiled
        prepared = _prepare(plan, compiled, list(buffers), stream)
        if is_ready:
            prepared.begin(*prepared.pick(addresses), *prepared.fixed)
        started.append(prepared)
    return started


def form_of(device: int, stream: int, buffers: Mapping[str, Any]) -> tuple[list[Any], Form]:
    """Return the address of every buffer, a tuple of them for a tuple of buffers, and the form of all.

    After the last address stands None, which an absent buffer has.
    """
    tensors = buffers.values()
    try:
        addresses: list[Any] = [tensor.data_ptr() for tensor in tensors]
        key = (device, stream, *buffers, *[tensor.dtype for tensor in tensors])
        if reduce(or_, addresses) % POINTER_ALIGNMENT:
            key += tuple([address % POINTER_ALIGNMENT == 0 for address in addresses])
    except AttributeError:
        addresses, key = _with_tuples(device, stream, buffers)
    addresses.append(None)
    form = _FORMS.get(key)
    if form is None:
        if len(_FORMS) >= MOST_FORMS:
            _FORMS.clear()
        form = _FORMS.setdefault(key, Form())
    return addresses, form


def _with_tuples(device: int, stream: int, buffers: Mapping[str, Any]) -> tuple[list[Any], tuple[Any, ...]]:
    addresses: list[Any] = []
    key: list[Any] = [device, stream, *buffers]
    for entry in buffers.values():
        tensors = entry if isinstance(entry, tuple) else (entry,)
        own = tuple([tensor.data_ptr() for tensor in tensors])
        addresses.append(own if isinstance(entry, tuple) else own[0])
        key += [(tensor.dtype, address % POINTER_ALIGNMENT == 0) for tensor, address in zip(tensors, own, strict=True)]
        key.append(len(own))
    return addresses, tuple(key)


def _prepare(plan: Plan, compiled: Any, buffers: list[str], stream: int) -> Prepared:
    x, y, z = (*plan.grid, 1, 1)[:3]
    begin = partial(compiled.run, x, y, z, stream, compiled.function, compiled.packed_metadata, None, None, None)
    places = [len(buffers) if name is None else buffers.index(name) for name in plan.naming.pointers]
    return Prepared(begin, picking(places), plan.values)


def picking(places: Sequence[int]) -> Callable[[Sequence[Any]], Sequence[Any]]:
    """Return what takes entries by their places, as a sequence even if it is one."""
    return itemgetter(*places) if len(places) > 1 else itemgetter(slice(places[0], places[0] + 1))
