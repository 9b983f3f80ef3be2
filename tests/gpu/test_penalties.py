import numpy as np
import pytest
from ml_dtypes import bfloat16

from specsim.rejection import Reason


def case(num_requests, num_nodes, vocab, dtype=np.float32, exact=True):
    source = np.random.default_rng(num_nodes)
    squares = np.tril(source.random((num_requests, num_nodes, num_nodes)) < 0.5) | np.eye(num_nodes, dtype=bool)
    return {
        "logits": source.normal(size=(num_requests * num_nodes, vocab)).astype(dtype),
        "token_counts": source.integers(0, 3, (num_requests, vocab)).astype(np.int32),
        "draft_token": source.integers(0, vocab, num_requests * num_nodes),
        "tree_mask": squares.reshape(-1),
        "frequency_penalty": source.uniform(-1, 1, num_requests).astype(np.float32),
        "presence_penalty": source.uniform(-1, 1, num_requests).astype(np.float32),
        "repetition_penalty": source.uniform(0.5, 2, num_requests).astype(np.float32),
        "num_draft_tokens": num_nodes,
        "exact": exact,
    }


@pytest.mark.parametrize("exact", [True, False], ids=["exact", "relaxed"])
@pytest.mark.parametrize(("num_requests", "num_nodes", "vocab"), [(0, 3, 4), (1, 1, 1), (2, 3, 33), (3, 5, 1000)])
def test_penalties(agrees, num_requests, num_nodes, vocab, exact):
    agrees("apply_penalties", **case(num_requests, num_nodes, vocab, exact=exact))


def test_small_tiles(agrees, cut):
    cut(block=lambda size, most, interpreted: 8)
    agrees("apply_penalties", **case(2, 3, 33))


@pytest.mark.parametrize("penalty", [0, 1])
def test_quotients_of_any_size_are_rounded_once(agrees, penalty):
    arguments = case(3, 5, 1000)
    source = np.random.default_rng(penalty)
    logits = source.integers(0, 2**32, arguments["logits"].shape, dtype=np.uint32).view(np.float32)
    arguments["logits"] = np.where(np.isfinite(logits) | np.isneginf(logits), logits, 0).astype(np.float32)
    arguments["repetition_penalty"] = np.array([2**20, 2**-20, 3], np.float32)
    for name in ("frequency_penalty", "presence_penalty"):
        arguments[name] *= penalty
    agrees("apply_penalties", **arguments)


def test_views(agrees):
    arguments = case(2, 3, 40, bfloat16)
    wide = np.concatenate([arguments["logits"]] * 2, axis=1)
    agrees("apply_penalties", **{**arguments, "logits": wide[:, ::2][::-1]})


def test_a_penalty_out_of_range_is_rejected(rejection):
    arguments = {**case(1, 2, 3), "repetition_penalty": np.zeros(1, np.float32)}
    assert rejection("apply_penalties", **arguments) is Reason.INFINITE_LOGIT
