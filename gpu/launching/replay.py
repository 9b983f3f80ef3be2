"""Carry a recorded call out: allocate its outputs and start its kernels on addresses.

Nothing is checked here: a call of equal key has passed every check.
"""

from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from typing import Any, NamedTuple

import torch
from triton import knobs
from triton.runtime import driver

from specsim.gpu.launching.allocation import allocate_bytes, allocator_of
from specsim.gpu.launching.blocks import INTERPRETED
from specsim.gpu.launching.buffers import Call, poison
from specsim.gpu.launching.launcher import run_plans
from specsim.gpu.launching.pointers import tensors_of
from specsim.gpu.launching.prepared import Prepared, picking
from specsim.gpu.launching.recording import Part, Parts, Recording
from specsim.gpu.switches import poison_pattern

MOST_STREAMS = 16
"""Streams of which a replay keeps started launches: an engine has a few."""

Pick = Callable[[Sequence[Any]], Sequence[Any]]
Started = tuple[tuple[Callable[..., None], Pick, tuple[Any, ...]], ...]


class Misplaced(Exception):
    """A part of a tensor starts within an entry of its storage, so that it has an address but is no view."""


class Replay:
    """What carries out calls that equal a recorded one.

    Parameters
    ----------
    recording : Recording
        What is launched.
    call : Call
        The call that was recorded, with its outputs.
    names : sequence of str
        Arguments that are tensors or lists of tensors.
    """

    def __init__(self, recording: Recording, call: Call, names: Sequence[str]) -> None:
        outputs = call.outputs if isinstance(call.outputs, tuple) else (call.outputs,)
        self._recording = recording
        self._names = tuple(names)
        self._index = -1 if call.device.index is None else call.device.index
        self._allocate = allocator_of(call.device)
        self._forms = tuple(
            (tuple(output.shape), output.stride(), output.dtype) for output in outputs if output is not None
        )
        self._pack = _packing_of(call.outputs)
        self._num_scratch_bytes = recording.num_scratch_bytes
        num_roots = len(tensors_of(call.arguments, names)) + len(self._forms) + bool(self._num_scratch_bytes)
        self._pointers = _lay_out(recording, num_roots)
        self._started: dict[int, Started] = {}

    def carry_out(self, arguments: Mapping[str, Any], addresses: list[Any]) -> Any:
        """Allocate outputs, launch, and return them.

        Parameters
        ----------
        addresses : list
            Addresses of the tensors among the arguments; others are appended.

        Raises
        ------
        Misplaced
            Nothing has been launched.
        """
        if self._index >= 0 and torch.cuda.current_device() != self._index:
            with torch.cuda.device(self._index):
                return self.carry_out(arguments, addresses)
        allocate = self._allocate
        outputs = [allocate(*form) for form in self._forms]
        # NOTE: this is the short way of every call, so that nothing is called where nothing is to be filled.
        pattern = poison_pattern()
        if pattern is not None:
            poison(outputs, pattern)
        if INTERPRETED:
            self._start_by_name(arguments, outputs)
        else:
            self._start(arguments, addresses, outputs)
        return self._pack(outputs)

    def _start(self, arguments: Mapping[str, Any], addresses: list[Any], outputs: list[torch.Tensor]) -> None:
        stream = driver.active.get_current_stream(self._index)
        started = self._started.get(stream)
        if started is None or knobs.runtime.launch_enter_hook.calls or knobs.runtime.launch_exit_hook.calls:
            # NOTE: profilers listen at the compiler's own door.
            prepared = self._start_by_name(arguments, outputs)
            if len(self._started) >= MOST_STREAMS:
                self._started.clear()
            picks = self._pointers.picks
            self._started[stream] = tuple(
                (one.begin, pick, one.fixed) for one, pick in zip(prepared, picks, strict=True)
            )
            return
        addresses += [output.data_ptr() for output in outputs]
        if self._num_scratch_bytes:
            # NOTE: it may be given back while kernels are queued: who gets it next queues after them.
            scratch = self._scratch()
            addresses.append(scratch.data_ptr())
        _, offsets, tuples = self._pointers
        if offsets:
            addresses += [addresses[root] + offset for root, offset in offsets]
        if tuples:
            addresses += [tuple(pick(addresses)) for pick in tuples]
        addresses.append(None)
        for begin, pick, fixed in started:
            begin(*pick(addresses), *fixed)

    def _scratch(self) -> torch.Tensor:
        scratch = allocate_bytes(self._allocate, self._num_scratch_bytes)
        pattern = poison_pattern()
        if pattern is not None:
            poison([scratch], pattern)
        return scratch

    def _start_by_name(self, arguments: Mapping[str, Any], outputs: list[torch.Tensor]) -> list[Prepared]:
        """Launch on tensors, as a kernel is compiled and as the interpreter needs it."""
        roots: list[Any] = [*tensors_of(arguments, self._names), *outputs]
        if self._num_scratch_bytes:
            roots.append(self._scratch())
        groups = [
            ([plan], {name: _buffer_of(roots, part) for name, part in parts.items()})
            for plan, parts in self._recording.launches
        ]
        return run_plans(groups)


