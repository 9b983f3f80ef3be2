"""The launcher: every kernel of this layer starts here.

On a GPU a launch is prepared once for each plan and each form of its buffers (device and stream; element types and
alignment to 16 bytes, which Triton specialises pointers on); after that its compiled kernel is called with addresses,
past the binder of the just-in-time compiler. Integers and constants belong to the plan. Under the interpreter the
kernel is called by name.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any

import torch
from triton.runtime import driver

from specsim.gpu.launching.blocks import INTERPRETED
from specsim.gpu.launching.mode import current_mode
from specsim.gpu.launching.plan import Plan
from specsim.gpu.launching.prepared import Form, Prepared, form_of, start

Buffer = torch.Tensor | tuple[torch.Tensor, ...]
Buffers = Mapping[str, Buffer]
NOTHING: Buffers = MappingProxyType({})


@dataclass(frozen=True)
class Launch:
    """One launch as an observer sees it: what is planned, and the buffers by name."""

    plan: Plan
    inputs: Buffers
    outputs: Buffers
    scratch: Buffers

    @property
    def buffers(self) -> Buffers:
        """All buffers by name."""
        return {**self.inputs, **self.outputs, **self.scratch}

    @property
    def arguments(self) -> dict[str, Any]:
        """Every argument of the kernel by the name of its parameter, in order."""
        return self.plan.arguments(self.buffers)


def launch(*plans: Plan, inputs: Buffers, outputs: Buffers, scratch: Buffers = NOTHING) -> None:
    """Start kernels one after another on buffers that they share.

    Parameters
    ----------
    *plans : Plan
        Each takes the buffers that it has parameters for.
    inputs, outputs, scratch : mapping
        Buffers by name: those that are only read, those that hold what the operation writes, and those that are
        forgotten afterwards.
    """
    mode = current_mode()
    if mode.observer is not None:
        for plan in plans:
            mode.observer(Launch(plan, inputs, outputs, scratch))
    if mode.runs:
        _run(plans, {**inputs, **outputs, **scratch})


def prepare_again(launched: Launch) -> Callable[[], None]:
    """Return a function that starts an observed launch once more, its arguments already in place."""
    buffers = launched.buffers
    if INTERPRETED:
        return partial(run_plan, launched.plan, buffers)
    run_plan(launched.plan, buffers)
    begin, pick, fixed = prepared_of(launched.plan, buffers)
    return partial(begin, *pick(_form_of(buffers)[0]), *fixed)


def run_plan(plan: Plan, buffers: Buffers) -> None:
    """Start one kernel."""
    _run((plan,), buffers)


def prepared_of(plan: Plan, buffers: Buffers) -> Prepared:
    """Return what was prepared when a plan was last started on buffers of this form, on the current stream."""
    prepared: Prepared = plan.prepared[_form_of(buffers)[1]]
    return prepared


def _form_of(buffers: Buffers) -> tuple[list[Any], Form]:
    device = _device_of(buffers)
    return form_of(device, driver.active.get_current_stream(device), buffers)


def _run(plans: tuple[Plan, ...], buffers: Buffers) -> None:
    if INTERPRETED:
        for plan in plans:
            plan.kernel[plan.grid](**plan.arguments(buffers), num_warps=plan.num_warps, **plan.options)
        return
    device = _device_of(buffers)
    if device == torch.cuda.current_device():
        start(plans, buffers, device, driver.active.get_current_stream(device))
    else:
        with torch.cuda.device(device):
            start(plans, buffers, device, driver.active.get_current_stream(device))


def _device_of(buffers: Buffers) -> int:
    first = next(iter(buffers.values()))
    return (first[0] if isinstance(first, tuple) else first).get_device()
