import importlib
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from specsim.conformance.backend import BackendUnavailable, load
from specsim.properties.reach.sizes import LARGEST_INTERPRETED_POWER
from specsim.properties.runs.workers.tours import Tour, runs_of_steps, runs_of_topk

EAGLE_UTILS = """
import not_installed_anywhere
from typing import List
import torch
from sglang.srt.utils.async_probe import maybe_detect_oob


def per_step_draft_out_cache_loc(out_cache_loc, batch_size, topk, num_steps):
    return out_cache_loc.view(batch_size, topk, num_steps).permute(2, 0, 1).reshape(num_steps, -1)
"""
BONUS = """
import torch
from sglang.srt.utils import is_cpu

_is_cpu = is_cpu()
if _is_cpu:
    from sgl_kernel import fill_bonus_tokens_cpu


def fill_bonus_tokens_func(accept_tokens, accept_lens, bonus_tokens, accept_stride, batch_size):
    if _is_cpu:
        fill_bonus_tokens_cpu()
    bonus_tokens.copy_(accept_tokens[torch.arange(batch_size), accept_lens.long() - 1])
"""
ASSISTED = """
import not_installed_anywhere
import torch


def _speculative_sampling(candidate_input_ids, candidate_logits, candidate_length, new_logits):
    p, q = new_logits.softmax(-1), candidate_logits.softmax(-1)
    ids = candidate_input_ids[:, -candidate_length:]
    columns = torch.arange(candidate_length)
    coins = torch.rand_like(p[0, columns, ids[0]])
    kept = (coins * q[0, columns, ids[0]] < p[0, columns, ids[0]]).cumprod(0).sum()
    row = p[:, kept] if kept == candidate_length else (p[:, kept] - q[:, kept]).clamp(min=0)
    return torch.cat((ids[:, :kept], torch.multinomial(row, num_samples=1)), 1), kept
"""
CHAIN = {
    "draft_tokens": np.array([1, 0, 1], np.int64),
    "cu_num_drafts": np.array([0, 2, 2, 3], np.int32),
    "uniform_samples": np.array([0.5, 0.9, 0.25], np.float32),
    "uniform_samples_for_final_sampling": np.array([0.5, 0.75, 0.0], np.float32),
    "draft_probs": np.array([[0.5, 0.5], [1, 0], [0.5, 0.5]], np.float32),
    "target_probs": np.array([[0.5, 0.5], [0.25, 0.75], [1, 0], [0.5, 0.5], [0.5, 0.5], [0.5, 0.5]], np.float32),
    "max_num_drafts": 2,
}


@pytest.mark.parametrize(("engine", "version"), [("sglang", "0.5.23"), ("vllm", "0.33.0"), ("transformers", "5.23.0")])
def test_an_engine_that_is_not_installed_is_one_line_with_its_version(monkeypatch, adapter, engine, version):
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if not (Path(entry) / engine).is_dir()])
    monkeypatch.delitem(sys.modules, engine, raising=False)
    with pytest.raises(BackendUnavailable) as caught:
        adapter(f"specsim.engines.{engine}")
    assert str(caught.value) == (
        f"specsim.engines.{engine} does not import: EngineNotInstalled: "
        f"{engine} is not installed; this adapter is written for {engine} {version}"
    )


def test_what_a_release_lacks_is_missing(lay_out, adapter):
    lay_out("sglang", {"srt/speculative/eagle_utils.py": EAGLE_UTILS}, version="0.5.4")
    assert set(adapter("specsim.engines.sglang").functions) == {"per_step_draft_out_cache_loc"}


def test_no_compiled_part_is_asked_for(lay_out, adapter):
    lay_out("sglang", {"kernels/ops/speculative/eagle.py": BONUS, "srt/utils/__init__.py": ""}, version="0.5.23")
    backend = adapter("specsim.engines.sglang")
    tokens, counts = np.array([[7, 8], [9, 0]], np.int32), np.array([2, 1], np.int32)
    assert backend.fill_bonus_tokens(tokens, counts).tolist() == [8, 9]


