"""CUDA graphs without a GPU: what a capture launches is recorded with its arguments frozen, and replayed here.

A simulated graph keeps of every launch what a CUDA graph keeps: addresses of tensors, and Python's numbers. A capture
runs nothing. What it allocates lies in memory that graphs share, between guard zones, and each replay poisons it first:
nothing is there to rely on before the graph has written it. What was allocated before the capture is not kept alive. A
host that waits for the device during a capture, or brings it an array, is refused, as it is on a GPU.
"""

import ctypes
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.multiprocessing.reductions import StorageWeakRef
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes
from torch.utils._pytree import tree_leaves, tree_map_only

from specsim.gpu.launching.launcher import Buffer, Launch, run_plans
from specsim.gpu.launching.mode import current_mode, launching
from specsim.gpu.switches import capturing

GUARD = 64
"""Bytes on either side of what a capture allocates, which nothing writes; allocations are aligned to as many."""

GUARD_BYTE = 0xA5
POISON = 1
"""What fresh integers hold, small enough for an index; numbers with a fraction are NaN."""

ATEN = torch.ops.aten
INDEXING = (ATEN.index.Tensor, ATEN.index_put_.default, ATEN.index_put.default)
"""Functions that wait for the device where an index is a mask."""

WAITING = (torch.Tensor.cpu, torch.Tensor.numpy, torch.Tensor.tolist, torch.Tensor.__array__)
"""Methods that bring entries to the host and that torch dispatches no function for."""


class CaptureError(RuntimeError):
    """A capture does what no graph can hold, or a replay touches memory that it must not."""


class Owner:
    """Notices when a storage is freed, and does not keep it.

    ``key`` is no other storage's as long as this lives.
    """

    def __init__(self, tensor: torch.Tensor) -> None:
        self._storage = StorageWeakRef(tensor.untyped_storage())  # type: ignore[no-untyped-call]
        self.key = int(self._storage.cdata)

    @property
    def is_gone(self) -> bool:
        """Whether the storage has been freed."""
        return bool(self._storage.expired())  # type: ignore[no-untyped-call]


@dataclass(frozen=True, eq=False)
class Block:
    """Memory of a capture: its bytes with a guard on either side, and the entries between as the graph sees them.

    ``owner`` is the storage that the captured code holds; when it is gone, a later capture may be given the memory.
    """

    guarded: NDArray[np.uint8]
    entries: torch.Tensor
    owner: Owner

    def poison(self) -> None:
        """Write what nothing may rely on."""
        self.entries.fill_(torch.nan if self.entries.is_floating_point() else POISON)

    @property
    def is_overrun(self) -> bool:
        """Whether a guard has been written."""
        return bool((self.guarded[:GUARD] != GUARD_BYTE).any() or (self.guarded[-GUARD:] != GUARD_BYTE).any())


@dataclass(frozen=True, eq=False)
class Memory:
    """What graphs share: the blocks of their captures, by the storages that own them."""

    blocks: dict[int, Block] = field(default_factory=dict)


