"""Triton's interpreter with a watch on its memory.

What lies outside of every tensor is reported and not touched, and so is fresh memory that is read before it is written.
"""

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
import triton.runtime.interpreter as interpreter

from specsim.gpu.launching import buffers, replay

BUILDER, EXECUTOR = interpreter.InterpreterBuilder, interpreter.GridExecutor


@dataclass
class Memory:
    """The memory that kernels may touch, and every access that is none: function of the kernel, and what it did."""

    ranges: list[tuple[int, int]] = field(default_factory=list)
    outside: set[tuple[str, str]] = field(default_factory=set)
    fresh: dict[int, np.ndarray] = field(default_factory=dict)
    """Which bytes of outputs and scratch memory have been written, by address."""
    unwritten: set[str] = field(default_factory=set)
    """Functions of kernels that read others of those bytes."""

    def allow(self, values: Iterable) -> None:
        """Let kernels touch tensors, and those in lists."""
        for value in values:
            if isinstance(value, torch.Tensor):
                storage = value.untyped_storage()
                self.ranges.append((storage.data_ptr(), storage.data_ptr() + storage.nbytes()))
            elif isinstance(value, list | tuple):
                self.allow(value)

    def begin(self, tensors: Iterable) -> None:
        """Take tensors as fresh memory."""
        for tensor in tensors:
            if tensor is not None and tensor.numel() and not tensor.is_meta:
                self.fresh[tensor.data_ptr()] = np.zeros(tensor.untyped_storage().nbytes(), dtype=bool)

    def masked(self, what: str, pointers, mask, num_bytes: int):
        """Return the mask without the accesses that lie outside."""
        places = pointers.data.astype(np.int64)
        inside = [(first <= places) & (places + num_bytes <= end) for first, end in self.ranges]
        wrong = mask.data.astype(bool) & ~np.any([np.zeros_like(places, dtype=bool), *inside], axis=0)
        if not wrong.any():
            return mask
        self.outside.add((_place(), what))
        return interpreter.TensorHandle(mask.data.astype(bool) & ~wrong, interpreter.tl.int1)

    def read(self, pointers, mask) -> None:
        """Note which fresh memory is read."""
        for start, written in self.fresh.items():
            offset = pointers.data.astype(np.int64) - start
            is_here = mask.data.astype(bool) & (offset >= 0) & (offset < len(written))
            if not written[offset[is_here]].all():
                self.unwritten.add(_place())

    def write(self, pointers, mask, num_bytes: int) -> None:
        """Note which fresh memory is written."""
        for start, written in self.fresh.items():
            offset = pointers.data.astype(np.int64) - start
            is_here = mask.data.astype(bool) & (offset >= 0) & (offset < len(written))
            written[offset[is_here][:, None] + np.arange(num_bytes)] = True


@contextmanager
def watched_memory(monkeypatch) -> Iterator[Memory]:
    """Watch every load, store and atomic operation while the block runs; arguments of a launch may be touched."""
    memory = Memory()
    load, store, add, launch = (
        BUILDER.create_masked_load,
        BUILDER.create_masked_store,
        BUILDER.create_atomic_rmw,
        EXECUTOR._init_args_hst,
    )

    def width(pointers) -> int:
        return np.dtype(interpreter._get_np_dtype(pointers.get_element_ty())).itemsize

    def watched_load(self, pointers, mask, *others):
        inside = memory.masked("load", pointers, mask, width(pointers))
        memory.read(pointers, inside)
        return load(self, pointers, inside, *others)

    def watched_store(self, pointers, value, mask, *others):
        inside = memory.masked("store", pointers, mask, width(pointers))
        memory.write(pointers, inside, width(pointers))
        return store(self, pointers, value, inside, *others)

    def watched_add(self, kind, pointers, value, mask, *others):
        inside = memory.masked("atomic", pointers, mask, width(pointers))
        if kind is not interpreter._ir.ATOMIC_OP.XCHG:
            memory.read(pointers, inside)
        memory.write(pointers, inside, width(pointers))
        return add(self, kind, pointers, value, inside, *others)

    def watched_launch(self, arguments, named):
        on_host = launch(self, arguments, named)
        memory.allow([*on_host[0], *on_host[1].values()])
        return on_host

    with monkeypatch.context() as patch:
        patch.setattr(BUILDER, "create_masked_load", watched_load)
        patch.setattr(BUILDER, "create_masked_store", watched_store)
        patch.setattr(BUILDER, "create_atomic_rmw", watched_add)
        patch.setattr(EXECUTOR, "_init_args_hst", watched_launch)
        for module in (buffers, replay):
            patch.setattr(module, "poison", lambda tensors, pattern: memory.begin(tensors))
        yield memory


def _place() -> str:
    """Return the function of a kernel that is being interpreted."""
    frame = sys._getframe(1)
    home = Path(interpreter.__file__).parent.parent
    while frame is not None and (
        frame.f_code.co_filename == __file__ or home in Path(frame.f_code.co_filename).parents
    ):
        frame = frame.f_back
    return "" if frame is None else frame.f_code.co_name
