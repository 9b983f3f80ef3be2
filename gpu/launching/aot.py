"""Compile kernels ahead of time, without a GPU: ``python -m specsim.gpu.launching.aot [80|90|100 …] [KERNEL …]``.

All kernels are compiled for all compute capabilities, unless some are named. What is compiled are the launches of the
example calls, as they would start on a GPU; ``KERNEL[0]``, as it is printed, is the first one alone. Interpreted
functions cannot be compiled, so the command starts itself again with the interpreter off where it is on.
"""

import ast
import importlib
import os
import pkgutil
import re
import sys
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource, make_backend
from triton.runtime import driver
from triton.runtime.jit import KernelInterface, create_function_from_signature

from specsim import gpu
from specsim.gpu import kernels
from specsim.gpu.kernels.device.succession import EARLIEST
from specsim.gpu.launching.blocks import INTERPRETED, ON_GPU, WARP_SIZE
from specsim.gpu.launching.examples import variants
from specsim.gpu.launching.launcher import Launch
from specsim.gpu.launching.mode import launching
from specsim.gpu.launching.records import FUSED
from specsim.operations import RECORDS

TARGETS = (80, 90, 100)
"""Compute capabilities: A100, H100 and H200, B200."""

WAIT = "griddepcontrol.wait"
"""The instruction by which a program waits for the kernel before its own."""

LINEAR = re.compile(r"^(#linear\d*) = .*?lane = (\[\[.*?\]\])", re.MULTILINE)
REDUCTION = re.compile(r'"tt\.reduce"\([^)]*\) <\{axis = (\d+).*?\}\) : \((.*?)\) ->', re.DOTALL)
OPERAND = re.compile(r"tensor<((?:[^<>]|<[^<>]*>)*)>")
SLICED = re.compile(r"slice<\{dim = (\d+), parent = (#linear\d*)\}")
"""What the intermediate language of a kernel says of layouts and reductions."""


@dataclass(frozen=True)
class Compiled:
    """One compilation: the kernel, which of its launches, the compute capability, and the size of the machine code."""

    kernel: str
    variant: int
    target: int
    num_bytes: int


def all_kernels() -> dict[str, Any]:
    """Return every kernel by name; functions that kernels call do not end in ``_kernel``."""
    found: dict[str, Any] = {}
    for entry in pkgutil.walk_packages(kernels.__path__, f"{kernels.__name__}."):
        found.update(
            (name, value)
            for name, value in vars(importlib.import_module(entry.name)).items()
            if name.endswith("_kernel") and isinstance(value, KernelInterface)
        )
    return found


def record_launches() -> dict[str, list[Launch]]:
    """Return launches of the example calls by kernel: each adds something to what the ones before compile.

    Raises
    ------
    AssertionError
        No example launches a kernel.
    """
    seen: list[Launch] = []
    functions = dict(vars(gpu))
    for module in ("fused", "fused_drafts"):
        functions |= vars(importlib.import_module(f"{gpu.__name__}.worker.{module}"))
    for name in (*RECORDS, *FUSED):
        for _, arguments in variants(name):
            with launching(seen.append, runs=False, blocks=ON_GPU):
                functions[name](**arguments)
    by_kernel: dict[str, list[Launch]] = {name: [] for name in sorted(all_kernels())}
    covered: dict[str, set[Any]] = {name: set() for name in by_kernel}
    for launch in seen:
        features = features_of(launch)
        if not features <= covered[launch.plan.name]:
            covered[launch.plan.name] |= features
            by_kernel[launch.plan.name].append(launch)
    missing = [name for name, launches in by_kernel.items() if not launches]
    if missing:
        raise AssertionError(f"no example launches {', '.join(missing)}: see specsim.gpu.launching.examples")
    return by_kernel


def features_of(launch: Launch) -> set[tuple[str, Any]]:
    """Return what decides how a launch is compiled, parameter by parameter.

    That is the element types of buffers, which of them are absent, flags, sizes of 64 bits, whether a constant is 0,
    1 or larger, and the number of warps; how large a block is decides nothing.
    """
    features: set[tuple[str, Any]] = {("num_warps", launch.plan.num_warps)}
    for name, value in launch.arguments.items():
        for entry in value if isinstance(value, tuple) else (value,):
            match entry:
                case torch.Tensor():
                    features.add((name, str(entry.dtype)))
                case bool() | None:
                    features.add((name, str(entry)))
                case int() if name in launch.plan.sizes:
                    features.add((name, "64 bits" if entry >= 2**31 else "32 bits"))
                case int():
                    features.add((name, "any" if name in launch.plan.tunables else str(min(entry, 2))))
                case _:
                    features.add((name, str(entry)))
    return features


