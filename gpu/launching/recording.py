"""Record what a call launches: once, on tensors without memory, as for the compilation ahead of time.

Every argument and output is a tensor of its own on the ``meta`` device, so that a buffer of a launch shows of which of
them it is a view and where it starts. What is recorded follows from sizes, strides, element types, scalars and the
lowest bits of addresses alone. A call that copies or writes entries itself, beside its launches, cannot be recorded:
then a buffer of a launch is none of those tensors, or one of them counts another version.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, NamedTuple

import torch

from specsim.contracts.keys import POINTER_ALIGNMENT
from specsim.gpu.launching.buffers import Call
from specsim.gpu.launching.launcher import Described, launches_of
from specsim.gpu.launching.mode import launching
from specsim.gpu.launching.plan import Plan
from specsim.gpu.launching.pointers import KVBuffers
from specsim.rejection import SpecRejection

SCRATCH_ALIGNMENT = 128
"""Bytes: each scratch buffer starts with a line of the cache."""


class Unrecordable(Exception):
    """A call does more than to view, to allocate scratch memory, and to launch."""


class Part(NamedTuple):
    """A buffer of a launch as a view: of which root, from which byte of it on, and how its entries lie."""

    root: int
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: torch.dtype


Parts = Part | tuple[Part, ...]


@dataclass(frozen=True)
class Recording:
    """The launches of a call, on parts of roots: its arguments, its outputs, and one buffer of scratch, in that order.

    Parameters
    ----------
    launches : tuple
        Each with its buffers by name.
    num_scratch_bytes : int
        Bytes of the last root, 0 if there is none.
    """

    launches: tuple[tuple[Plan, Mapping[str, Parts]], ...]
    num_scratch_bytes: int


def record(
    describe: Callable[[Call], Described], call: Call, names: Sequence[str], addresses: Sequence[int]
) -> Recording | None:
    """Record the launches of a call that has been carried out, or return None where that cannot be done.

    Parameters
    ----------
    describe : callable
        Returns the launches of a call.
    names : sequence of str
        Arguments that are tensors or lists of tensors.
    addresses : sequence of int
        Their addresses, 0 where one is absent.
    """
    roots = _Roots(addresses)
    try:
        # NOTE: tensors of inference mode count no versions.
        with torch.inference_mode(False), launching(runs=False):
            arguments = {**call.arguments, **{name: roots.of_argument(call.arguments[name]) for name in names}}
            blank = call._replace(
                arguments=arguments, outputs=roots.of_outputs(call.outputs), device=torch.device("meta"), allocated=[]
            )
            described = describe(blank)
        roots.add_scratch(blank.allocated)
        launches = tuple(
            (one.plan, {name: roots.parts_of(buffer) for name, buffer in one.buffers.items()})
            for one in launches_of(described)
        )
        roots.require_untouched()
    except (Unrecordable, SpecRejection):
        return None
    return Recording(launches, roots.num_scratch_bytes)


class _Roots:
    """Stand-ins for the tensors of a call, distinguished by their storage."""

    def __init__(self, addresses: Sequence[int]) -> None:
        self.num_scratch_bytes = 0
        self._num_roots = 0
        self._addresses = iter(addresses)
        self._starts: dict[int, tuple[int, int]] = {}
        self._kept: list[tuple[torch.Tensor, int]] = []

    def of_argument(self, value: Any) -> Any:
        """Return what stands for an argument, its address as far from a multiple of 16 bytes as the argument's."""
        if isinstance(value, KVBuffers):
            return value.stand_in([self.of_argument(one) for one in value.tensors])
        if isinstance(value, list | tuple):
            return [self.of_argument(one) for one in value]
        residue = next(self._addresses) % POINTER_ALIGNMENT
        if value is None:
            self._num_roots += 1
            return None
        return self._add(value, residue)

    def of_outputs(self, outputs: Any) -> Any:
        """Return what stands for outputs."""
        if outputs is None:
            return None
        if isinstance(outputs, torch.Tensor):
            return self._add(outputs, 0)
        return outputs._make(map(self.of_outputs, outputs))

    def add_scratch(self, allocated: Sequence[torch.Tensor]) -> None:
        """Make what was allocated one root."""
        for tensor in allocated:
            self._kept.append((tensor, 0))
            self._starts[_storage_of(tensor)] = self._num_roots, self.num_scratch_bytes
            self.num_scratch_bytes += -(-tensor.untyped_storage().nbytes() // SCRATCH_ALIGNMENT) * SCRATCH_ALIGNMENT

    def parts_of(self, buffer: torch.Tensor | tuple[torch.Tensor, ...]) -> Parts:
        """Say where a buffer of a launch lies."""
        if isinstance(buffer, tuple):
            return tuple([self._part_of(one) for one in buffer])
        return self._part_of(buffer)

    def require_untouched(self) -> None:
        """Raise unless no entry of any root was written but by launches."""
        if any(tensor._version != version for tensor, version in self._kept):
            raise Unrecordable("entries written by the host")

    def _part_of(self, buffer: torch.Tensor) -> Part:
        start = self._starts.get(_storage_of(buffer))
        if start is None:
            raise Unrecordable("a buffer of another source")
        offset = start[1] + buffer.storage_offset() * buffer.itemsize
        return Part(start[0], int(offset), tuple(buffer.shape), buffer.stride(), buffer.dtype)

    def _add(self, tensor: torch.Tensor, residue: int) -> torch.Tensor:
        if residue % tensor.itemsize:
            raise Unrecordable("entries across words")
        offset = residue // tensor.itemsize
        reach = 1 + sum((size - 1) * step for size, step in zip(tensor.shape, tensor.stride(), strict=True))
        storage = torch.empty(offset + (reach if prod(tensor.shape) else 0), dtype=tensor.dtype, device="meta")
        blank = storage.as_strided(tensor.shape, tensor.stride(), offset)
        self._kept.append((blank, blank._version))
        self._starts[_storage_of(blank)] = self._num_roots, -residue
        self._num_roots += 1
        return blank


def _storage_of(tensor: torch.Tensor) -> int:
    return int(tensor.untyped_storage()._cdata)
