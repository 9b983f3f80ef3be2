"""Calls of operations: an operation says what it launches; everything else about a call is done here.

``operation`` makes of a function that returns its launches the public function of its name, with the signature of the
record. A call is checked, its outputs are allocated, and what the operation returns is started. A call that is met for
the second time is recorded. From then on what it takes is read off its key: every check but that written arguments lie
apart, the forms of outputs and scratch memory, plans, compiled kernels, and where each pointer comes from.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

import torch

from specsim.contracts.compiled import compile_contract
from specsim.contracts.contract import Contract
from specsim.contracts.keys import ODD
from specsim.contracts.memory import check_memory
from specsim.contracts.written import define
from specsim.gpu.arrays import MEMORY, TENSORS
from specsim.gpu.launching.apart import Layout, layout_of
from specsim.gpu.launching.buffers import Call, check_entries, prepare
from specsim.gpu.launching.launcher import Described, launch
from specsim.gpu.launching.mode import PRODUCTION, current_mode
from specsim.gpu.launching.recording import record
from specsim.gpu.launching.records import FUSED, outputs_class, record_of
from specsim.gpu.launching.replay import Misplaced, Replay
from specsim.gpu.switches import checks_values
from specsim.operations import RECORDS
from specsim.operations.derived.signature import outputs_class_of, parameters_of, returns_of
from specsim.operations.record import Operation

MOST_MET = MOST_REPLAYS = 1024
"""Kinds of calls of an operation that are kept: an engine has one a batch size, and for each some lengths."""

Describe = Callable[[Call], Described]
"""Returns the launches of a checked call, on its arguments and outputs, or None where there is nothing to launch."""

DESCRIPTIONS: dict[str, Describe] = {}
"""What each operation launches, by its name, and what is launched in the place of several."""


def operation(describe: Describe) -> Callable[..., Any]:
    """Return the public function of the operation that has the name of the function that describes its launches."""
    return _head_of(describe, RECORDS[describe.__name__])


def fused(contract: Contract, source: str) -> Callable[[Describe], Callable[..., Any]]:
    """Return what makes of a description a function that workers call in the place of several operations.

    Parameters
    ----------
    contract : Contract
        What it takes and returns, in the terms of these operations.
    source : str
        Where their meaning comes from.
    """

    def make(describe: Describe) -> Callable[..., Any]:
        summary = (describe.__doc__ or "").split("\n")[0]
        FUSED[describe.__name__] = Operation(describe.__name__, "fused", summary, contract, source)
        return _head_of(describe, FUSED[describe.__name__])

    return make


def _head_of(describe: Describe, record_of_name: Operation) -> Callable[..., Any]:
    name = record_of_name.name
    DESCRIPTIONS[name] = describe
    parameters, arguments = parameters_of(record_of_name), record_of_name.contract.names
    given = ", ".join(f"{argument!r}: {argument}" for argument in arguments)
    source = f"""\
def {name}({", ".join(map(str, parameters))}) -> {returns_of(record_of_name)}:
    return _run({name!r}, {{{given}}})
"""
    scope = {"ArrayT": torch.Tensor, "Sequence": Sequence, "_run": run}
    if len(record_of_name.contract.outputs) > 1:
        scope[outputs_class_of(record_of_name)] = outputs_class(name)
    function: Callable[..., Any] = define(source, name, scope, f"head of {name}")
    function.__doc__, function.__module__ = describe.__doc__, describe.__module__
    return function


def run(name: str, arguments: Mapping[str, Any]) -> Any:
    """Carry out a call of an operation.

    Parameters
    ----------
    name : str
        The operation.
    arguments : mapping
        Every argument by name.

    Raises
    ------
    SpecRejection
        As the reference does, before anything is written.
    """
    if current_mode() is not PRODUCTION:
        return launch_into(prepare(name, arguments))
    known = known_of(name)
    try:
        identity = known.identify(arguments)
    except ODD:
        identity = None
    if identity is None:
        return launch_into(prepare(name, arguments))
    key, addresses = identity
    found = known.replays.get(key)
    if found is None:
        return known.meet(key, addresses, arguments)
    layout, replay = found
    if layout is not None and not layout.lies_apart(arguments, addresses):
        check_memory(name, known.contract, MEMORY, arguments)
    if checks_values():
        check_entries(name, arguments)
    try:
        return replay.carry_out(arguments, addresses)
    except Misplaced:
        return launch_into(prepare(name, arguments))


def launch_into(call: Call) -> Any:
    """Carry out a checked call: launch into its outputs and return them."""
    launch(DESCRIPTIONS[call.name](call))
    return call.outputs


class Known:
    """What is known of the calls of one operation."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.contract = record_of(name).contract
        self.identify = compile_contract(name, self.contract, TENSORS).identify
        self.replays: dict[tuple[Any, ...], tuple[Layout | None, Replay]] = {}
        self._met: dict[tuple[Any, ...], bool] = {}

    def meet(self, key: tuple[Any, ...], addresses: list[int], arguments: Mapping[str, Any]) -> Any:
        """Carry out a call of a key that has no replay, and record it if that has been met before."""
        call = prepare(self.name, arguments, key)
        outputs = launch_into(call)
        can_be_recorded = self._met.get(key)
        if can_be_recorded is None and len(self._met) >= MOST_MET:
            self._met.clear()
        self._met[key] = can_be_recorded is None or (can_be_recorded and self._record(key, addresses, call))
        return outputs

    def _record(self, key: tuple[Any, ...], addresses: list[int], call: Call) -> bool:
        names = [spec.name for spec in self.contract.arrays]
        recording = record(DESCRIPTIONS[self.name], call, names, addresses)
        if recording is None:
            return False
        if len(self.replays) >= MOST_REPLAYS:
            self.replays.clear()
        layout = layout_of(call.arguments, names, self.contract.writes) if self.contract.writes else None
        self.replays[key] = layout, Replay(recording, call, names)
        return True


known_of = cache(Known)