def compile_all(targets: Sequence[int] = TARGETS, named: Collection[str] = ()) -> Iterator[Compiled]:
    """Compile every recorded launch for each compute capability, of the kernels that are named or of all.

    Parameters
    ----------
    targets : sequence of int
        Compute capabilities.
    named : collection of str
        Kernels, or single launches of them, such as ``"_fast_topk_kernel[0]"``.

    Raises
    ------
    RuntimeError
        The interpreter is on.
    AssertionError
        A reduction would be compiled wrongly, or a kernel does not wait for the one before where it starts early.
    """
    if INTERPRETED:
        raise RuntimeError("TRITON_INTERPRET is set, but kernels compile only without it")
    recorded = record_launches()
    for one in named or recorded:
        name, _, variant = one.partition("[")
        for place, launch in enumerate(recorded[name]):
            if variant not in ("", f"{place}]"):
                continue
            for target in targets:
                assembly = compile_launch(launch, target).asm
                if (WAIT in assembly["ptx"]) != (target >= 10 * EARLIEST):
                    raise AssertionError(f"{name}[{place}] for sm_{target} should wait for earlier kernels from 9.0 on")
                if misread := misread_reductions(assembly["ttgir"]):
                    raise AssertionError(f"{name}[{place}] reduces {', '.join(misread)}: see misread_reductions")
                yield Compiled(name, place, target, len(assembly["cubin"]))


def misread_reductions(ttgir: str) -> list[str]:
    """Return the operands of reductions that Triton 3.6 and 3.7 compile wrongly.

    Lanes that hold other entries along the axis should be neighbours. Where lanes with copies stand between them, as
    after a tile of few entries is reshaped, sums count some entries twice and others never.
    """
    layouts = {name: ast.literal_eval(lanes) for name, lanes in LINEAR.findall(ttgir)}
    found = []
    for axis, operands in REDUCTION.findall(ttgir):
        for operand in OPERAND.findall(operands):
            name, along = operand.rpartition(", ")[2], int(axis)
            if sliced := SLICED.search(operand):
                name, along = sliced[2], along + (int(sliced[1]) <= along)
            places = [place for place, lane in enumerate(layouts.get(name, ())) if lane[along]]
            if places and places != [*range(places[0], places[-1] + 1)]:
                found.append(operand)
    return found


def compile_launch(launch: Launch, target: int) -> Any:
    """Compile what a launch would start, specialised on its integers and addresses as on a GPU."""
    kernel, plan = launch.plan.kernel, launch.plan
    architecture = GPUTarget("cuda", target, WARP_SIZE)
    backend = make_backend(architecture)
    given = {"num_warps": plan.num_warps, **plan.options}
    bind = create_function_from_signature(kernel.signature, kernel.params, backend)
    arguments, specialization, _ = bind(**launch.arguments, **given)
    options, signature, constants, attributes = kernel._pack_args(backend, given, arguments, specialization, given)
    source = ASTSource(kernel, signature, constants, attributes)
    with _aimed_at(architecture):
        return triton.compile(source, target=architecture, options=options.__dict__)


@contextmanager
def _aimed_at(architecture: GPUTarget) -> Iterator[None]:
    """Let kernels that ask for the compute capability while they are compiled see this one, not that of a GPU here."""
    # NOTE: ``reset_active`` would look for a GPU, and raise where there is none.
    with patch.object(driver, "_active", SimpleNamespace(get_current_target=lambda: architecture)):
        yield


def main() -> None:
    """Compile what is named on the command line, or everything; print one line a compilation."""
    targets = [one for one in sys.argv[1:] if one.isdigit()]
    named = [one for one in sys.argv[1:] if not one.isdigit()]
    if not {*targets} <= {*map(str, TARGETS)}:
        sys.exit(f"compute capabilities are {TARGETS}, but got {' '.join(targets)}")
    if unknown := [one for one in named if one.partition("[")[0] not in all_kernels()]:
        sys.exit(f"kernels have names such as {min(all_kernels())}, but got {' '.join(unknown)}")
    if INTERPRETED:
        arguments = [sys.executable, "-m", "specsim.gpu.launching.aot", *targets, *named]
        os.execve(sys.executable, arguments, {**os.environ, "TRITON_INTERPRET": "0"})
    for compiled in compile_all([*map(int, targets)] or TARGETS, named):
        print(f"{compiled.kernel}[{compiled.variant}] sm_{compiled.target} {compiled.num_bytes} bytes", flush=True)


if __name__ == "__main__":
    main()
