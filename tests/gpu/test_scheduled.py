import numpy as np
import pytest
from ml_dtypes import bfloat16

from specsim.gpu.launching.blocks import INTERPRETED
from specsim.rejection import Reason

SIZES = [(0, 2), (1, 1), (1, 7), (3, 2), (17, 8)]
MANY = 1024
MANY_PROGRAMS = 130 if INTERPRETED else MANY
"""Requests of kernels that run a program for each."""


def confidences(num_requests, depth, kind="any", **changed):
    source = np.random.default_rng(num_requests + depth)
    rows = source.random((num_requests, depth))
    if kind == "ties":
        rows = np.where(rows < 0.5, 0.5, 1.0)
    return {
        "confidence": rows.astype(np.float32),
        "num_drafts": None,
        "survival_eps": None,
        "verify_token_budget": num_requests * depth // 2,
        "max_verify_len": depth + 1,
        "min_verify_len": 1,
        **changed,
    }


def window(num_requests, num_nodes, num_padding=0, dtype=np.int64):
    source = np.random.default_rng(num_nodes)
    lens = source.integers(1, num_nodes + 1, num_requests).astype(np.int32)
    lengths = source.integers(0, 40, num_requests).astype(dtype)
    return {
        "candidates": source.integers(0, 50, (num_requests, num_nodes)),
        "verify_lens": lens,
        "req_pool_indices": source.permutation(num_requests) + 1,
        "req_to_token": source.permutation((num_requests + 1) * (40 + num_nodes))
        .reshape(num_requests + 1, -1)
        .astype(np.int32),
        "seq_lens": lengths,
        "num_tokens": int(lens.sum()) + num_padding,
    }


def without(arguments, *names, **added):
    return {name: value for name, value in {**arguments, **added}.items() if name not in names}