def test_an_installed_function_is_called(lay_out, adapter):
    lay_out("sglang", {"srt/speculative/eagle_utils.py": EAGLE_UTILS}, version="0.5.4")
    rows = adapter("specsim.engines.sglang").per_step_draft_out_cache_loc(np.arange(8), topk=2, num_steps=2)
    assert rows.tolist() == [[0, 2, 4, 6], [1, 3, 5, 7]]


ASSIGN = """
def assign_draft_cache_locs_contiguous_func(req_pool_indices, req_to_token, seq_lens, out_cache_loc, topk, num_cols):
    out_cache_loc.copy_(req_to_token[0, : len(out_cache_loc)])
"""


def test_copies_that_sglang_does_not_make_are_refused(lay_out, adapter):
    lay_out("sglang", {"kernels/ops/speculative/cache_locs.py": ASSIGN}, version="0.5.23")
    backend = adapter("specsim.engines.sglang").without_limits()
    drafts = (np.array([0]), np.array([[5, 6]], np.int32), np.array([0], np.int32), 1, 2, 1)
    slots, *copies = backend.assign_draft_cache_locs(*drafts, 0)
    assert slots.tolist() == [5, 6] and [len(one) for one in copies] == [0, 0]
    with pytest.raises(ValueError, match="num_copies is 1, but should be 0"):
        backend.assign_draft_cache_locs(*drafts, 1)


RENORM = """
def _prepare_probs(probs):
    raise ValueError("renorm kernels require a CUDA/HIP tensor")


def top_k_renorm_probs_triton(probs, top_ks):
    return _prepare_probs(probs)
"""


def test_probabilities_may_lie_on_the_cpu_and_have_to_be_rows(lay_out, adapter):
    lay_out("sglang", {"kernels/ops/sampling/renorm_triton.py": RENORM}, version="0.5.23")
    adapter("specsim.engines.sglang")
    renorm = vars(sys.modules["specsim.engines.sglang"])["top_k_renorm"]
    row, counts = torch.tensor([0.5, 0.5]), torch.tensor([1])
    assert renorm(row[None], counts).tolist() == [[0.5, 0.5]]
    with pytest.raises(ValueError, match="probs must be 2D"):
        renorm(row, counts)


def test_the_draws_of_transformers_come_from_the_coins(lay_out, adapter):
    lay_out("transformers", {"generation/utils.py": ASSISTED}, version="5.23.0")
    found = adapter("specsim.engines.transformers").chain_speculative_sampling(**CHAIN)
    expected = load("specsim.reference").chain_speculative_sampling(**CHAIN)
    assert found[0].tolist() == expected[0].tolist()
    assert found[1].tolist() == expected[1].tolist()


def test_the_tables_of_the_page_are_those_of_the_adapters(adapter):
    path = Path(__file__).parents[3] / "docs" / "engines.md"
    written = path.read_text(encoding="utf-8")
    text = importlib.import_module("specsim.engines.page").page(written)
    assert written == text, "run: python -m specsim.engines.page docs/engines.md"
    rows = {line.split("`")[1]: line for line in text.splitlines() if line.startswith("| `")}
    assert "`TopKLogitsWarper`" in rows["top_k_renorm"] and "(compiled)" in rows["verify_tree_greedy"]


def test_transformers_draws_its_own_numbers_where_no_coins_are_given(lay_out, adapter):
    lay_out("transformers", {"generation/utils.py": ASSISTED}, version="5.23.0")
    sample = adapter("specsim.engines.transformers").chain_speculative_sampling_without_coins
    chains = {name: value for name, value in CHAIN.items() if not name.startswith("uniform")}
    outcomes = {str(sample(**chains, seed=seed)) for seed in range(20)}
    assert len(outcomes) > 1 and str(sample(**chains, seed=3)) == str(sample(**chains, seed=3))
    # The first draft is as likely under both models and always accepted, the second one time in four.
    assert {int(sample(**chains, seed=seed)[1][0]) for seed in range(20)} == {1, 2}


