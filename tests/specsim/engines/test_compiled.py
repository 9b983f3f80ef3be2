"""Compiled kernels are reached where torch sees a GPU: here what stands for them, and a GPU that is not there."""

import importlib
import sys
from pathlib import Path

import pytest

from specsim.conformance.backend import BackendUnavailable
from specsim.properties.suite.catalogue import property_named
from specsim.properties.suite.conformance.running import run_property

FOLDER = Path(__file__).parent / "compiled"
SGL_KERNEL = (FOLDER / "sgl_kernel.py").read_text(encoding="utf-8")
FLASHINFER = (FOLDER / "flashinfer_sampling.py").read_text(encoding="utf-8")
EAGLE_UTILS = """
import torch
from sglang.kernels.ops.speculative.spec_tree import TreeMaskMode, build_tree_kernel_efficient_func


def build_tree_kernel_efficient(bonus_tokens, parent_list, top_scores_index, draft_tokens, seq_lens, seq_lens_sum, topk,
                                spec_steps, num_verify_tokens, tree_mask_mode=TreeMaskMode.FULL_MASK):
    draft_tokens = torch.cat((bonus_tokens.unsqueeze(1), draft_tokens), dim=1).flatten()
    bs, nodes = len(seq_lens), num_verify_tokens
    if tree_mask_mode == TreeMaskMode.QLEN_ONLY_BITPACKING:
        dtype = torch.uint8 if nodes <= 8 else torch.uint16 if nodes <= 16 else torch.uint32
        tree_mask = torch.zeros((nodes * bs,), dtype=dtype)
    else:
        size = nodes * bs * nodes + (nodes * seq_lens_sum if tree_mask_mode == TreeMaskMode.FULL_MASK else 0)
        tree_mask = torch.full((size,), True, dtype=torch.bool)
    links = torch.full((3, bs, nodes), -1, dtype=torch.long)
    positions = torch.empty((bs * nodes,), dtype=torch.long)
    build_tree_kernel_efficient_func(parent_list, top_scores_index, seq_lens, tree_mask, positions, *links, topk,
                                     spec_steps, nodes, tree_mask_mode)
    return tree_mask, positions, *links, draft_tokens
"""
SPEC_TREE = """
from enum import IntEnum
from sglang.srt.utils import is_cuda, is_xpu

_is_cuda = is_cuda()
_is_xpu = is_xpu()
if _is_cuda:
    from sglang.kernels.ops.speculative.tree import build_tree_kernel_efficient as sgl_build_tree_kernel_efficient


class TreeMaskMode(IntEnum):
    FULL_MASK = 0
    QLEN_ONLY = 1
    QLEN_ONLY_BITPACKING = 2


def build_tree_kernel_efficient_func(*arguments):
    assert _is_cuda and not _is_xpu
    sgl_build_tree_kernel_efficient(*arguments)
"""
JIT = """
calls = []


def _jit_tree_module():
    calls.append("compiled")


def verify_tree_greedy(predicts, accept_index, accept_token_num, candidates, retrive_index, retrive_next_token,
                       retrive_next_sibling, target_predict):
    assert calls == ["compiled"]
    accept_index[:, 0] = retrive_index[:, 0]
    accept_token_num.zero_()
    predicts[retrive_index[:, 0]] = target_predict[:, 0].int()
"""
NEEDS_A_COMPILER = """
import not_installed_anywhere

launch = not_installed_anywhere.load("build_tree_kernel_efficient")


def build_tree_kernel_efficient(*arguments):
    launch(*arguments)


def verify_tree_greedy(*arguments):
    launch(*arguments)
"""
SGLANG = {"srt/utils/__init__.py": "", "kernels/ops/speculative/spec_tree.py": SPEC_TREE}
SGLANG["srt/speculative/eagle_utils.py"] = EAGLE_UTILS


@pytest.fixture
def gpu(monkeypatch):
    """Say that there is a GPU; no module of an engine that is imported meanwhile is left."""
    monkeypatch.setattr(importlib.import_module("specsim.engines.kernels"), "has_gpu", lambda: True)
    yield
    for name in [name for name in sys.modules if name.partition(".")[0] in ("sgl_kernel", "flashinfer")]:
        sys.modules.pop(name)


