"""The launcher: every kernel of this layer starts here.

On a GPU a launch is prepared once for each plan and each form of its buffers (device and stream; element types and
alignment to 16 bytes, which Triton specialises pointers on); after that its compiled kernel is called with addresses,
past the binder of the just-in-time compiler. Integers and constants belong to the plan. Under the interpreter the
kernel is called by name.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any

import torch
from triton.runtime import driver

from specsim.gpu.launching.blocks import INTERPRETED
from specsim.gpu.launching.mode import current_mode
from specsim.gpu.launching.plan import Plan
from specsim.gpu.launching.prepared import Prepared, form_of, start

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
        run_plans(plans, {**inputs, **outputs, **scratch})


def prepare_again(launched: Launch) -> Callable[[], None]:
    """Return a function that starts an observed launch once more, its arguments already in place."""
    buffers = launched.buffers
    if INTERPRETED:
        return partial(_interpret, (launched.plan,), buffers)
    ((begin, pick, fixed),) = run_plans((launched.plan,), buffers)
    device = _device_of(buffers)
    addresses, _ = form_of(device, driver.active.get_current_stream(device), buffers)
    return partial(begin, *pick(addresses), *fixed)


def run_plans(plans: Sequence[Plan], buffers: Buffers) -> list[Prepared]:
    """Start kernels on buffers by name, and return what starts them again; nothing does under the interpreter."""
    if INTERPRETED:
        _interpret(plans, buffers)
        return []
    device = _device_of(buffers)
    if device == torch.cuda.current_device():
        return start(plans, buffers, device, driver.active.get_current_stream(device))
    with torch.cuda.device(device):
        return start(plans, buffers, device, driver.active.get_current_stream(device))


def _interpret(plans: Sequence[Plan], buffers: Buffers) -> None:
    # NOTE: where kernels are compiled, nothing of Triton's interpreter is needed, nor has to be there.
    from specsim.gpu.launching.interpreter import interpret

    interpret((plan, plan.arguments(buffers)) for plan in plans)


def _device_of(buffers: Buffers) -> int:
    first = next(iter(buffers.values()))
    return (first[0] if isinstance(first, tuple) else first).get_device()
