"""Chains from logits reach vLLM's second sampler in its form, with coins in the positions that generators are given."""

import importlib
import sys

import numpy as np
import pytest
import torch
import triton
import triton.language as tl

from specsim.conformance.backend import load
from specsim.environment import INTERPRETER, says_yes

needs_interpreter = pytest.mark.skipif(not says_yes(INTERPRETER), reason="kernels are compiled here")
GPU = "v1/worker/gpu"
SAMPLER = """
import torch
from vllm.triton_utils import tldevice
from vllm.v1.worker.gpu.sample.gumbel import tl_rand32


def rejection_sample(
    target_logits, draft_logits, draft_sampled, cu_num_logits, pos, idx_mapping, expanded_idx_mapping,
    expanded_local_pos, temperature, seed, num_speculative_steps, use_block_verification=False,
):
    sampled = draft_sampled.new_full((len(idx_mapping), num_speculative_steps + 1), 77)
    counts = torch.zeros(len(idx_mapping), dtype=torch.int32)
    for request, (first, last) in enumerate(zip(cu_num_logits.tolist(), cu_num_logits[1:].tolist())):
        assert expanded_idx_mapping[first:last].tolist() == [request] * (last - first)
        assert expanded_local_pos[first:last].tolist() == list(range(last - first))
        row = first
        while row < last - 1 and draft_sampled[row + 1] >= 0:
            token, coin = int(draft_sampled[row + 1]), (pos[row] & 0xFFFFFFFF).int().view(torch.float32)
            log_p = target_logits[row].log_softmax(0)[token]
            log_q = torch.zeros(())
            if draft_logits is not None and temperature[request] > 0:
                log_q = (draft_logits[request, row - first].float() / temperature[request]).log_softmax(0)[token]
            if temperature[request] == 0 and target_logits[row].argmax() != token:
                break
            if temperature[request] > 0 and not log_p > coin.log() + log_q:
                break
            sampled[request, row - first] = token
            row += 1
        is_greedy = temperature[request] == 0
        sampled[request, row - first] = target_logits[row].argmax() if is_greedy else pos[row] >> 32
        counts[request] = row - first + 1
    return sampled, counts
"""
FILES = {
    "triton_utils/__init__.py": "import triton.language.extra.libdevice as tldevice\n",
    f"{GPU}/spec_decode/rejection_sampler_utils.py": SAMPLER,
    f"{GPU}/sample/gumbel.py": (
        "def tl_rand32():\n    raise ValueError('a hash')\n"
        "def apply_temperature(logits, requests, temperature):\n"
        "    logits /= temperature.masked_fill(temperature == 0, 1.0)[requests.long()][:, None]\n"
    ),
    f"{GPU}/sample/min_p.py": (
        "def apply_min_p(logits, requests, min_p):\n"
        "    least = logits.max(1, keepdim=True).values + min_p[requests.long()].log()[:, None]\n"
        "    logits[logits < least] = -float('inf')\n"
    ),
    "v1/sample/ops/topk_topp_sampler.py": (
        "def apply_top_k_top_p_pytorch(): ...\n"
        "def apply_top_k_top_p(logits, k, p):\n"
        "    assert p is None\n"
        "    least = logits.sort(dim=1, descending=True).values.gather(1, k.long()[:, None] - 1)\n"
        "    return logits.masked_fill(logits < least, -float('inf'))\n"
    ),
}


@pytest.fixture
def backend(lay_out, adapter):
    lay_out("vllm", FILES, version="0.33.0")
    return adapter("specsim.engines.vllm")


