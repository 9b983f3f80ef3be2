"""The installed SGLang, and what takes the place of the hardware that its files ask for."""

from functools import cache
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from specsim.engines.adapter import Definition, Engine, open_engine

if TYPE_CHECKING:
    import torch

WRITTEN_FOR = "0.5.23"

PLATFORMS = {"is_cpu": False, "is_cuda": False, "is_hip": False, "is_musa": False, "is_npu": False, "is_xpu": True}
"""What SGLang is told of the hardware: on XPU it runs its Triton kernels and needs none that are compiled."""

FEW_SPLITS = 4
"""Programs among which the argmax of a row is split where they are interpreted, one after another; SGLang takes 64."""


@cache
def engine() -> Engine:
    """Return the installed SGLang.

    Raises
    ------
    EngineNotInstalled
        It is not there.
    """
    platform = {name: _constantly(value) for name, value in PLATFORMS.items()}
    return open_engine(
        "sglang",
        WRITTEN_FOR,
        {
            "sglang.srt.utils": platform,
            "sglang.srt.platforms": {"current_platform": SimpleNamespace(is_out_of_tree=_constantly(False))},
            "sglang.srt.utils.async_probe": {"maybe_detect_oob": _nothing},
            "sglang.kernels.ops.speculative.row_argmax": {} if has_gpu() else {"_SPLITS": FEW_SPLITS},
            "sglang.kernels.ops.sampling.renorm_triton": {"_prepare_probs": _prepare_probs},
        },
    )


def in_release(name: str, *modules: str) -> Definition:
    """Name a definition of SGLang, and the modules that have had it, below ``sglang``."""
    return Definition(name, tuple(f"sglang.{module}" for module in modules))


def largest_tree() -> int:
    """Return how many nodes trees are built of: few where kernels are interpreted, as a program takes all of a tree."""
    return 64 if has_gpu() else 8


def has_gpu() -> bool:
    """Return whether kernels are compiled."""
    import torch

    return torch.cuda.is_available()


def _constantly(value: bool) -> Any:
    return lambda: value


def _nothing(*_: object, **__: object) -> None:
    """Stand for a probe that SGLang switches on with an environment variable."""


def _prepare_probs(probs: "torch.Tensor") -> "torch.Tensor":
    """Do what the function of this name does, but for its refusal of tensors on the CPU."""
    return probs.float().contiguous()
