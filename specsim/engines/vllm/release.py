"""The installed vLLM, and what takes the place of its checks of the platform."""

from collections.abc import Callable
from contextlib import nullcontext
from functools import cache
from types import SimpleNamespace
from typing import Any

from specsim.engines.adapter import Definition, Engine, open_engine
from specsim.engines.kernels import has_gpu

WRITTEN_FOR = "0.33.0"


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
        "vllm.platforms": {
            "current_platform": SimpleNamespace(
                is_cpu=_without_gpu, is_cuda_alike=has_gpu, num_compute_units=_compute_units
            )
        },
        "vllm.v1.sample.ops.topk_topp_sampler": {"HAS_TRITON": has_gpu()},
        "vllm.utils.gpu_sync_debug": {"gpu_sync_allowed": nullcontext},
        "vllm.model_executor.warmup.jit_warmup_triton_helper": {
            "triton_kernel_dispatcher_with_warmup": _without_warmup,
            "TritonWarmupTensor": None,
        },
    }


def _without_gpu() -> bool:
    return not has_gpu()


def _compute_units(device: int = 0) -> int:
    import torch

    return torch.cuda.get_device_properties(device).multi_processor_count


def _without_warmup(*, kernel: Any, warmup_inputs: object) -> Callable[[Callable[..., Any]], Callable[..., None]]:
    """Launch a kernel as vLLM's dispatcher does, with no warm-up of it."""
    import inspect

    def decorate(dispatch: Callable[..., Any]) -> Callable[..., None]:
        names = list(inspect.signature(dispatch).parameters)

        def launch(*positional: Any, **named: Any) -> None:
            grid, constants = dispatch(*positional, **named)
            arguments = {**dict(zip(names, positional, strict=False)), **named}
            taken = {name: _argument_of(name, arguments) for name in kernel.arg_names if name not in constants}
            kernel[grid](**taken, **constants)

        return launch

    return decorate


def _argument_of(parameter: str, arguments: dict[str, Any]) -> Any:
    """Return what a kernel's parameter stands for: an argument, in either case and as ``_ptr``, or a stride of one."""
    lower = {name.lower(): value for name, value in arguments.items()}
    wanted = parameter.lower()
    array, stride, axis = wanted.rpartition("_stride")
    if stride and wanted not in lower:
        return lower[array.removesuffix("_ptr")].stride(int(axis.strip("_") or 0))
    return lower[wanted if wanted in lower else wanted.removesuffix("_ptr")]
