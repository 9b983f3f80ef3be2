"""The installed vLLM, and what takes the place of its checks of the platform."""

from collections.abc import Callable
from functools import cache
from typing import Any

from specsim.engines.adapter import Definition, Engine, open_engine

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
        "vllm.model_executor.warmup.jit_warmup_triton_helper": {
            "triton_kernel_dispatcher_with_warmup": _without_warmup,
            "TritonWarmupTensor": None,
        },
    }


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