class _Pointers(NamedTuple):
    """How the pointers of launches follow from the addresses of roots.

    After those stand the addresses of parts that do not start with a root (``offsets``: which, and how many bytes
    later), then tuples of addresses, then None; ``picks`` take from all these what one launch needs.
    """

    picks: tuple[Pick, ...]
    offsets: tuple[tuple[int, int], ...]
    tuples: tuple[Pick, ...]


def _lay_out(recording: Recording, num_roots: int) -> _Pointers:
    used = [parts for _, buffers in recording.launches for parts in buffers.values()]
    singles = [part for parts in used for part in (parts if not isinstance(parts, Part) else (parts,))]
    offsets = list(dict.fromkeys((part.root, part.offset) for part in singles if part.offset))
    tuples = list(dict.fromkeys(parts for parts in used if not isinstance(parts, Part)))
    nothing = num_roots + len(offsets) + len(tuples)

    def place(parts: Parts | None) -> int:
        if parts is None:
            return nothing
        if not isinstance(parts, Part):
            return num_roots + len(offsets) + tuples.index(parts)
        return num_roots + offsets.index((parts.root, parts.offset)) if parts.offset else parts.root

    picks = tuple(
        picking([place(None if name is None else buffers[name]) for name in plan.naming.pointers])
        for plan, buffers in recording.launches
    )
    return _Pointers(picks, tuple(offsets), tuple(picking([place(part) for part in parts]) for parts in tuples))


def _packing_of(outputs: Any) -> Callable[[list[torch.Tensor]], Any]:
    """Return what makes of the outputs that are not absent what the operation returns."""
    if outputs is None:
        return lambda given: None
    if isinstance(outputs, torch.Tensor):
        return itemgetter(0)
    make: Callable[[Any], Any] = outputs._make
    is_given = [output is not None for output in outputs]
    if all(is_given):
        return make

    def pack(given: list[torch.Tensor]) -> Any:
        remaining = iter(given)
        return make([next(remaining) if has else None for has in is_given])

    return pack


def _buffer_of(roots: Sequence[Any], parts: Parts) -> Any:
    if isinstance(parts, Part):
        return view_of(roots[parts.root], parts)
    return tuple(view_of(roots[part.root], part) for part in parts)


def view_of(root: torch.Tensor, part: Part) -> torch.Tensor:
    """View a part of a tensor.

    Raises
    ------
    Misplaced
        It starts within an entry of the storage.
    """
    start = root.storage_offset() * root.itemsize + part.offset
    if start % part.dtype.itemsize:
        raise Misplaced
    view = torch.empty(0, dtype=part.dtype, device=root.device)
    return view.set_(root.untyped_storage(), start // part.dtype.itemsize, part.shape, part.strides)
