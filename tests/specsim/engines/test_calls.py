"""Calls of a tiny package that is laid out as SGLang is, recorded as calls of operations."""

import importlib
import inspect
import sys

import pytest
import torch

import specsim
from specsim.conformance.cases import read_case
from specsim.conformance.outcomes import first_difference
from specsim.conformance.recording.kept import Tally
from specsim.operations import RECORDS

EAGLE = """
import torch

def fill_bonus_tokens_func(accept_tokens, accept_lens, bonus_tokens, accept_stride, batch_size):
    rows = torch.arange(batch_size) * accept_stride
    bonus_tokens.copy_(accept_tokens[rows + accept_lens.long() - 1])
"""
UTILS = """
import torch

def build_tree_kernel_efficient(bonus_tokens, parent_list, top_scores_index, draft_tokens, seq_lens, seq_lens_sum, topk,
                                spec_steps, num_verify_tokens, tree_mask_mode=0, tree_mask_buf=None,
                                fill_prefix_mask=True):
    nodes = torch.tensor([[0, 1]])
    tree_mask_buf[:4] = torch.tensor([True, False, True, True])
    ids = torch.cat((bonus_tokens[:, None], draft_tokens), 1).flatten()
    return tree_mask_buf, seq_lens + nodes[0], nodes, torch.tensor([[1, -1]]), torch.tensor([[-1, -1]]), ids
"""
WALK = """
def verify_tree_greedy_func(predicts, accept_index, accept_token_num, candidates, retrieve_index, retrieve_next_token,
                            retrieve_next_sibling, target_predict, topk=-1):
    accept_index[:, 0] = retrieve_index[:, 0]
    accept_token_num.zero_()
    predicts[retrieve_index[:, 0]] = target_predict[:, 0].int()
    return predicts, accept_index, accept_token_num
"""


@pytest.fixture
def sglang(lay_out, monkeypatch):
    """Return a function that imports a module of the package."""
    for name in [name for name in sys.modules if name.startswith(("specsim.engines.sglang", "sglang"))]:
        monkeypatch.delitem(sys.modules, name)
    speculative = "kernels/ops/speculative"
    files = {
        f"{speculative}/eagle.py": EAGLE,
        f"{speculative}/spec_tree.py": WALK,
        "srt/speculative/eagle_utils.py": UTILS,
    }
    lay_out("sglang", files, "0.5.23")
    for name in ("kernels", "kernels/ops", "srt"):
        lay_out("sglang", {f"{name}/__init__.py": ""})
    yield lambda name: importlib.import_module(f"sglang.{name}")
    for name in [name for name in sys.modules if name.startswith(("specsim.engines.", "sglang"))]:
        sys.modules.pop(name)


def test_calls_of_the_engines_own_functions_are_recorded_in_their_forms(sglang, tmp_path):
    eagle, utils = sglang("kernels.ops.speculative.eagle"), sglang("srt.speculative.eagle_utils")
    walk, bonus, node = (
        sglang("kernels.ops.speculative.spec_tree"),
        torch.zeros(2, dtype=torch.int32),
        torch.zeros(1, 1),
    )
    tokens, counts = torch.tensor([5, 6, 7, 0], dtype=torch.int32), torch.tensor([2, 1], dtype=torch.int32)
    one = torch.tensor([7])
    node = node.long()
    mask = torch.ones(64, dtype=torch.bool)
    given = [torch.full(size, -1, dtype=torch.int32) for size in ((1,), (1, 3), (1,))]
    with specsim.record(tmp_path / "calls", "specsim.engines.sglang") as recording:
        eagle.fill_bonus_tokens_func(tokens, counts, bonus, 2, 2)
        build = (one, node[:, :0], node, node + 4, one - 4, 3, 1, 1, 2)
        utils.build_tree_kernel_efficient(*build, tree_mask_mode=1, tree_mask_buf=mask)
        utils.build_tree_kernel_efficient(*build, tree_mask_buf=mask, fill_prefix_mask=False)
        walk.verify_tree_greedy_func(*given, node, node, node - 1, node - 1, target_predict=node + 3)
    cases = {case.operation: case for case in map(read_case, (tmp_path / "calls").glob("*.json"))}
    assert cases.keys() == {"fill_bonus_tokens", "build_tree", "verify_tree_greedy"}
    for case in cases.values():
        assert first_difference(case.operation, case.arguments, case.expected, case.observed) is None
        assert case.ties_are_free
    assert cases["verify_tree_greedy"].arguments["num_steps"] == 2
    assert cases["build_tree"].observed.outputs["tree_mask"].shape == (4,)
    assert recording.tallies["build_tree"] == Tally(calls=2, not_understood=1)


@pytest.mark.usefixtures("sglang")
def test_a_call_reads_as_one_that_the_table_describes():
    calls = importlib.import_module("specsim.engines.sglang.calls")
    for tap in calls.CALLS:
        contract = RECORDS[tap.operation].contract
        stands_for = dict.fromkeys(inspect.signature(tap.arguments).parameters, torch.zeros(2, 2, dtype=torch.int64))
        numbers = {"dim": -1, "i": 0, "topk": 1, "spec_steps": 1, "num_verify_tokens": 1, "seq_lens_sum": 2}
        numbers |= {"num_draft_token": 1, "num_cols": 1, "num_steps": 1, "batch_size": 2, "accept_stride": 2}
        numbers |= {"fill_prefix_mask": True, "threshold_single": 1.0, "threshold_acc": 1.0, "tree_mask_mode": 1}
        read = tap.arguments(*(numbers.get(name, value) for name, value in stands_for.items()))
        assert set(read) == {spec.name for spec in contract.parameters}, tap.operation


@pytest.mark.usefixtures("sglang")
def test_a_call_in_a_form_that_no_operation_has_is_left_out():
    calls = {tap.operation: tap.arguments for tap in importlib.import_module("specsim.engines.sglang.calls").CALLS}
    rows = torch.zeros(2, 2)
    assert calls["fast_topk"](rows, 1, 0) is None
    assert calls["top_k_renorm"](rows, 5) is None
    assert calls["top_p_renorm"](rows, 0.5) is None
    assert calls["fill_accept_out_cache_loc"](rows[0], rows[0], rows[0], 2) is None
    assert calls["fill_accept_target_cache_loc"](rows[0], rows, torch.zeros(3)) is None
