"""The launcher: every kernel of this layer starts here.

On a GPU a kernel is compiled once for each kind of plan and each form of its buffers (device and stream; element types
and alignment to 16 bytes, which Triton specialises pointers on); after that the compiled kernel is called with
addresses, past the binder of the just-in-time compiler. Integers and constants belong to the plan. Under the
interpreter the kernel is called by name.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby
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
Groups = Sequence[tuple[Sequence[Plan], Buffers]]
"""Plans with the buffers that they share."""

NOTHING: Buffers = MappingProxyType({})


@dataclass(frozen=True)
class Launch:
    """One launch: what is planned, and the buffers by name; other launches of a call may share them.

    Parameters
    ----------
    inputs, outputs, scratch : mapping
        Buffers that are only read, those that hold what the operation writes, and those that are forgotten afterwards;
        the plan takes those that its kernel has parameters for.
    """

    plan: Plan
    inputs: Buffers
    outputs: Buffers
    scratch: Buffers = field(default_factory=lambda: NOTHING)

    @property
    def buffers(self) -> Buffers:
        """All buffers by name."""
        return {**self.inputs, **self.outputs, **self.scratch}

    @property
    def arguments(self) -> dict[str, Any]:
        """Every argument of the kernel by the name of its parameter, in order."""
        return self.plan.arguments(self.buffers)


Described = Launch | Sequence[Launch] | None
"""What an operation launches, one after another."""


def launches_of(described: Described) -> Sequence[Launch]:
    """Return what an operation launches as a sequence.

    Raises
    ------
    TypeError
        Something else was described.
    """
    if described is None:
        return ()
    launches = (described,) if isinstance(described, Launch) else described
    if not isinstance(launches, list | tuple) or not all(isinstance(one, Launch) for one in launches):
        raise TypeError(f"an operation returns its launches, not {type(described).__name__}")
    return launches


def launch(described: Described) -> None:
    """Start what an operation launches, and show it to an observer first."""
    launches, mode = launches_of(described), current_mode()
    if mode.observer is not None:
        for one in launches:
            mode.observer(one)
    if mode.runs:
        run_plans([([one.plan for one in group], group[0].buffers) for group in _by_buffers(launches)])


def _by_buffers(launches: Sequence[Launch]) -> list[list[Launch]]:
    """Return the launches in groups of neighbours that share all their buffers, of which forms are found out once."""
    groups = groupby(launches, key=lambda one: (id(one.inputs), id(one.outputs), id(one.scratch)))
    return [list(group) for _, group in groups]


def prepare_again(launched: Launch) -> Callable[[], None]:
    """Return a function that starts an observed launch once more, its arguments already in place."""
    groups = [([launched.plan], launched.buffers)]
    if INTERPRETED:
        return partial(_interpret, groups)
    ((begin, pick, fixed),) = run_plans(groups)
    device = _device_of(launched.buffers)
    addresses, _ = form_of(device, driver.active.get_current_stream(device), launched.buffers)
    return partial(begin, *pick(addresses), *fixed)


def run_plans(groups: Groups) -> list[Prepared]:
    """Start kernels on buffers by name, and return what starts them again; nothing does under the interpreter."""
    if INTERPRETED:
        _interpret(groups)
        return []
    prepared: list[Prepared] = []
    for plans, buffers in groups:
        device = _device_of(buffers)
        if device == torch.cuda.current_device():
            prepared += start(plans, buffers, device, driver.active.get_current_stream(device))
            continue
        with torch.cuda.device(device):
            prepared += start(plans, buffers, device, driver.active.get_current_stream(device))
    return prepared


def _interpret(groups: Groups) -> None:
    # NOTE: where kernels are compiled, nothing of Triton's interpreter is needed, nor has to be there.
    from specsim.gpu.launching.interpreter import interpret

    interpret((plan, plan.arguments(buffers)) for plans, buffers in groups for plan in plans)


def _device_of(buffers: Buffers) -> int:
    first = next(iter(buffers.values()))
    return (first[0] if isinstance(first, tuple) else first).get_device()
