"""What launches of equal shapes have in common: everything but their buffers, worked out once."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache, wraps
from typing import Any, TypeVar

from specsim.gpu.launching.blocks import FOR_INTERPRETER, ON_GPU
from specsim.gpu.launching.mode import current_mode

MOST_PLANS = 1024
"""Plans that are kept for each launch: an engine has hundreds of combinations of batch size and lengths at most."""

T = TypeVar("T")


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
        Integers that the kernel takes at run time.
    constants : mapping
        What it is compiled for; None for a buffer that is absent.
    tunables : mapping
        Constants that decide its speed alone: blocks of work.
    num_warps : int
        Warps of a program, decisive for its speed alone.
    options : mapping
        Options of the compiler that decide its meaning.

    Raises
    ------
    TypeError
        A name is no parameter of the kernel, a parameter is neither here nor a buffer, or a buffer comes too late.
    """

    kernel: Any
    grid: tuple[int, ...]
    sizes: Mapping[str, int]
    constants: Mapping[str, Any] = field(default_factory=dict)
    tunables: Mapping[str, int] = field(default_factory=dict)
    num_warps: int = 4
    options: Mapping[str, bool] = field(default_factory=dict)
    fixed: dict[str, Any] = field(init=False, repr=False)
    pointers: tuple[str | None, ...] = field(init=False, repr=False)
    prepared: dict[Any, Any] = field(init=False, repr=False, default_factory=dict)

    def __post_init__(self) -> None:
        fixed = {**self.sizes, **self.constants, **self.tunables}
        object.__setattr__(self, "fixed", fixed)
        object.__setattr__(self, "pointers", _pointers_of(self.kernel, tuple(fixed)))

    @property
    def name(self) -> str:
        """The name of the kernel."""
        return str(self.kernel.__name__)

    @cached_property
    def kind(self) -> tuple[Any, ...]:
        """What its kernel is compiled for: all but the grid, and of sizes what Triton distinguishes."""
        sizes = [(size.__class__, size == 1, size % 16 == 0, _width_of(size)) for size in self.sizes.values()]
        names = [name for name in self.kernel.arg_names if name in self.fixed and name not in self.sizes]
        constants = [(self.fixed[name].__class__, self.fixed[name]) for name in names]
        return self.kernel, self.num_warps, *self.options.items(), *self.sizes, *sizes, *constants

    def arguments(self, buffers: Mapping[str, Any]) -> dict[str, Any]:
        """Return every argument by the name of its parameter, in order.

        Raises
        ------
        TypeError
            The kernel takes a buffer that is not there.
        """
        missing = [name for name in self.pointers if name is not None and name not in buffers]
        if missing:
            raise TypeError(f"{self.name} is not given {', '.join(missing)}")
        fixed = self.fixed
        return {name: fixed[name] if name in fixed else buffers[buffer_of(name)] for name in self.kernel.arg_names}


def is_pointer(parameter: str) -> bool:
    """Return whether a parameter takes a buffer, or a tuple of buffers."""
    return parameter.endswith(("_ptr", "_ptrs"))


def buffer_of(parameter: str) -> str:
    """Return the name of the buffer that a pointer parameter takes."""
    return parameter.removesuffix("s").removesuffix("_ptr")


@lru_cache(MOST_PLANS)
def _pointers_of(kernel: Any, given: tuple[str, ...]) -> tuple[str | None, ...]:
    """Return the buffer of each pointer parameter, None for one whose value is given."""
    names = kernel.arg_names
    pointers = [name for name in names if is_pointer(name)]
    unknown = sorted(set(given) - set(names)) + [name for name in names if name not in {*given, *pointers}]
    if unknown:
        raise TypeError(f"{kernel.__name__} does not take, or is not given, {', '.join(unknown)}")
    if names[: len(pointers)] != pointers:
        raise TypeError(f"pointers of {kernel.__name__} should stand before its other parameters")
    return tuple(None if name in given else buffer_of(name) for name in pointers)


def _width_of(size: int) -> int:
    """Return the bits of the type in which a size is passed; 63 stands for 64 bits without a sign."""
    return 32 if -(2**31) <= size < 2**31 else 64 if size < 2**63 else 63


def planned(function: Callable[..., T]) -> Callable[..., T]:
    """Keep what a function plans by its arguments, numbers and element types; not where work is cut for a test."""
    plans = {id(blocks): lru_cache(MOST_PLANS)(function) for blocks in (ON_GPU, FOR_INTERPRETER)}

    @wraps(function)
    def plan(*arguments: Any) -> T:
        find: Callable[..., T] = plans.get(id(current_mode().blocks), function)
        return find(*arguments)

    return plan
