"""The installed vLLM, and what takes the place of its checks of the platform."""

from collections.abc import Callable
from contextlib import nullcontext
from functools import cache
from types import SimpleNamespace
from typing import Any

from specsim.engines.adapter import Definition, Engine, open_engine
from specsim.engines.kernels import has_gpu

WRITTEN_FOR = "0.33.0"
FEW_PROGRAMS = 4
"""Among which rows are shared where programs are interpreted."""


@cache
def engine() -> Engine:
    """Return the installed vLLM.

    Raises
    ------
    EngineNotInstalled
        It is not there.
    """
    return open_engine("vllm", WRITTEN_FOR, _given())


def in_release(name: str, *modules: str) -> Definition:
    """Name a definition of vLLM and the modules that have had it, below ``vllm``."""
    return Definition(name, tuple(f"vllm.{module}" for module in modules))


def _given() -> dict[str, dict[str, Any]]:
    return {
        "vllm.triton_utils.importing": {"HAS_TRITON": True},
        "vllm.platforms": {"current_platform": SimpleNamespace(is_cpu=_never, is_cuda_alike=_never)},
        "vllm.utils.gpu_sync_debug": {"gpu_sync_allowed": nullcontext},
        "vllm.utils.platform_utils": {"num_compute_units": _compute_units},
        "vllm.model_executor.warmup.jit_warmup_triton_helper": {
            "triton_kernel_dispatcher_with_warmup": _without_warmup,
            "TritonWarmupTensor": None,
        },
    }


def _never() -> bool:
    return False


def _compute_units(device: int | None = 0) -> int:
    """Return how many programs run at once on a GPU; few where they are interpreted, one after another."""
    import torch

    return torch.cuda.get_device_properties(device).multi_processor_count if has_gpu() else FEW_PROGRAMS


def _without_warmup(*, kernel: Any, warmup_inputs: object) -> Callable[[Callable[..., Any]], Callable[..., None]]:
    """Launch a kernel as vLLM's dispatcher does, with no warm-up of it."""
    import inspect

    def decorate(dispatch: Callable[..., Any]) -> Callable[..., None]:
        names = list(inspect.signature(dispatch).parameters)

        def launch(*positional: Any, **named: Any) -> None:
            grid, constants = dispatch(*positional, **named)
            arguments = {**dict(zip(names, positional, strict=False)), **named}
            pointers = {f"{name}_ptr": value for name, value in arguments.items()}
            taken = {name: value for name, value in {**arguments, **pointers}.items() if name in kernel.arg_names}
            kernel[grid](**taken, **constants)

        return launch

    return decorate
