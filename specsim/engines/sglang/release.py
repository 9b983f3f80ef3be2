"""The installed SGLang, and what takes the place of the hardware that its files ask for."""

from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from specsim.engines.adapter import Definition, Engine, open_engine
from specsim.engines.kernels import has_gpu

if TYPE_CHECKING:
    import torch

WRITTEN_FOR = "0.5.23"

PLATFORMS = {"is_cpu": False, "is_cuda": False, "is_hip": False, "is_musa": False, "is_npu": False, "is_xpu": True}
"""What SGLang sees of the hardware: on XPU it runs its Triton kernels and needs none that are compiled."""

CUDA = {**PLATFORMS, "is_cuda": True, "is_xpu": False}
"""What it sees where its compiled kernels are reached."""

FEW_SPLITS = 4
"""Programs among which the argmax of a row is split where they are interpreted, one after another; SGLang takes 64."""

FORWARD = (
    "CaptureHiddenMode",
    "EagleDraftExtendInput",
    "EagleDraftInput",
    "ForwardBatch",
    "KVLocPlan",
    "ScheduleBatch",
    "context_tuple",
    "fast_sample",
    "fast_topk",
    "get_spec",
    "maybe_detect_inf",
    "maybe_detect_nan",
    "renorm_draft_probs",
)
"""What the draft-extend of a prefill names besides, which it calls once it has rotated the prompts."""


class Rotated(Exception):
    """The prompts are rotated, and nothing of the forward that follows is there."""


@cache
def engine() -> Engine:
    """Return the installed SGLang.

    Raises
    ------
    EngineNotInstalled
        It is not there.
    """
    return open_engine(
        "sglang",
        WRITTEN_FOR,
        {
            **surroundings(PLATFORMS),
            "sglang.kernels.ops.speculative.row_argmax": {} if has_gpu() else {"_SPLITS": FEW_SPLITS},
            "sglang.kernels.ops.sampling.renorm_triton": {"_prepare_probs": _prepare_probs},
            "sglang.srt.sampling.penaltylib.repetition_penalty": {"_is_npu": True},
            "sglang.srt.speculative.eagle_info": {"KVIndexTranslator": object, "KVLocPlan": object},
            "sglang.srt.speculative.eagle_worker_v2": dict.fromkeys(FORWARD, _run_the_draft_model),
        },
    )


def in_release(name: str, *modules: str) -> Definition:
    """Name a definition of SGLang, and the modules that have had it, below ``sglang``."""
    return Definition(name, tuple(f"sglang.{module}" for module in modules))


def largest_tree() -> int:
    """Return how many nodes trees are built of: few where kernels are interpreted, as a program takes all of a tree."""
    return 64 if has_gpu() else 16


def surroundings(platforms: dict[str, bool]) -> dict[str, dict[str, Any]]:
    """Return what SGLang finds of the machine it runs on, by module."""
    return {
        "sglang.srt.utils": {
            **{name: constantly(value) for name, value in platforms.items()},
            "get_device_core_count": constantly(0),
        },
        "sglang.srt.platforms": {"current_platform": SimpleNamespace(is_out_of_tree=constantly(False))},
        "sglang.srt.utils.async_probe": {"maybe_detect_oob": _nothing},
    }


def constantly(value: int | Path) -> Any:
    """Return a function that takes nothing and returns a value."""
    return lambda: value


def _run_the_draft_model(*_: object, **__: object) -> None:
    raise Rotated


def _nothing(*_: object, **__: object) -> None:
    """Stand for a probe that SGLang switches on with an environment variable."""


def _prepare_probs(probs: "torch.Tensor") -> "torch.Tensor":
    """Do what the function of this name does, but for its refusal of tensors on the CPU."""
    if probs.ndim != 2:
        raise ValueError(f"probs must be 2D, got shape={tuple(probs.shape)}")
    return probs.float().contiguous()
