"""One way to compile a kernel ahead of time."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Variant:
    """Argument types and compile-time constants of one compilation.

    ``types`` names each run-time argument's type, ``"*i64"`` for a pointer, ``"i32"`` for a scalar, a tuple for a tuple
    of pointers; ``constants`` holds the arguments in capitals, and ``None`` for absent pointers.
    """

    types: Mapping[str, str | tuple[str, ...]]
    constants: Mapping[str, object] = field(default_factory=dict)
    num_warps: int = 4


Signatures = dict[str, tuple[Variant, ...]]
