from itertools import product

import numpy as np
import pytest
import torch
from ml_dtypes import bfloat16

from specsim import gpu
from specsim.conformance.backend import load
from specsim.contracts.rounding import is_rounded, largest_exponents
from specsim.gpu import probabilities
from specsim.gpu.arrays import DEVICE, from_numpy, to_numpy
from specsim.gpu.launching.blocks import ON_GPU as ON_GPU_BLOCKS
from specsim.gpu.launching.blocks import power_of_two
from specsim.gpu.launching.mode import launching
from specsim.gpu.switches import poisoned
from specsim.reference.margins import MARGINS
from specsim.rejection import Reason

REFERENCE, GPU = load("specsim.reference"), load("specsim.gpu")
ON_GPU = pytest.mark.skipif(DEVICE.type != "cuda", reason="too large for the interpreter")
SHAPES = pytest.mark.parametrize(("num_rows", "vocab"), [(0, 5), (1, 1), (3, 2), (7, 33), (2, 1000)])
FILTER_DTYPES = (np.float32, np.int32, np.float32, np.float32)
KINDS = ("random", "equal", "one-hot", "ties", "peaked", "half empty", "least")


def rows(kind, num_rows, vocab):
    """Return rows of probabilities; the kind ``least`` lies among the smallest numbers that float32 has."""
    source = np.random.default_rng(vocab)
    one_hot = np.arange(vocab)[None, :] == source.integers(0, vocab, num_rows)[:, None]
    drawn = source.random((num_rows, vocab)) + 1e-3
    made = {
        "random": drawn / drawn.sum(axis=1, keepdims=True),
        "equal": np.full((num_rows, vocab), 1 / vocab),
        "one-hot": one_hot,
        "ties": (source.integers(0, 4, (num_rows, vocab)) + one_hot) / 8,
        "peaked": np.exp(30 * (drawn - drawn.max(axis=1, keepdims=True, initial=0))),
        "half empty": np.where(np.arange(vocab) * 2 < vocab, drawn, 0),
        "least": source.integers(0, 4, (num_rows, vocab)) * 2.0**-149 + one_hot * 2.0**-147,
    }
    return made[kind].astype(np.float32)


def cycled(values, count, dtype):
    return np.resize(np.array(values, dtype=dtype), count)


