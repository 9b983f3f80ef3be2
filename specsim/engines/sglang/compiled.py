"""The kernels that SGLang runs on CUDA: compiled from its own sources, or installed with sgl_kernel or FlashInfer."""

import importlib
from collections.abc import Callable
from functools import cache
from typing import Any

from specsim.engines.adapter import Definition, Engine, open_engine
from specsim.engines.kernels import Home, Kernel, build_flashinfer, reach
from specsim.engines.modules import SourceTree
from specsim.engines.sglang.release import CUDA, WRITTEN_FOR, constantly, engine, surroundings

TREE = "sglang.kernels.ops.speculative.tree"
SAMPLING = "sglang.kernels.ops.speculative.sampling"
SOURCES = "sglang.kernels.jit.utils.compile.paths"
HEADERS = "sglang.kernels.jit.utils.deps"
HEADERS_OF_FLASHINFER = "get_flashinfer_include_paths"
FLASHINFER = "flashinfer.sampling"
SGL_KERNEL = "sgl_kernel"
VECTORS = (1, 2, 4)
"""Entries that the sampler of trees reads at once, by what divides the vocabulary: it is compiled for each."""


def _build_tree(module: Any) -> None:
    module._jit_tree_module()


def _build_sampling(module: Any) -> None:
    for size in VECTORS:
        module._jit_sampling_module(size, True)


HOMES = {
    "build_tree": (
        Home(TREE, "build_tree_kernel_efficient", _build_tree),
        Home(SGL_KERNEL, "build_tree_kernel_efficient"),
    ),
    "verify_tree_greedy": (Home(TREE, "verify_tree_greedy", _build_tree), Home(SGL_KERNEL, "verify_tree_greedy")),
    "top_k_renorm": (
        Home(FLASHINFER, "top_k_renorm_probs", build_flashinfer),
        Home(SGL_KERNEL, "top_k_renorm_prob"),
    ),
    "top_p_renorm": (
        Home(FLASHINFER, "top_p_renorm_probs", build_flashinfer),
        Home(SGL_KERNEL, "top_p_renorm_prob"),
    ),
    "tree_speculative_sampling_target_only": (
        Home(SAMPLING, "tree_speculative_sampling_target_only", _build_sampling),
        Home(SGL_KERNEL, "tree_speculative_sampling_target_only", is_strict=False),
    ),
}
"""Of an operation, where releases of SGLang have found its kernel, the latest first."""

COMPILED_ONLY = ("tree_speculative_sampling_target_only",)


@cache
def compiled(operation: str) -> Kernel:
    """Return the compiled kernel of an operation, if it is reached."""
    return reach(HOMES[operation], _module_of)


def kernel_of(operation: str, definition: Definition) -> Callable[..., Any]:
    """Return the compiled kernel of an operation, or else what a definition stands for, which is called alike."""
    function: Callable[..., Any] = compiled(operation).function or engine().get(definition)
    return function


@cache
def engine_on_cuda() -> Engine:
    """Return the installed SGLang as it is on CUDA, where its functions launch the kernels that are reached here.

    Raises
    ------
    EngineNotInstalled
        It is not there.
    """
    given = {TREE: {"build_tree_kernel_efficient": _launch_build_tree}}
    return open_engine("sglang", WRITTEN_FOR, {**surroundings(CUDA), **given})


def needed(operation: str, *definitions: Definition) -> tuple[Definition, ...]:
    """Return the definitions that stand in for a compiled kernel; none where it is reached."""
    return definitions if compiled(operation).function is None else ()


def remarks() -> list[str]:
    """Return where the kernels come from that are compiled, or why they are not reached, a line for those alike."""
    lines: dict[str, list[str]] = {}
    for operation in HOMES:
        words = compiled(operation).in_words("missing" if operation in COMPILED_ONLY else "Triton's")
        lines.setdefault(words, []).append(operation)
    return [f"{', '.join(operations)}: {words}" for words, operations in lines.items()]


def _launch_build_tree(*arguments: Any) -> None:
    compiled("build_tree").call(*arguments)


@cache
def _sources() -> SourceTree:
    """Return the files of SGLang that compile its kernels; what they compile lies beside them."""
    installed = engine().installed
    found = {SOURCES: {"_resolve_kernel_path": constantly(installed.root / "kernels" / "jit")}}
    tree = SourceTree(installed.package, installed.root, {**surroundings(CUDA), **found})
    if tree.has(HEADERS) and tree.module(HEADERS).defines(HEADERS_OF_FLASHINFER):
        # The decorator of this function is what enters where the headers of FlashInfer lie.
        getattr(tree.module(HEADERS), HEADERS_OF_FLASHINFER)
    return tree


def _module_of(name: str) -> Any:
    is_own = name.partition(".")[0] == engine().installed.package
    return _sources().module(name) if is_own else importlib.import_module(name)