@pytest.mark.usefixtures("gpu")
def test_operations_of_sglang_reach_sgl_kernel_in_its_forms(lay_out, adapter):
    lay_out("sglang", {**SGLANG, "kernels/ops/speculative/tree.py": NEEDS_A_COMPILER}, version="0.5.23")
    lay_out("sgl_kernel", {"__init__.py": SGL_KERNEL}, version="0.3.21")
    backend = adapter("specsim.engines.sglang")
    assert {*backend.functions} == {
        "build_tree",
        "verify_tree_greedy",
        "top_k_renorm",
        "top_p_renorm",
        "tree_speculative_sampling_target_only",
    }
    for operation in backend.functions:
        report, failure = run_property(property_named(f"agreement.{operation}"), backend, 1, 4, must_reach=False)
        assert (report.examples >= 3, failure) == (True, None), operation
    assert backend.limits.of("build_tree")["mask_mode"] == (0, 1, 2)
    assert backend.limits.of("tree_speculative_sampling_target_only") == {"strict": (0,), "skip_duplicates": (0,)}


@pytest.mark.usefixtures("gpu")
def test_what_is_reached_is_reported_with_its_version_and_what_is_not_with_the_reason(lay_out, adapter):
    lay_out("sglang", {**SGLANG, "kernels/ops/speculative/tree.py": JIT}, version="0.5.23")
    lay_out("flashinfer", {"sampling.py": FLASHINFER}, version="0.7.2")
    adapter("specsim.engines.sglang")
    assert sys.modules["specsim.engines.sglang"].REMARKS == (
        "sglang 0.5.23",
        "build_tree: Triton's, as sglang.kernels.ops.speculative.tree (sglang 0.5.23) has no "
        "build_tree_kernel_efficient; sgl_kernel is not installed",
        "verify_tree_greedy: compiled, of sglang.kernels.ops.speculative.tree (sglang 0.5.23)",
        "top_k_renorm, top_p_renorm: compiled, of flashinfer.sampling (flashinfer 0.7.2)",
        "tree_speculative_sampling_target_only: missing, as sglang 0.5.23 has no "
        "sglang.kernels.ops.speculative.sampling; sgl_kernel is not installed",
    )


def test_without_a_gpu_nothing_compiled_is_asked_for(lay_out, adapter):
    lay_out("sglang", SGLANG, version="0.5.23")
    lay_out("sgl_kernel", {"__init__.py": "raise ImportError('libcuda.so.1 is not there')"}, version="0.3.21")
    assert not adapter("specsim.engines.sglang").functions
    assert sys.modules["specsim.engines.sglang"].REMARKS == (
        "sglang 0.5.23",
        "build_tree, verify_tree_greedy, top_k_renorm, top_p_renorm: Triton's, as torch sees no GPU",
        "tree_speculative_sampling_target_only: missing, as torch sees no GPU",
    )


@pytest.mark.usefixtures("gpu")
def test_a_library_that_does_not_load_is_one_line(lay_out):
    lay_out("sgl_kernel", {"__init__.py": "raise ImportError('no libcuda.so.1\\nand more')"}, version="0.3.21")
    kernels = importlib.import_module("specsim.engines.kernels")
    kernel = kernels.reach((kernels.Home("sgl_kernel", "verify_tree_greedy"),))
    assert kernel.in_words("missing") == (
        "missing, as sgl_kernel (sgl_kernel 0.3.21) does not load, ImportError: no libcuda.so.1"
    )
    with pytest.raises(NotImplementedError, match="no compiled kernel is reached, as sgl_kernel"):
        kernel.call()


@pytest.mark.usefixtures("gpu")
def test_operations_of_flashinfer_are_called_in_its_forms(lay_out, adapter):
    lay_out("flashinfer", {"sampling.py": FLASHINFER}, version="0.7.2")
    backend = adapter("specsim.engines.flashinfer")
    for operation in ("top_k_renorm", "top_p_renorm"):
        report, failure = run_property(property_named(f"agreement.{operation}"), backend, 1, 4, must_reach=False)
        assert (report.examples >= 3, failure) == (True, None), operation
    law = property_named("sampling_frequency_law.chain_frequencies_fit_the_targets_law")
    report, failure = run_property(law, backend, 1, 1, must_reach=False)
    assert (report.examples, failure) == (1, None)


def test_flashinfer_without_a_gpu_is_one_line(lay_out, adapter):
    lay_out("flashinfer", {"sampling.py": FLASHINFER}, version="0.7.2")
    with pytest.raises(BackendUnavailable) as caught:
        adapter("specsim.engines.flashinfer")
    assert str(caught.value) == (
        "specsim.engines.flashinfer does not import: NeedsGpu: "
        "flashinfer 0.7.2 has compiled kernels only, and torch sees no GPU"
    )
