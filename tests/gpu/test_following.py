import numpy as np
import pytest

from specsim.rejection import Reason


def forbidden(num_requests, num_nodes, vocab, num_recent, num_words):
    source = np.random.default_rng(num_nodes)
    squares = np.tril(source.random((num_requests, num_nodes, num_nodes)) < 0.5) | np.eye(num_nodes, dtype=bool)
    words = -(-vocab // 32)
    return {
        "draft_token": source.integers(0, vocab, num_requests * num_nodes),
        "tree_mask": squares.reshape(-1),
        "num_output_tokens": source.integers(0, 4, num_requests).astype(np.int32),
        "min_tokens": source.integers(0, 8, num_requests).astype(np.int32),
        "stop_mask": source.integers(-(2**31), 2**31, (num_requests, words)).astype(np.int32),
        "recent_tokens": source.integers(-1, vocab, (num_requests, num_recent)),
        "bad_words": source.integers(-1, vocab, (num_requests, num_words, num_recent + 1)),
        "num_draft_tokens": num_nodes,
        "vocab_size": vocab,
    }


def committed(num_requests, width, num_recent, vocab=5):
    source = np.random.default_rng(width)
    lengths = source.integers(0, width + 1, num_requests)
    nodes = np.arange(num_requests * width, dtype=np.int32).reshape(num_requests, width)
    return {
        "req_pool_indices": np.arange(num_requests, 0, -1),
        "token_counts": source.integers(0, 3, (num_requests + 2, vocab)).astype(np.int32),
        "num_output_tokens": source.integers(0, 9, num_requests + 2).astype(np.int32),
        "recent_tokens": source.integers(-1, vocab, (num_requests + 2, num_recent)),
        "accept_index": np.where(np.arange(width) < lengths[:, None], nodes, -1).astype(np.int32),
        "predict": source.integers(0, vocab, num_requests * width).astype(np.int32),
        "counts_all": source.random(num_requests) < 0.7,
    }


@pytest.mark.parametrize("sizes", [(0, 3, 4, 2, 2), (1, 1, 1, 0, 1), (2, 3, 33, 3, 5), (2, 5, 100, 7, 32)], ids=str)
def test_forbidden_tokens(agrees, sizes):
    agrees("forbid_tokens", **forbidden(*sizes))


def test_masks_in_small_blocks(agrees, cut):
    cut(block=lambda size, most, interpreted: 2)
    agrees("forbid_tokens", **forbidden(2, 3, 200, 2, 4))


@pytest.mark.parametrize("sizes", [(0, 1, 2), (1, 1, 0), (3, 4, 2), (2, 9, 7)], ids=str)
def test_commits(agrees, sizes):
    agrees("commit_output_tokens", **committed(*sizes))


def test_commits_to_views(agrees):
    arguments = committed(3, 4, 3)
    wide = {name: np.repeat(arguments[name], 2, axis=-1)[..., ::2] for name in ("token_counts", "recent_tokens")}
    agrees("commit_output_tokens", **{**arguments, **wide})


def test_two_owners_of_a_row_are_rejected(rejection):
    arguments = committed(2, 2, 1)
    rows = np.full(2, 1, dtype=np.int64)
    assert rejection("commit_output_tokens", **{**arguments, "req_pool_indices": rows}) is Reason.DUPLICATE_ROW
