"""Calls of operations: check, allocate, launch; and what equals an earlier call is done as that one.

A call that is met for the second time is recorded. From then on what it takes is read off its key: every check but that
written arguments lie apart, the forms of outputs and scratch memory, plans, compiled kernels, and where each pointer
comes from.
"""

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, TypeVar

from specsim.contracts.memory import check_memory
from specsim.gpu.arrays import MEMORY
from specsim.gpu.launching.apart import Layout, layout_of
from specsim.gpu.launching.buffers import Call, check_entries, prepare
from specsim.gpu.launching.identity import identify_by
from specsim.gpu.launching.mode import PRODUCTION, current_mode
from specsim.gpu.launching.recording import record
from specsim.gpu.launching.replay import Misplaced, Replay
from specsim.gpu.switches import checks_values
from specsim.operations import RECORDS

MOST_MET = MOST_REPLAYS = 1024
"""Kinds of calls of an operation that are kept: an engine has one a batch size, and for each some lengths."""

T = TypeVar("T")


def run(name: str, launch: Callable[[Call], T], arguments: Mapping[str, Any]) -> T:
    """Carry out a call of an operation.

    Parameters
    ----------
    name : str
        The operation.
    launch : callable
        Launches into the buffers of a checked call and returns its outputs.
    arguments : mapping
        Every argument by name, as a host function's ``locals()`` gives them.

    Raises
    ------
    SpecRejection
        As the reference does, before anything is written.
    """
    if current_mode() is not PRODUCTION:
        return launch(prepare(name, arguments))
    known = known_of(name)
    try:
        identity = known.identify(arguments)
    except (AttributeError, IndexError, KeyError, RuntimeError, TypeError):
        identity = None
    if identity is None:
        return launch(prepare(name, arguments))
    key, addresses = identity
    found = known.replays.get(key)
    if found is None:
        return known.meet(key, addresses, arguments, launch)
    layout, replay = found
    if layout is not None and not layout.lies_apart(arguments, addresses):
        check_memory(name, known.contract, MEMORY, arguments)
    if checks_values():
        check_entries(name, arguments)
    try:
        outputs: T = replay.carry_out(arguments, addresses)
    except Misplaced:
        return launch(prepare(name, arguments))
    return outputs


class Known:
    """What is known of the calls of one operation."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.contract = RECORDS[name].contract
        self.identify = identify_by(self.contract)
        self.replays: dict[tuple[Any, ...], tuple[Layout | None, Replay]] = {}
        self._met: dict[tuple[Any, ...], bool] = {}

    def meet(
        self, key: tuple[Any, ...], addresses: list[int], arguments: Mapping[str, Any], launch: Callable[[Call], T]
    ) -> T:
        """Carry out a call of a key that has no replay, and record it if that has been met before."""
        call = prepare(self.name, arguments)
        outputs = launch(call)
        can_be_recorded = self._met.get(key)
        if can_be_recorded is None and len(self._met) >= MOST_MET:
            self._met.clear()
        self._met[key] = can_be_recorded is None or (can_be_recorded and self._record(key, addresses, call, launch))
        return outputs

    def _record(self, key: tuple[Any, ...], addresses: list[int], call: Call, launch: Callable[[Call], Any]) -> bool:
        names = [spec.name for spec in self.contract.arrays]
        recording = record(launch, call, names, addresses)
        if recording is None:
            return False
        if len(self.replays) >= MOST_REPLAYS:
            self.replays.clear()
        layout = layout_of(call.arguments, names, self.contract.writes) if self.contract.writes else None
        self.replays[key] = layout, Replay(recording, call, names)
        return True


known_of = cache(Known)
