"""Kernels that trap on a GPU: the case is named, and the run goes on in a process with a device that answers."""

import json
from pathlib import Path

import pytest
import torch

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="a kernel traps on a GPU only")

SOURCE = """
import torch
import triton
import triton.language as tl
from specsim import gpu
from specsim.gpu import per_step_draft_out_cache_loc

ARRAYS = "torch"


@triton.jit(debug=True)
def trap(counts, is_wild: tl.constexpr):
    count = tl.load(counts + 1)
    if is_wild:
        tl.store(counts + (count.to(tl.int64) + 1) * (1 << 44), count)
    else:
        tl.device_assert(count < 0, "no request may be second")


def fill_bonus_tokens(accept_tokens, num_accepted_tokens):
    if {is_trap} and len(accept_tokens) > 1:
        trap[(1,)](num_accepted_tokens.clone(), {is_wild})
    return gpu.fill_bonus_tokens(accept_tokens, num_accepted_tokens)
"""
OTHER = "per_step_draft_out_cache_loc"
GROUPS = ("agreement", "strided", "mutation", "poison")
CHOSEN = tuple(f"--property={group}.{name}" for group in GROUPS for name in ("fill_bonus_tokens", OTHER))


@pytest.mark.parametrize("jobs", (1, 4))
@pytest.mark.parametrize("is_wild", (False, True), ids=("device_assert", "illegal address"))
def test_a_kernel_that_traps_is_named_with_its_case_and_the_run_goes_on(specsim, tmp_path, is_wild, jobs):
    def document_of(name, is_trap):
        (tmp_path / f"{name}.py").write_text(SOURCE.format(is_wild=is_wild, is_trap=is_trap))
        got = specsim("check", name, "--examples", 10, "--seed", 3, "--budget", 1000, "--json", "--jobs", jobs, *CHOSEN)
        return got.exit_code, json.loads(got.stdout)

    stem = f"trapping_{is_wild}_{jobs}".lower()
    code, found = document_of(stem, True)
    assert (code, found["verdict"]) == (1, "fails")
    assert {one["operation"] for one in found["failures"]} == {"fill_bonus_tokens"}
    assert {one["fate"] for one in found["failures"]} == {"CRASHED"}
    assert not [name for name, one in found["properties"].items() if one["cut"]]
    code, honest = document_of(f"{stem}_honest", False)
    assert (code, honest["verdict"]) == (0, "conforms")
    for group in GROUPS:
        assert found["properties"][f"{group}.{OTHER}"] == honest["properties"][f"{group}.{OTHER}"]
    case = json.loads(Path(found["failures"][0]["case"]).read_text())
    assert case["operation"] == "fill_bonus_tokens"
    assert case["arrays"]["accept_tokens"]["shape"][0] > 1, "one request alone traps nothing"
    again = specsim("replay", found["failures"][0]["case"], "--implementation-from-case")
    assert (again.exit_code, again.stdout.startswith("! CRASHED")) == (1, True), again.output