def call(seed, draft_vocab, **changed):
    """Return a batch of greedy, filtered, certain and plain requests; two of them end before their last draft."""
    source = np.random.default_rng(seed)
    counts = [2, 0, 3, 3, 1]
    tokens = source.integers(0, min(6, draft_vocab), sum(counts))
    tokens[[1, 4]] = -1
    return {
        "draft_tokens": tokens,
        "cu_num_drafts": np.cumsum([0, *counts]).astype(np.int32),
        "uniform_samples": (source.integers(0, 2**24, sum(counts)) / 2**24).astype(np.float32),
        "uniform_samples_for_final_sampling": (source.integers(0, 2**24, 5) / 2**24).astype(np.float32),
        "draft_logits": source.normal(size=(sum(counts), draft_vocab)).astype(np.float32),
        "target_logits": source.normal(size=(sum(counts) + 5, 6)).astype(np.float32),
        "temperature": np.array([1, 0.5, 2, 0, 1], np.float32),
        "top_k": np.array([6, 2, 4, 1, 2**31 - 1], np.int32),
        "top_p": None,
        "min_p": np.array([0.25, 0, 0, 0.5, 0], np.float32),
        "draft_temperature": np.array([1, 0.5, 4, 0, 0], np.float32),
        "max_num_drafts": 4,
        **changed,
    }


@pytest.mark.parametrize("changed", [{}, {"draft_logits": None}, {"top_k": None, "min_p": None}])
@pytest.mark.parametrize("draft_vocab", [4, 6, 8])
def test_requests_of_every_kind_give_what_the_reference_gives(backend, draft_vocab, changed):
    for seed in range(20):
        given = call(seed, draft_vocab, **changed)
        found, expected = (
            of.chain_speculative_sampling_from_logits(**given) for of in (backend, load("specsim.reference"))
        )
        assert [one.tolist() for one in found] == [one.tolist() for one in expected], seed


def test_generators_are_exchanged_only_where_there_are_coins(backend):
    release = sys.modules["specsim.engines.vllm.release"]
    for engine, is_exchanged in ((release.engine(), False), (release.engine_with_coins(), True)):
        generator = engine.tree.module(release.SAMPLER_OF_CHAINS).tl_rand32
        assert isinstance(generator, triton.runtime.jit.KernelInterface) == is_exchanged


coins = interpreted = None
"""Modules of the adapter, which is there with an engine only; kernels look them up when they are interpreted."""


@triton.jit
def _read(pos_ptr, coins_ptr, numbers_ptr, width: tl.constexpr):
    row, columns = tl.program_id(0), tl.arange(0, width)
    pos = tl.load(pos_ptr + row)
    tl.store(coins_ptr + row, coins.tl_rand32(0, pos, False))
    tl.store(numbers_ptr + row * width + columns, coins.murmur3_uniform32(0, pos, columns))


@triton.jit
def _log1p(x_ptr, out_ptr, width: tl.constexpr):
    columns = tl.arange(0, width)
    tl.store(out_ptr + columns, interpreted.log1p(tl.load(x_ptr + columns)))


@needs_interpreter
@pytest.mark.usefixtures("backend")
def test_a_position_holds_a_coin_and_the_token_that_wins(monkeypatch):
    monkeypatch.setitem(globals(), "coins", importlib.import_module("specsim.engines.vllm.coins"))
    given, tokens = torch.tensor([0.0, 2.0**-24, 1 - 2.0**-24]), torch.tensor([3, 0, 2])
    found, numbers = torch.empty(3), torch.empty(3, 4)
    _read[(3,)](coins.positions(given, tokens), found, numbers, 4)
    assert found.tolist() == given.tolist()
    assert numbers.argmin(1).tolist() == tokens.tolist() and bool(numbers.sort(1).values[:, 1:].eq(1).all())


@needs_interpreter
@pytest.mark.usefixtures("backend")
def test_the_logarithm_near_1_is_that_of_libdevice(monkeypatch):
    monkeypatch.setitem(globals(), "interpreted", importlib.import_module("specsim.engines.vllm.interpreted"))
    given, found = torch.tensor([-0.999, -0.5, -1e-4, -1e-9, -0.0, 1e-7, 0.75, 8.0]), torch.empty(8)
    _log1p[(1,)](given, found, 8)
    torch.testing.assert_close(found, given.log1p(), rtol=3e-7, atol=0)
