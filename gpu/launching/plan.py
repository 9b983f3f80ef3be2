"""What launches of equal shapes have in common: everything but their buffers."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import torch

MOST_NAMINGS, MOST_SIZES = 1024, 4096
"""Ways of naming a kernel's arguments, of which each launch has a few, and sizes of which the kind is kept."""

Size = int | tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Plan:
    """A launch without its buffers.

    Parameters
    ----------
    kernel : jit function
        A parameter ``<name>_ptr`` takes the buffer ``<name>``, and ``<name>_ptrs`` a tuple of buffers; these parameters
        come first.
    grid : tuple of int
        Programs along each axis.
    sizes : mapping
        Integers that the kernel takes at run time, or groups of them.
    constants : mapping
        What it is compiled for; None for a buffer that is absent.
    tunables : mapping
        Constants that decide its speed alone: blocks of work.
    num_warps : int
        Warps of a program, decisive for its speed alone.
    options : mapping
        Options of the compiler: what decides its meaning, or how many registers a thread takes at most.

    Raises
    ------
    TypeError
        A name is no parameter of the kernel, a parameter is neither here nor a buffer, or a buffer comes too late.
    """

    kernel: Any
    grid: tuple[int, ...]
    sizes: Mapping[str, Size]
    constants: Mapping[str, Any] = field(default_factory=dict)
    tunables: Mapping[str, Size] = field(default_factory=dict)
    num_warps: int = 4
    options: Mapping[str, int] = field(default_factory=dict)
    fixed: dict[str, Any] = field(init=False, repr=False)
    naming: "Naming" = field(init=False, repr=False)

    def __post_init__(self) -> None:
        fixed = {**self.sizes, **self.constants, **self.tunables}
        object.__setattr__(self, "fixed", fixed)
        object.__setattr__(self, "naming", _naming_of(self.kernel, tuple(fixed)))

    @property
    def name(self) -> str:
        """The name of the kernel."""
        return str(self.kernel.__name__)

    @cached_property
    def kind(self) -> tuple[Any, ...]:
        """What its kernel is compiled for: all but the grid, and of sizes what Triton distinguishes."""
        kinds = map(_kind_of_size, self.sizes.values())
        constants = [
            (name, value.__class__, value) for name, value in (*self.constants.items(), *self.tunables.items())
        ]
        return self.kernel, self.num_warps, *self.options.items(), *self.sizes, *kinds, *constants

    @property
    def values(self) -> tuple[Any, ...]:
        """The values of the parameters after the pointers, in order."""
        fixed = self.fixed
        return tuple([fixed[name] for name in self.naming.others])

    def arguments(self, buffers: Mapping[str, Any]) -> dict[str, Any]:
        """Return every argument by the name of its parameter, in order.

        Raises
        ------
        TypeError
            The kernel takes a buffer that is not there.
        """
        missing = [name for name in self.naming.pointers if name is not None and name not in buffers]
        if missing:
            raise TypeError(f"{self.name} is not given {', '.join(missing)}")
        fixed = self.fixed
        return {name: fixed[name] if name in fixed else buffers[buffer_of(name)] for name in self.kernel.arg_names}


class Naming(NamedTuple):
    """The buffer of each pointer parameter of a kernel, None for one whose value is given, and its other parameters."""

    pointers: tuple[str | None, ...]
    others: tuple[str, ...]


def strides_of(tensor: torch.Tensor, *axes: str) -> dict[str, int]:
    """Return the strides of a tensor as sizes of a kernel, ``<axis>_stride`` each."""
    return {f"{axis}_stride": stride for axis, stride in zip(axes, tensor.stride(), strict=True)}


def is_pointer(parameter: str) -> bool:
    """Return whether a parameter takes a buffer, or a tuple of buffers."""
    return parameter.endswith(("_ptr", "_ptrs"))


def buffer_of(parameter: str) -> str:
    """Return the name of the buffer that a pointer parameter takes."""
    return parameter.removesuffix("s").removesuffix("_ptr")


@lru_cache(MOST_NAMINGS)
def _naming_of(kernel: Any, given: tuple[str, ...]) -> Naming:
    names = kernel.arg_names
    pointers = [name for name in names if is_pointer(name)]
    unknown = sorted(set(given) - set(names)) + [name for name in names if name not in {*given, *pointers}]
    if unknown:
        raise TypeError(f"{kernel.__name__} does not take, or is not given, {', '.join(unknown)}")
    if names[: len(pointers)] != pointers:
        raise TypeError(f"pointers of {kernel.__name__} should stand before its other parameters")
    buffers = tuple(None if name in given else buffer_of(name) for name in pointers)
    return Naming(buffers, tuple(names[len(pointers) :]))


@lru_cache(MOST_SIZES, typed=True)
def _kind_of_size(size: Size) -> tuple[Any, ...]:
    """Return what Triton distinguishes of a size: 1, multiples of 16, and its type; 63 bits have no sign."""
    if isinstance(size, tuple):
        return tuple(map(_kind_of_size, size))
    width = 32 if -(2**31) <= size < 2**31 else 64 if size < 2**63 else 63
    return size.__class__, size == 1, size % 16 == 0, width