class SimulatedGraph:
    """A graph with the methods of ``torch.cuda.CUDAGraph`` that workers use, and its capture."""

    def __init__(self) -> None:
        self._memory = Memory()
        self._steps: list[Callable[[], object]] = []
        self._frozen: dict[int, tuple[Owner, torch.Tensor]] = {}
        self._scalars: list[torch.Tensor] = []
        self._poisoned: list[Block] = []

    @property
    def num_launches(self) -> int:
        """How many kernels, and functions of torch that launch some, a replay runs."""
        return len(self._steps)

    def pool(self) -> Memory:
        """Return the memory that other captures may share."""
        return self._memory

    @contextmanager
    def capture(self, pool: Memory | None = None) -> Iterator[None]:
        """Record what the block launches, and run nothing of it.

        Parameters
        ----------
        pool : Memory or None
            That of an earlier graph, to be shared.

        Raises
        ------
        CaptureError
            The host waits for the device, or brings it an array.
        """
        self._memory = Memory() if pool is None else pool
        before = set(self._memory.blocks)
        blocks = current_mode().blocks
        with capturing(), launching(self._record_launch, runs=False, blocks=blocks), _Refusing(), _Recording(self):
            yield
        # NOTE: where the owner of an earlier block is gone, this graph may have been given its memory.
        self._poisoned = [
            block for key, block in self._memory.blocks.items() if key not in before or block.owner.is_gone
        ]

    def replay(self) -> None:
        """Run what was recorded, on the memory and with the numbers of the capture.

        Raises
        ------
        CaptureError
            A tensor that was there before the capture has been freed; a guard has been written.
        """
        if any(owner.is_gone for key, (owner, _) in self._frozen.items() if key not in self._memory.blocks):
            raise CaptureError("the graph uses a tensor that was allocated outside of a capture, and has been freed")
        for block in self._poisoned:
            block.poison()
        for step in self._steps:
            step()
        if any(block.is_overrun for block in self._memory.blocks.values()):
            raise CaptureError("the graph wrote past a tensor that was allocated in a capture")

    def record(self, function: Any, arguments: Sequence[Any], named: dict[str, Any]) -> Any:
        """Record a function that torch dispatches, and return what it would return, in memory of the graph."""
        _require_no_wait(function, arguments, named)
        if function is ATEN.lift_fresh.default:
            self._scalars += arguments
        if function.is_view or function is ATEN._unsafe_view.default or torch.Tag.inplace_view in function.tags:
            return function(*arguments, **named)
        given = tree_map_only(torch.Tensor, self._freeze, (list(arguments), named))
        if function._schema.is_mutable:
            self._steps.append(partial(_call, function, *given))
            return _written_by(function, arguments, named)
        outputs = tree_map_only(torch.Tensor, self._allocate, _call(function, *_on_meta(arguments, named)))
        if not function.__name__.startswith(("empty", "new_empty")):
            there = tree_map_only(torch.Tensor, self._freeze, outputs)
            self._steps.append(partial(_call_into, there, function, *given))
        return outputs

    def _record_launch(self, launch: Launch) -> None:
        # NOTE: the recording is on while a launch is observed, and freezing is none of what is captured.
        with _disable_current_modes():
            buffers = {name: self._freeze_buffer(buffer) for name, buffer in launch.buffers.items()}
        self._steps.append(partial(run_plans, [([launch.plan], buffers)]))

    def _freeze_buffer(self, buffer: Buffer) -> Buffer:
        return tuple(map(self._freeze, buffer)) if isinstance(buffer, tuple) else self._freeze(buffer)

    def _freeze(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return a tensor at the same address that does not keep its memory alive."""
        storage = tensor.untyped_storage()
        if not storage.nbytes():
            return tensor
        owner = Owner(tensor)
        if owner.key not in self._frozen:
            memory = (ctypes.c_byte * storage.nbytes()).from_address(storage.data_ptr())
            self._frozen[owner.key] = owner, torch.frombuffer(memory, dtype=torch.uint8)
        _, entries = self._frozen[owner.key]
        return _view_of(entries, tensor)

    def _allocate(self, form: torch.Tensor) -> torch.Tensor:
        """Return a tensor of this form in memory of the graph."""
        num_bytes = form.untyped_storage().nbytes()
        if not num_bytes:
            return torch.empty_strided(form.shape, form.stride(), dtype=form.dtype)
        fresh = np.full(num_bytes + 3 * GUARD, GUARD_BYTE, dtype=np.uint8)
        begin = -fresh.ctypes.data % GUARD
        guarded = fresh[begin : begin + num_bytes + 2 * GUARD]
        bytes_ = torch.frombuffer(guarded[GUARD:-GUARD], dtype=torch.uint8)
        owner = Owner(bytes_)
        block = Block(guarded, torch.frombuffer(guarded[GUARD:-GUARD], dtype=form.dtype), owner)
        block.poison()
        self._memory.blocks[owner.key] = block
        return _view_of(bytes_, form)


class _Recording(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Hands what torch dispatches to a graph."""

    def __init__(self, graph: SimulatedGraph) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._graph = graph

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return self._graph.record(func, args, kwargs or {})


class _Refusing(TorchFunctionMode):
    """Refuses methods that wait for the device."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in WAITING:
            raise CaptureError(f"the host waits for the device during a capture: {func.__name__}")
        return func(*args, **(kwargs or {}))


def _require_no_wait(function: Any, arguments: Sequence[Any], named: dict[str, Any]) -> None:
    """Raise where a function waits for the device on a GPU, or copies an array of the host to it."""
    waits = not {torch.Tag.dynamic_output_shape, torch.Tag.data_dependent_output}.isdisjoint(function.tags)
    if function in INDEXING:
        has_masks = any(one is not None and one.dtype in (torch.bool, torch.uint8) for one in arguments[1])
        # NOTE: one value is filled in under a mask, whose places no host has to know.
        waits = has_masks and (function is ATEN.index.Tensor or arguments[2].numel() > 1)
    if function is ATEN.repeat_interleave.Tensor and named.get("output_size") is not None:
        waits = False
    if waits:
        raise CaptureError(f"the host waits for the device during a capture: {function}")
    if function is ATEN.lift_fresh.default and arguments[0].dim():
        raise CaptureError("an array of the host is brought to the device during a capture")


def _on_meta(arguments: Sequence[Any], named: dict[str, Any]) -> tuple[Any, Any]:
    """Return arguments of which tensors have no memory, to find out the form of outputs."""
    on_meta, on_meta_named = tree_map_only(
        torch.Tensor,
        lambda one: torch.empty_strided(one.shape, one.stride(), dtype=one.dtype, device="meta"),
        (list(arguments), dict(named)),
    )
    return on_meta, on_meta_named | ({"device": torch.device("meta")} if "device" in named else {})


def _call(function: Any, arguments: Sequence[Any], named: dict[str, Any]) -> Any:
    return function(*arguments, **named)


def _call_into(there: Any, function: Any, arguments: Sequence[Any], named: dict[str, Any]) -> None:
    """Call a function and copy its outputs to where the capture has put them."""
    outputs = tree_leaves(function(*arguments, **named))
    for target, output in zip(tree_leaves(there), outputs, strict=True):
        target.copy_(output)


def _written_by(function: Any, arguments: Sequence[Any], named: dict[str, Any]) -> Any:
    """Return what a function that writes into its arguments returns: these."""
    schema = function._schema
    given = [*arguments, *[named.get(one.name) for one in schema.arguments[len(arguments) :]]]
    written = [
        value
        for one, value in zip(schema.arguments, given, strict=True)
        if one.alias_info is not None and one.alias_info.is_write
    ]
    if len(schema.returns) < 2:
        return written[0] if schema.returns else None
    return tuple(written)


def _view_of(memory: torch.Tensor, form: torch.Tensor) -> torch.Tensor:
    view = torch.empty(0, dtype=form.dtype)
    return view.set_(memory.untyped_storage(), form.storage_offset(), form.shape, form.stride())
