"""Compile every kernel ahead of time, without a GPU: ``python -m specsim.gpu.launching.aot``.

Interpreted functions cannot be compiled, so the command starts itself again with the interpreter off where it is on.
"""

import importlib
import os
import pkgutil
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from specsim.gpu import kernels
from specsim.gpu.launching import signatures
from specsim.gpu.launching.blocks import INTERPRETED
from specsim.gpu.launching.signatures.record import Signatures, Variant

WARP_SIZE = 32


@dataclass(frozen=True)
class Compiled:
    """One compilation: the kernel, which of its variants, the compute capability, and the size of the machine code."""

    kernel: str
    variant: int
    target: int
    num_bytes: int


def all_kernels() -> dict[str, Any]:
    """Return every kernel by name; functions that kernels call do not end in ``_kernel``."""
    found: dict[str, Any] = {}
    for module in _modules(kernels):
        found.update(
            (name, value)
            for name, value in vars(module).items()
            if name.endswith("_kernel") and isinstance(value, triton.runtime.jit.KernelInterface)
        )
    return found


def all_signatures() -> Signatures:
    """Return the variants of every kernel by name."""
    merged: Signatures = {}
    for module in _modules(signatures):
        merged.update(vars(module).get("SIGNATURES", {}))
    return merged


def compile_all(targets: Sequence[int] = (80, 90, 100)) -> list[Compiled]:
    """Compile every variant of every kernel for each compute capability.

    Raises
    ------
    AssertionError
        A kernel has no signature.
    RuntimeError
        The interpreter is on.
    """
    return list(_compile_each(targets))


def _compile_each(targets: Sequence[int]) -> Iterator[Compiled]:
    if INTERPRETED:
        raise RuntimeError("TRITON_INTERPRET is set, but kernels compile only without it")
    variants = all_signatures()
    for name, kernel in sorted(all_kernels().items()):
        if not variants.get(name):
            raise AssertionError(f"signatures of {name} = none, but should be at least one")
        for place, variant in enumerate(variants[name]):
            for target in targets:
                binary = _compile(kernel, variant, target)
                yield Compiled(kernel=name, variant=place, target=target, num_bytes=len(binary))


def _compile(kernel: Any, variant: Variant, target: int) -> bytes:
    signature = {name: variant.types.get(name, "constexpr") for name in kernel.arg_names}
    source = ASTSource(fn=kernel, signature=signature, constexprs=dict(variant.constants))
    options = {"num_warps": variant.num_warps}
    compiled = triton.compile(source, target=GPUTarget("cuda", target, WARP_SIZE), options=options)
    return bytes(compiled.asm["cubin"])


def _modules(package: Any) -> Iterator[Any]:
    for entry in pkgutil.iter_modules(package.__path__):
        yield importlib.import_module(f"{package.__name__}.{entry.name}")


def main() -> None:
    """Compile everything and print one line a compilation."""
    if INTERPRETED:
        arguments = [sys.executable, "-m", "specsim.gpu.launching.aot"]
        os.execve(sys.executable, arguments, {**os.environ, "TRITON_INTERPRET": "0"})
    for compiled in _compile_each((80, 90, 100)):
        print(f"{compiled.kernel}[{compiled.variant}] sm_{compiled.target} {compiled.num_bytes} bytes", flush=True)


if __name__ == "__main__":
    main()
