"""The installed vLLM, and what takes the place of its checks of the platform."""

from collections.abc import Callable
from contextlib import nullcontext
from functools import cache
from types import SimpleNamespace
from typing import Any

from specsim.engines.adapter import Definition, Engine, open_engine
from specsim.engines.kernels import has_gpu

WRITTEN_FOR = "0.33.0"
GENERATORS = "vllm.v1.worker.gpu.sample.gumbel"
SAMPLER_OF_CHAINS = "vllm.v1.worker.gpu.spec_decode.rejection_sampler_utils"


@cache
def engine() -> Engine:
    """Return the installed vLLM.

    Raises
    ------
    EngineNotInstalled
        It is not there.
    """
    return open_engine("vllm", WRITTEN_FOR, _given())


@cache
def engine_with_coins() -> Engine:
    """Return the installed vLLM with generators that return coins: where its sampler draws by hashes of positions.

    Raises
    ------
    EngineNotInstalled
        It is not there.
    """
    from specsim.engines.vllm.coins import murmur3_uniform32, tl_rand32

    generators = {"tl_rand32": tl_rand32, "murmur3_uniform32": murmur3_uniform32}
    return open_engine("vllm", WRITTEN_FOR, {**_given(), GENERATORS: generators})


def in_release(name: str, *modules: str) -> Definition:
    """Name a definition of vLLM and the modules that have had it, below ``vllm``."""
    return Definition(name, tuple(f"vllm.{module}" for module in modules))


def _given() -> dict[str, dict[str, Any]]:
    # NOTE: Triton is not imported where the adapter's tables alone are read.
    from specsim.engines.vllm.interpreted import log1p

    return {
        SAMPLER_OF_CHAINS: {} if has_gpu() else {"tldevice": SimpleNamespace(log1p=log1p)},
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
