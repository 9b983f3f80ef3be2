"""What launches of equal shapes have in common: everything but their buffers, worked out once."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache, wraps
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
        A parameter ``<name>_ptr`` takes the buffer ``<name>``, and ``<name>_ptrs`` a tuple of buffers.
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
        A name is no parameter of the kernel, or a parameter is neither here nor a buffer.
    """

    kernel: Any
    grid: tuple[int, ...]
    sizes: Mapping[str, int]
    constants: Mapping[str, Any] = field(default_factory=dict)
    tunables: Mapping[str, int] = field(default_factory=dict)
    num_warps: int = 4
    options: Mapping[str, bool] = field(default_factory=dict)
    fixed: dict[str, Any] = field(init=False, repr=False)
    buffers: tuple[str, ...] = field(init=False, repr=False)
    prepared: dict[Any, Any] = field(init=False, repr=False, default_factory=dict)

    def __post_init__(self) -> None:
        fixed = {**self.sizes, **self.constants, **self.tunables}
        free = [name for name in self.kernel.arg_names if name not in fixed]
        unknown = sorted(fixed.keys() - set(self.kernel.arg_names))
        unknown += [name for name in free if not name.endswith(("_ptr", "_ptrs"))]
        if unknown:
            raise TypeError(f"{self.kernel.__name__} does not take, or is not given, {', '.join(unknown)}")
        object.__setattr__(self, "fixed", fixed)
        object.__setattr__(self, "buffers", tuple(buffer_of(name) for name in free))

    @property
    def name(self) -> str:
        """The name of the kernel."""
        return str(self.kernel.__name__)

    def arguments(self, buffers: Mapping[str, Any]) -> dict[str, Any]:
        """Return every argument by the name of its parameter, in order.

        Raises
        ------
        TypeError
            The kernel takes a buffer that is not there.
        """
        missing = [name for name in self.buffers if name not in buffers]
        if missing:
            raise TypeError(f"{self.name} is not given {', '.join(missing)}")
        fixed = self.fixed
        return {name: fixed[name] if name in fixed else buffers[buffer_of(name)] for name in self.kernel.arg_names}


def buffer_of(parameter: str) -> str:
    """Return the name of the buffer that a pointer parameter takes."""
    return parameter.removesuffix("s").removesuffix("_ptr")


def planned(function: Callable[..., T]) -> Callable[..., T]:
    """Keep what a function plans by its arguments, numbers and element types; not where work is cut for a test."""
    plans = {id(blocks): lru_cache(MOST_PLANS)(function) for blocks in (ON_GPU, FOR_INTERPRETER)}

    @wraps(function)
    def plan(*arguments: Any) -> T:
        find: Callable[..., T] = plans.get(id(current_mode().blocks), function)
        return find(*arguments)

    return plan