WARPERS = """
class TopKLogitsWarper:
    def __init__(self, top_k):
        self.top_k = top_k

    def __call__(self, input_ids, scores):
        return scores.masked_fill(scores < scores.topk(min(self.top_k, scores.size(-1)))[0][..., -1:], -float("inf"))
"""


def test_a_filter_with_one_setting_gets_one_row_at_a_time(lay_out, adapter):
    lay_out("transformers", {"generation/logits_process.py": WARPERS}, version="5.23.0")
    rows, counts = np.array([[0.5, 0.375, 0.125]] * 2, np.float32), np.array([1, 9], np.int32)
    kept = adapter("specsim.engines.transformers").top_k_renorm(rows, counts)
    np.testing.assert_allclose(kept, [[1, 0, 0], [0.5, 0.375, 0.125]], rtol=1e-6)


WORKER_OF_EAGLE = """
from sglang.srt.speculative.eagle_utils import _eagle_prefill_tail_tokens


class EagleDraftWorker:
    def _draft_extend_for_prefill(self, batch, target_hidden_states, next_token_ids):
        if ENDS:
            return
        first = 0
        rotated = batch.input_ids.clone()
        for token, length in zip(_eagle_prefill_tail_tokens(batch, next_token_ids), batch.extend_lens):
            rotated[first : first + length - 1] = batch.input_ids[first + 1 : first + length]
            first += length
            rotated[first - 1] = token
        batch.input_ids = rotated
        EagleDraftExtendInput(hidden_states=target_hidden_states)
"""
TAIL = "def _eagle_prefill_tail_tokens(batch, next_token_ids):\n    return next_token_ids\n"


@pytest.mark.parametrize("ends", [False, True])
def test_prompts_are_rotated_up_to_the_forward_that_follows(lay_out, adapter, ends):
    files = {"eagle_worker_v2": WORKER_OF_EAGLE.replace("ENDS", str(ends)), "eagle_utils": TAIL}
    lay_out("sglang", {f"srt/speculative/{name}.py": text for name, text in files.items()}, version="0.5.23")
    rotate = adapter("specsim.engines.sglang").rotate_prefill_input_ids
    call = np.array([1, 2, 3]), np.array([1, 2], np.int32), np.array([8, 9])
    if ends:
        with pytest.raises(ValueError, match="ended before it made its input"):
            rotate(*call)
    else:
        assert rotate(*call).tolist() == [8, 3, 9]


INPUTS_OF_EAGLE = """
import torch
from sglang.srt.mem_cache.kv_index_translator import KVIndexTranslator


class EagleDraftExtendInput:
    def generate_attn_arg_prefill(
        self, *, req_pool_indices, paged_kernel_lens, paged_kernel_lens_sum, translator: KVIndexTranslator, plan
    ):
        lengths = paged_kernel_lens.tolist()
        slots = [translator.req_to_token[row, :count] for row, count in zip(req_pool_indices.tolist(), lengths)]
        queries = torch.arange(len(self.num_correct_drafts) + 1) * self.num_tokens_per_req
        indptr = torch.tensor([0, *lengths]).cumsum(0).int()
        return torch.cat(slots), indptr, queries.int(), None
"""
TRANSLATOR = """
class KVIndexTranslator:
    def pack_read_stream(self): ...
    def read_source(self): ...
    def _passthrough_table(self): ...
"""