@pytest.mark.parametrize("kind", ["any", "ties"])
@pytest.mark.parametrize(("num_requests", "num_drafts"), [(0, 3), (1, 0), (1, 7), (3, 1), (64, 7)])
def test_lengths(agrees, num_requests, num_drafts, kind):
    for budget in sorted({0, 1, num_requests, num_requests * num_drafts // 2, num_requests * num_drafts}):
        agrees("schedule_verify_lens", **confidences(num_requests, num_drafts, kind, verify_token_budget=budget))


@pytest.mark.parametrize(("num_requests", "num_drafts"), [(MANY, 7), (70, 63)])
def test_lengths_of_many_drafts(agrees, num_requests, num_drafts):
    agrees("schedule_verify_lens", **confidences(num_requests, num_drafts, "ties"))


@pytest.mark.parametrize("eps", [0.0, 0.25, 2.0, float("inf")])
@pytest.mark.parametrize("least", [0, 1, 2])
def test_limits_of_lengths(agrees, least, eps):
    counts = np.array([0, 3, 1, 5, 2], dtype=np.int32)
    given = {"min_verify_len": least, "max_verify_len": 4, "survival_eps": np.array([eps], dtype=np.float32)}
    for budget in (0, 4, 9, 25):
        agrees(
            "schedule_verify_lens", **confidences(5, 5, "ties", num_drafts=counts, verify_token_budget=budget, **given)
        )


def test_survivals_that_are_hardly_above_nothing(agrees):
    """Numbers below the smallest normal one, zeros of both signs, and confidences of one, without a least survival."""
    rows = np.array([[1e-30, 1e-10, 1, 1], [1, 1, -0.0, 1], [1e-38, 0.125, 0.5, 1], [0, 1, 1, 1]], dtype=np.float32)
    zero = np.zeros(1, dtype=np.float32)
    for budget in range(17):
        arguments = confidences(4, 4, confidence=rows, survival_eps=zero, verify_token_budget=budget)
        agrees("schedule_verify_lens", **arguments)


def test_lengths_of_views(agrees):
    arguments = confidences(6, 5, "ties", verify_token_budget=7)
    wide = np.concatenate([arguments["confidence"]] * 2, axis=1)[:, ::2][::-1]
    agrees("schedule_verify_lens", **{**arguments, "confidence": wide})


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
@pytest.mark.parametrize("num_padding", [0, 1, 300])
@pytest.mark.parametrize(("num_requests", "num_nodes"), SIZES)
def test_windows(agrees, num_requests, num_nodes, num_padding, dtype):
    agrees("ragged_verify_window", **window(num_requests, num_nodes, num_padding, dtype))


@pytest.mark.parametrize("page_size", [1, 4])
@pytest.mark.parametrize(("num_requests", "num_nodes"), SIZES)
def test_metadata(agrees, num_requests, num_nodes, page_size):
    arguments = window(num_requests, num_nodes)
    most = arguments["req_to_token"].shape[1]
    given = {"max_seq_len_k": most, "page_size": page_size}
    agrees("ragged_verify_metadata", **without(arguments, "candidates", "num_tokens", **given))


@pytest.mark.parametrize("most", [3, 2**31 - 1])
@pytest.mark.parametrize("num_padding", [0, 1, 3, 300])
@pytest.mark.parametrize("num_requests", [0, 1, 5, MANY])
def test_buckets(agrees, num_requests, num_padding, most):
    lens = np.arange(num_requests, dtype=np.int32) % 4 + 1
    for left in (0, 1, 7, 1000) if num_requests + num_padding else (0,):
        agrees(
            "pad_verify_lens_to_bucket",
            verify_lens=lens,
            num_padded_requests=num_requests + num_padding,
            num_tokens=int(lens.sum()) + left,
            max_verify_len=most,
        )


@pytest.mark.parametrize("dtype", [np.float32, bfloat16, np.int64, np.uint8, np.bool_])
@pytest.mark.parametrize("trailing", [(), (1,), (3,), (2, 513), (0,)])
def test_scattered_rows(agrees, dtype, trailing):
    values = np.random.default_rng(1).integers(0, 2, (9, *trailing)).astype(dtype)
    agrees("scatter_compact_to_strided", values=values, verify_lens=np.array([3, 0, 4], np.int32), num_draft_tokens=4)
    agrees("scatter_compact_to_strided", values=values[:0], verify_lens=np.zeros(3, np.int32), num_draft_tokens=4)
    agrees("scatter_compact_to_strided", values=values, verify_lens=np.zeros(0, np.int32), num_draft_tokens=4)


def test_many_requests(agrees):
    arguments = window(MANY_PROGRAMS, 4, 9)
    agrees("ragged_verify_window", **arguments)
    most = arguments["req_to_token"].shape[1]
    metadata = without(arguments, "candidates", "num_tokens", max_seq_len_k=most, page_size=4)
    agrees("ragged_verify_metadata", **metadata)
    values = np.arange(arguments["num_tokens"] * 6, dtype=np.int32).reshape(-1, 6)[:, ::2]
    agrees("scatter_compact_to_strided", values=values, verify_lens=arguments["verify_lens"], num_draft_tokens=4)


@pytest.mark.parametrize("is_compact", [False, True])
@pytest.mark.parametrize("dtype", [np.int32, np.int64])
@pytest.mark.parametrize(("num_requests", "num_nodes"), SIZES)
def test_cuts(agrees, num_requests, num_nodes, dtype, is_compact):
    arguments = window(num_requests, num_nodes)
    source = np.random.default_rng(num_requests)
    agrees(
        "cap_accepted_drafts",
        candidates=arguments["candidates"],
        num_accepted_drafts=source.integers(0, num_nodes, num_requests).astype(np.int32),
        bonus_tokens=source.integers(-1, 50, num_requests).astype(dtype),
        verify_lens=arguments["verify_lens"],
        is_compact=is_compact,
    )


@pytest.mark.parametrize("has_gate", [False, True])
@pytest.mark.parametrize("where", ["slots", "mapped", "narrow", "ring"])
@pytest.mark.parametrize(("num_requests", "num_nodes"), SIZES)
def test_commits(agrees, num_requests, num_nodes, where, has_gate):
    arguments = window(num_requests, num_nodes)
    places = np.arange(arguments["req_to_token"].size)[::-1].astype(np.int32 if where == "narrow" else np.int64)
    given = {
        "commit_lens": np.random.default_rng(5).integers(0, num_nodes + 1, num_requests).astype(np.int32),
        "verify_lens": arguments["verify_lens"] if has_gate else None,
        "slot_map": places.copy() if where in ("mapped", "narrow") else None,
        "num_draft_tokens": num_nodes,
        "ring_size": 7 if where == "ring" else 0,
    }
    agrees("commit_inject_layout", **without(arguments, "candidates", "num_tokens", **given))


def test_small_tiles(agrees, cut):
    cut(block=lambda size, most, interpreted: 4)
    agrees("ragged_verify_window", **window(5, 3, 11))
    agrees("pad_verify_lens_to_bucket", verify_lens=np.array([2, 3], np.int32), num_padded_requests=9, num_tokens=30)
    values = np.arange(60, dtype=np.float32).reshape(6, 10)
    agrees("scatter_compact_to_strided", values=values, verify_lens=np.array([5, 1], np.int32), num_draft_tokens=6)


@pytest.mark.parametrize(
    ("operation", "changed", "reason"),
    [
        ("schedule_verify_lens", {"confidence": np.full((1, 1), np.nan, np.float32)}, Reason.NAN_SCORE),
        ("schedule_verify_lens", {"confidence": np.full((1, 1), 1.5, np.float32)}, Reason.PROBABILITY_OUT_OF_RANGE),
        ("schedule_verify_lens", {"verify_token_budget": -1}, Reason.SCALAR_OUT_OF_RANGE),
        ("schedule_verify_lens", {"min_verify_len": 3}, Reason.SCALAR_OUT_OF_RANGE),
        ("schedule_verify_lens", {"max_verify_len": 3}, Reason.SCALAR_OUT_OF_RANGE),
        ("schedule_verify_lens", {"survival_eps": np.full(1, -1, np.float32)}, Reason.PROBABILITY_OUT_OF_RANGE),
        ("ragged_verify_window", {"verify_lens": np.zeros(1, np.int32)}, Reason.COUNT_OUT_OF_RANGE),
        ("ragged_verify_window", {"num_tokens": 0}, Reason.INCONSISTENT_LENGTHS),
        ("ragged_verify_window", {"seq_lens": np.full(1, 99, np.int64)}, Reason.ROW_TOO_SHORT),
    ],
)
def test_bad_input_is_rejected(rejection, operation, changed, reason):
    valid = confidences(1, 1) if operation == "schedule_verify_lens" else window(1, 2)
    assert rejection(operation, **{**valid, **changed}) is reason