@SHAPES
@pytest.mark.parametrize("kind", KINDS)
def test_filters(agrees, kind, num_rows, vocab):
    drawn = rows(kind, num_rows, vocab)
    counts = cycled([2, 1, vocab, vocab + 1, 2**31 - 1, max(1, vocab // 3)], num_rows, np.int32)
    agrees("top_k_renorm", probabilities=drawn, top_k=counts)
    shares = cycled([0.5, 1, 0.95, 0.125, 1e-7, 1 - 2**-24], num_rows, np.float32)
    agrees("top_p_renorm", probabilities=drawn, top_p=shares)
    agrees("min_p_renorm", probabilities=drawn, min_p=cycled([0.5, 0, 1, 0.01], num_rows, np.float32))


def test_many_rows_of_one_program_are_filtered(agrees):
    drawn = rows("random", 300, 40)
    agrees("top_k_renorm", probabilities=drawn, top_k=cycled([2, 39, 7], 300, np.int32))
    agrees("top_p_renorm", probabilities=drawn, top_p=cycled([0.5, 0.9], 300, np.float32))


def test_ties_at_the_threshold_are_kept():
    drawn = from_numpy(np.array([[1, 2, 2, 3]], dtype=np.float32) / 8)
    assert gpu.top_k_renorm(drawn, from_numpy(np.array([2], np.int32))).tolist()[0][0] == 0
    kept = to_numpy(gpu.top_p_renorm(drawn, from_numpy(np.array([0.5], np.float32))))
    assert (kept > 0).tolist() == [[False, True, True, True]]
    kept = to_numpy(gpu.top_p_renorm(drawn, from_numpy(np.array([0.375], np.float32))))
    assert kept.tolist() == [[0, 0, 0, 1]]
    kept = to_numpy(gpu.min_p_renorm(drawn, from_numpy(np.array([1 / 3 + 1e-7], np.float32))))
    assert (kept > 0).tolist() == [[False, True, True, True]]


def logits_of(kind, num_rows, vocab, dtype):
    source = np.random.default_rng(vocab)
    drawn = source.normal(size=(num_rows, vocab)) * 4
    made = {
        "random": drawn,
        "equal": np.full((num_rows, vocab), -3),
        "ties": np.round(drawn),
        "forbidden": np.where((source.random((num_rows, vocab)) < 0.5) & (np.arange(vocab) > 0), -np.inf, drawn),
        "far apart": drawn * 1e3,
    }
    return made[kind].astype(dtype)


@pytest.mark.parametrize("dtype", [np.float32, bfloat16], ids=["float32", "bfloat16"])
@pytest.mark.parametrize(("num_requests", "vocab"), [(0, 3), (1, 1), (4, 2), (5, 33), (2, 1000)])
@pytest.mark.parametrize("kind", ["random", "equal", "ties", "forbidden", "far apart"])
def test_target(agrees, kind, num_requests, vocab, dtype):
    agrees(
        "target_probabilities",
        logits=logits_of(kind, num_requests * 3, vocab, dtype),
        temperature=cycled([0.7, 0, 1, 2.0**20, 2.0**-20], num_requests, np.float32),
        top_k=cycled([5, 50, 1, 2**30], num_requests, np.int32),
        top_p=cycled([0.95, 0.5, 1, 1e-6, 0.9], num_requests, np.float32),
        min_p=cycled([0, 0.05, 0.5], num_requests, np.float32),
        num_draft_tokens=3,
    )


def cut_rows(cut, chunk, slots):
    """Cut rows into chunks with lists of so many slots, in units of two entries."""
    most = (probabilities.CHUNK, probabilities.UNITS, probabilities.SLOTS, probabilities.FEW)
    sizes = dict(zip(most, (chunk, chunk // 2, slots, 4), strict=True))
    cut(block=lambda size, most, interpreted: min(power_of_two(size), sizes.get(most, most if most == 1 else 32)))


def split_rows(source, num_rows, vocab):
    """Return rows of every kind that a bracket can meet: flat, peaked, tied, with few tokens, of a large mass."""
    peaked, ties = rows("peaked", num_rows, vocab), source.integers(0, 4, (num_rows, vocab)).astype(np.float32) / 8
    few = np.where(source.random((num_rows, vocab)) < 0.1, source.random((num_rows, vocab)), 0).astype(np.float32)
    drawn = np.concatenate([rows("random", num_rows, vocab), peaked, ties, few, peaked * 1e3, peaked * 1e-30])
    drawn[:, 0] += drawn.sum(axis=1) == 0
    return drawn.astype(np.float32)


@pytest.mark.parametrize(("chunk", "slots"), [(16, 16), (64, 32)])
def test_renormalised_rows_of_several_chunks(agrees, cut, chunk, slots):
    cut_rows(cut, chunk, slots)
    source = np.random.default_rng(0)
    drawn = split_rows(source, 1, 70)
    num_rows = len(drawn)
    top_k = source.choice([1, 2, 5, 40, 69, 70, 2**31 - 1], num_rows).astype(np.int32)
    agrees("top_k_renorm", probabilities=drawn, top_k=top_k)
    top_p = source.choice([1e-6, 0.1, 0.5, 0.9, 0.999, 1], num_rows).astype(np.float32)
    agrees("top_p_renorm", probabilities=drawn, top_p=top_p)
    agrees("min_p_renorm", probabilities=drawn, min_p=source.choice([0, 0.01, 0.5, 1], num_rows).astype(np.float32))


def softened(logits):
    """Return rows of the softmax in float32."""
    weights = np.exp(logits - logits.max(axis=1, keepdims=True))
    return (weights / weights.sum(axis=1, keepdims=True)).astype(np.float32)


def long_rows(vocab):
    """Return rows whose cells and bins hold few entries, many, equal ones, the smallest ones, zeros of both signs."""
    source = np.random.default_rng(vocab)
    normal = source.normal(size=(1, vocab))
    of_bfloat16 = (3 * normal).astype(bfloat16).astype(np.float64)
    few = np.where(source.random((1, vocab)) < 1e-3, source.random((1, vocab)), 0)
    one = np.arange(vocab)[None, :] == 777
    drawn = [*(softened(scale * normal) for scale in (1, 3, 30)), softened(of_bfloat16), few * 1e3]
    drawn += [np.full((1, vocab), 1 / vocab), np.where(one, 0.9, 0.1 / vocab), np.where(one, 1, 1e-12)]
    drawn += [softened(3 * normal) * np.float64(scale) for scale in (1e-35, 1e33, 1e39)]
    drawn += [source.integers(0, 4, (1, vocab)) * 2.0**-149, np.where(few > 0, -0.0, softened(2 * normal))]
    return np.concatenate(drawn).astype(np.float32)


@pytest.mark.parametrize("top_p", [0.95, 0.5, 1e-7, 0.999, 1 - 2**-24, 1])
def test_top_p_of_long_rows(agrees, cut, top_p):
    cut(block=ON_GPU_BLOCKS.block)
    drawn = long_rows(9000)
    agrees("top_p_renorm", probabilities=drawn, top_p=np.full(len(drawn), top_p, np.float32))


def test_thresholds_of_long_rows_are_found_in_bins_down_to_24_binades():
    drawn = from_numpy(long_rows(9000))
    for top_p, is_found in ((0.95, True), (0.999, True), (1 - 2**-24, False)):
        seen = []
        with launching(seen.append, blocks=ON_GPU_BLOCKS):
            gpu.top_p_renorm(drawn, torch.full((len(drawn),), top_p, device=DEVICE))
        # Rows whose masses fit float32.
        thresholds = seen[-1].buffers["threshold"][[0, 1, 3, 4, 5, 8, 9]]
        assert (thresholds >= 0).all().item() == is_found


def test_top_p_of_long_rows_at_a_distance(agrees, cut):
    cut(block=ON_GPU_BLOCKS.block)
    drawn = np.repeat(long_rows(9000), 2, axis=1)[:, ::2][:5]
    agrees("top_p_renorm", probabilities=drawn, top_p=np.full(5, 0.9, np.float32))


def test_masses_at_the_share_are_enough_in_long_rows(agrees, cut):
    cut(block=ON_GPU_BLOCKS.block)
    drawn = np.zeros((4, 9000), np.float32)
    for row, exponents in zip(
        drawn, ((0, -1, -2, -3, -3), (0, -1, -30, -30), (20, 20, 19, 19), (-3, -3, -2)), strict=True
    ):
        row[:: 9000 // len(exponents)][: len(exponents)] = 2.0 ** np.array(exponents)
    agrees("top_p_renorm", probabilities=drawn, top_p=np.array([0.5, 0.75, 2 / 3, 0.5], np.float32))


def mixed_requests(num_requests, num_nodes, vocab, kind="random"):
    """Return requests of which some are filtered, some greedy, and the others neither."""
    return {
        "logits": logits_of(kind, num_requests * num_nodes, vocab, np.float32),
        "temperature": cycled([0.8, 0.7, 1.5, 0], num_requests, np.float32),
        "top_k": cycled([2**31 - 1, 5, vocab], num_requests, np.int32),
        "top_p": np.ones(num_requests, np.float32),
        "min_p": np.zeros(num_requests, np.float32),
        "num_draft_tokens": num_nodes,
    }


def require_rounded(arguments):
    """Compare with the reference up to rounding, where that decides no filter: weights of split rows are in float32."""
    expected = REFERENCE.run("target_probabilities", arguments).outputs["target_probs"]
    with poisoned(0xFF):
        got = GPU.run("target_probabilities", arguments).outputs["target_probs"]
    exponents = largest_exponents(arguments["logits"], arguments["temperature"])[:, None]
    is_clear = MARGINS["target_probabilities"](arguments) >= 1
    assert is_clear.mean() > 0.6
    is_greedy = np.repeat(arguments["temperature"] == 0, arguments["num_draft_tokens"])
    assert is_rounded(expected, got, exponents)[is_clear].all()
    np.testing.assert_array_equal(got[is_greedy], expected[is_greedy])


@pytest.mark.parametrize("kind", ["random", "forbidden", "far apart"])
def test_rows_without_filters_are_read_in_chunks_a_few_rows_ahead(cut, kind):
    cut(block=lambda size, most, interpreted: 1 if most == 1 else min(most, 16))
    require_rounded(mixed_requests(7, 3, 50, kind))


def test_rows_without_filters_of_a_large_vocabulary(cut):
    cut(block=lambda size, most, interpreted: 1 if most == 1 else min(most, 2048))
    for kind in ("random", "forbidden", "far apart"):
        require_rounded(mixed_requests(3, 1, 5000, kind))


def test_target_of_several_blocks(cut):
    cut(block=lambda size, most, interpreted: min(most, 16))
    require_rounded(
        {
            "logits": logits_of("random", 6, 50, bfloat16),
            "temperature": np.array([0.7, 0, 1], np.float32),
            "top_k": np.array([5, 3, 40], np.int32),
            "top_p": np.array([0.8, 1, 0.95], np.float32),
            "min_p": np.array([0, 0, 0.1], np.float32),
            "num_draft_tokens": 2,
        }
    )


@pytest.mark.parametrize("dtype", [np.float32, bfloat16], ids=["float32", "bfloat16"])
@pytest.mark.parametrize(("chunk", "slots"), [(16, 16), (64, 32), (32, 4)])
@pytest.mark.parametrize("kind", ["random", "equal", "ties", "forbidden"])
def test_filtered_rows_of_several_chunks(cut, kind, chunk, slots, dtype):
    cut_rows(cut, chunk, slots)
    filters = list(product((0.7, 0, 2), (3, 20, 2**30), (0.3, 0.9, 1), (0, 0.05, 0.7)))
    source = np.random.default_rng([chunk, len(kind), np.dtype(dtype).itemsize])
    count = 20 if DEVICE.type == "cuda" else 4
    chosen = np.array(filters)[source.permutation(len(filters))[:count]].T
    temperature, top_k, top_p, min_p = (one.astype(to) for one, to in zip(chosen, FILTER_DTYPES, strict=True))
    require_rounded(
        {
            "logits": logits_of(kind, count, 150, dtype),
            **{"temperature": temperature, "top_k": top_k, "top_p": top_p, "min_p": min_p},
            "num_draft_tokens": 1,
        }
    )


@ON_GPU
@pytest.mark.parametrize("vocab", [8192, 32_000, 128_256])
def test_rows_without_filters_of_vocabularies_in_use(vocab):
    for num_requests in (1, 7, 48):
        require_rounded(mixed_requests(num_requests, 3, vocab, "forbidden" if vocab == 8192 else "random"))


def test_greedy_rows_choose_the_first_largest():
    logits = from_numpy(np.array([[-1, 0.0, -0.0, -9]], dtype=np.float32))
    zero, one = from_numpy(np.zeros(1, np.float32)), from_numpy(np.ones(1, np.float32))
    drawn = gpu.target_probabilities(logits, zero, from_numpy(np.full(1, 9, np.int32)), one, zero, 1)
    assert drawn.tolist() == [[0, 1, 0, 0]]


@pytest.mark.parametrize("dtype", [np.float32, bfloat16], ids=["float32", "bfloat16"])
@pytest.mark.parametrize(("num_requests", "vocab"), [(0, 3), (1, 1), (3, 33), (2, 1000)])
@pytest.mark.parametrize("absent", range(16))
def test_preparation(agrees, num_requests, vocab, dtype, absent):
    source = np.random.default_rng(absent)
    shape = (num_requests, vocab)
    arguments = {
        "scaling_penalty": source.uniform(0.5, 2, shape).astype(np.float32),
        "additive_penalty": -source.random(shape).astype(np.float32),
        "logit_bias": np.where(source.random(shape) < 0.1, -np.inf, source.normal(size=shape)).astype(np.float32),
        "vocab_mask": source.integers(-(2**31), 2**31, (num_requests * 3, -(-vocab // 32))).astype(np.int32),
    }
    for place, name in enumerate(arguments):
        if absent >> place & 1:
            arguments[name] = None
    agrees(
        "prepare_logits", logits=logits_of("random", num_requests * 3, vocab, dtype), **arguments, num_draft_tokens=3
    )


def test_views(agrees):
    wide = rows("random", 5, 40)[:, ::2]
    agrees("top_k_renorm", probabilities=wide, top_k=np.full(5, 3, np.int32))
    agrees("top_p_renorm", probabilities=wide.T.copy().T, top_p=np.full(5, 0.5, np.float32))
    agrees(
        "prepare_logits",
        logits=wide.astype(bfloat16)[::-1],
        scaling_penalty=None,
        additive_penalty=wide,
        logit_bias=None,
        vocab_mask=np.full((5, 2), -1431655766, np.int32)[:, ::2],
        num_draft_tokens=1,
    )


def test_rows_without_mass_are_rejected(rejection):
    empty = np.zeros((2, 3), np.float32)
    assert rejection("top_k_renorm", probabilities=empty, top_k=np.ones(2, np.int32)) is Reason.EMPTY_DISTRIBUTION


@ON_GPU
@pytest.mark.parametrize("vocab", [32_000, 128_256, 152_064])
def test_large_vocabularies(agrees, vocab):
    drawn = rows("peaked", 4, vocab)
    drawn = np.where(drawn > np.sort(drawn, axis=1)[:, -300:-299], drawn, 0).astype(np.float32)
    agrees("top_k_renorm", probabilities=rows("random", 4, vocab), top_k=np.array([1, 50, 3000, 2**30], np.int32))
    agrees("top_p_renorm", probabilities=drawn, top_p=np.array([0.95, 0.5, 0.1, 1], np.float32))
    agrees("min_p_renorm", probabilities=rows("peaked", 4, vocab), min_p=np.array([0, 0.5, 0.01, 1], np.float32))


@ON_GPU
def test_rows_lie_beyond_32_bits():
    num_requests, num_nodes, vocab = 28, 1024, 152_064
    logits = torch.zeros((num_requests * num_nodes, vocab), dtype=torch.bfloat16, device=DEVICE)
    logits[-1, -1] = 1
    ones, zeros = torch.ones(num_requests, device=DEVICE), torch.zeros(num_requests, device=DEVICE)
    top_k = torch.ones(num_requests, dtype=torch.int32, device=DEVICE)
    drawn = gpu.target_probabilities(logits, ones, top_k, ones, zeros, num_nodes)
    assert drawn.numel() > 2**32
    assert drawn[-1].argmax().item() == vocab - 1
    assert drawn[-1].count_nonzero().item() == 1
    assert torch.equal(drawn[-2], drawn[0])
    assert torch.allclose(drawn[-2], ones[0] / vocab)