def test_requests_of_one_number_of_queries_make_one_call_and_return_in_order(lay_out, adapter):
    files = {"srt/speculative/eagle_info.py": INPUTS_OF_EAGLE, "srt/mem_cache/kv_index_translator.py": TRANSLATOR}
    lay_out("sglang", files, version="0.5.23")
    call = {
        "req_pool_indices": np.array([2, 0, 1]),
        "req_to_token": np.arange(12, dtype=np.int32).reshape(3, 4),
        "kv_lens": np.array([3, 2, 4]),
        "num_accepted_tokens": np.array([2, 1, 2], np.int32),
        "kv_lens_sum": 9,
    }
    found = adapter("specsim.engines.sglang").generate_attn_arg_prefill(**call)
    expected = load("specsim.reference").generate_attn_arg_prefill(**call)
    assert [one.tolist() for one in found] == [one.tolist() for one in expected]


def test_a_kernel_of_vllm_gets_its_arguments_in_either_case_and_their_strides(lay_out, adapter):
    lay_out("vllm", {})
    adapter("specsim.engines.vllm")
    argument_of = vars(sys.modules["specsim.engines.vllm.release"])["_argument_of"]
    arguments = {"rows": torch.zeros(3, 5), "stride_rows": 7, "BLOCK_SIZE": 8}
    names = ("ROWS_STRIDE_0", "rows_ptr_stride", "rows_stride1", "stride_rows", "BLOCK_SIZE")
    assert [argument_of(name, arguments) for name in names] == [5, 5, 1, 7, 8]
    assert argument_of("rows_ptr", arguments) is argument_of("ROWS", arguments) is arguments["rows"]


CHAIN_KERNEL = """
def chain_speculative_sampling_triton(predicts, accept_index, accept_token_num, candidates, *_):
    accept_index.copy_((predicts.new_ones(candidates.shape).cumsum(1) - 1).int())
    accept_index += (accept_index.new_ones(len(candidates)).cumsum(0)[:, None] - 1) * candidates.shape[1]
    predicts.copy_(candidates.flatten())
    accept_token_num.fill_(candidates.shape[1] - 1)
"""


def test_chains_of_one_length_make_one_call_and_return_to_their_rows(lay_out, adapter):
    lay_out("sglang", {"kernels/ops/speculative/reject_sampling.py": CHAIN_KERNEL}, version="0.5.23")
    tokens, counts = adapter("specsim.engines.sglang").chain_speculative_sampling(**CHAIN)
    assert tokens.tolist() == [[0, 1, 0], [1, -1, -1], [0, 1, -1]]
    assert counts.tolist() == [2, 0, 1]


def test_what_lies_after_a_call_in_the_callers_rows_is_left_alone(lay_out, adapter):
    lay_out("sglang", {"kernels/ops/speculative/reject_sampling.py": CHAIN_KERNEL}, version="0.5.23")
    adapter("specsim.engines.sglang")
    given = {name: torch.from_numpy(value) if isinstance(value, np.ndarray) else value for name, value in CHAIN.items()}
    tokens, counts = torch.full((4, 5), 77, dtype=torch.int32), torch.full((4,), 77, dtype=torch.int32)
    vars(sys.modules["specsim.engines.sglang"])["chain_speculative_sampling_out"](**given, out=(tokens, counts))
    assert tokens.tolist() == [[0, 1, 0, 77, 77], [1, -1, -1, 77, 77], [0, 1, -1, 77, 77], [77] * 5]
    assert counts.tolist() == [2, 0, 1, 77]


def test_trees_of_every_tour_are_built_by_the_engine_without_a_gpu(lay_out, adapter):
    lay_out("sglang", {}, version="0.5.23")
    adapter("specsim.engines.sglang")
    tour = Tour(seed=0, agreement=0.7, num_layers=(2, 1))
    runs = [run for of in (runs_of_steps, runs_of_topk) for run in of(tour, LARGEST_INTERPRETED_POWER)]
    most = sys.modules["specsim.engines.sglang.release"].largest_tree()
    assert max(scenario.config.num_draft_tokens for _, scenario, _ in runs) <= most
