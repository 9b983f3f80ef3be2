import numpy as np
import pytest
from ml_dtypes import bfloat16

from specsim.conformance.backend import load
from specsim.contracts.rounding import is_rounded_logprob
from specsim.gpu.launching.blocks import power_of_two
from specsim.gpu.switches import poisoned
from specsim.rejection import Reason

REFERENCE, GPU = load("specsim.reference"), load("specsim.gpu")


def asked(num_requests, vocab, dtype=np.float32, num_top=2, num_listed=3, **changed):
    """Return a call on trees of four nodes, root and a leaf accepted; a third of the tokens is forbidden."""
    source = np.random.default_rng(vocab)
    logits = source.normal(0, 4, (4 * num_requests, vocab))
    logits[source.random(logits.shape) < 0.3] = -np.inf
    logits[:, vocab // 2] = logits[:, -1] = 1.5
    first = 4 * np.arange(num_requests)[:, None]
    paths = np.where(np.arange(num_requests)[:, None] % 3 == 2, [[0, -1]], [[0, 3]])
    return {
        "logits": logits.astype(dtype),
        "accept_index": np.where(paths < 0, -1, paths + first).astype(np.int32),
        "predict": source.integers(0, vocab, 4 * num_requests).astype(np.int32),
        "temperature": (np.arange(num_requests) % 4 / 2).astype(np.float32),
        "token_ids": source.integers(-1, vocab, (num_requests, num_listed)),
        "num_top": min(num_top, vocab),
        "is_clamped": True,
        **changed,
    }


def require_same(arguments):
    """Compare entries of accepted nodes with the reference, under two patterns of fresh memory."""
    expected, vocab = REFERENCE.run("gather_output_logprobs", arguments).outputs, arguments["logits"].shape[1]
    is_read = arguments["accept_index"].reshape(-1) >= 0
    for pattern in (0x5A, 0xA5):
        with poisoned(pattern):
            got = GPU.run("gather_output_logprobs", arguments).outputs
        assert np.array_equal(got["top_tokens"][is_read], expected["top_tokens"][is_read])
        for name in ("output_logprobs", "top_logprobs", "listed_logprobs"):
            assert is_rounded_logprob(expected[name][is_read], got[name][is_read], vocab).all(), name


@pytest.mark.parametrize("dtype", [np.float32, bfloat16], ids=["float32", "bfloat16"])
@pytest.mark.parametrize("vocab", [1, 2, 33, 1000])
def test_rows_of_any_width(vocab, dtype):
    require_same(asked(3, vocab, dtype))


@pytest.mark.parametrize("num_top", [5, 100], ids=["some", "all, impossible ones too"])
def test_a_row_of_several_chunks(cut, num_top):
    cut(block=lambda size, most, interpreted: min(power_of_two(size), 16))
    require_same(asked(2, 100, num_top=num_top))


def test_zeros_of_either_sign_are_equal():
    arguments = asked(1, 20, num_top=20)
    arguments["logits"][:, ::3], arguments["logits"][:, 1::3] = 0.0, -0.0
    require_same(arguments)


@pytest.mark.parametrize(
    "changed",
    [{"temperature": None}, {"is_clamped": False}, {"num_top": 0}, {"token_ids": np.zeros((3, 0), np.int64)}],
    ids=["raw", "not clamped", "no top", "no list"],
)
def test_what_may_be_left_out(changed):
    require_same(asked(3, 20, **changed))


def test_large_logits_and_small_temperatures():
    arguments = asked(2, 40)
    arguments["logits"] += np.float32(2.0**20)
    arguments["temperature"] = np.array([2.0**-20, 2.0**20], np.float32)
    require_same(arguments)


def test_logits_with_gaps():
    arguments = asked(2, 40)
    wide = np.full((8, 81), np.nan, np.float32)
    wide[:, 1::2] = arguments["logits"]
    require_same({**arguments, "logits": wide[:, 1::2]})


def test_impossible_rows_are_rejected(rejection):
    arguments = asked(2, 5)
    arguments["logits"][0] = -np.inf
    assert rejection("gather_output_logprobs", **arguments) is Reason.EMPTY_DISTRIBUTION
