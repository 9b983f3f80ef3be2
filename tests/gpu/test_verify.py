import numpy as np
import pytest

from specsim import gpu
from specsim.gpu.arrays import from_numpy
from specsim.rejection import Reason


def trees(num_requests, num_nodes, vocab=3, reach=4, seed=0):
    """Return random linked trees with tokens of a small vocabulary, so that paths are long and siblings tie."""
    source = np.random.default_rng(seed)
    child = np.full((num_requests, num_nodes), -1)
    sibling = np.full((num_requests, num_nodes), -1)
    for request in range(num_requests):
        for node in range(num_nodes - 1, 0, -1):
            parent = source.integers(max(0, node - reach), node)
            sibling[request, node] = child[request, parent]
            child[request, parent] = node
    return {
        "candidates": source.integers(0, vocab, (num_requests, num_nodes)),
        "retrieve_index": np.arange(num_requests * num_nodes).reshape(num_requests, num_nodes),
        "retrieve_next_token": child,
        "retrieve_next_sibling": sibling,
        "target_predict": source.integers(0, vocab, (num_requests, num_nodes)),
    }


@pytest.mark.parametrize(
    ("num_requests", "num_nodes", "num_steps"),
    [(0, 4, 3), (1, 1, 0), (1, 1, 3), (3, 2, 1), (5, 6, 3), (2, 33, 5), (3, 64, 0), (70, 64, 8), (2, 130, 129)],
)
@pytest.mark.parametrize("vocab", [1, 2, 50], ids=["all-match", "ties", "few-match"])
def test_acceptance(agrees, num_requests, num_nodes, num_steps, vocab):
    agrees("verify_tree_greedy", **trees(num_requests, num_nodes, vocab), num_steps=num_steps)


def test_acceptance_of_one_request_a_program(agrees, cut):
    cut(block=lambda size, most, interpreted: 1)
    agrees("verify_tree_greedy", **trees(4, 9, 2), num_steps=4)


def test_the_last_of_many_siblings_is_found(agrees):
    star = trees(2, 40, vocab=1, reach=40)
    star["retrieve_next_token"][:] = -1
    star["retrieve_next_token"][:, 0] = 1
    star["retrieve_next_sibling"] = np.tile([-1, *range(2, 40), -1], (2, 1))
    star["candidates"] = np.tile(np.arange(40), (2, 1))
    star["target_predict"][:] = 39
    agrees("verify_tree_greedy", **star, num_steps=2)


@pytest.mark.parametrize("seed", range(3))
def test_links_lead_to_smaller_numbers(agrees, seed):
    numbered = np.random.default_rng(seed)
    arguments = trees(4, 12, 2, seed=seed)
    for request in range(4):
        order = np.array([0, *(numbered.permutation(11) + 1)])
        number = np.append(np.argsort(order), -1)
        for name in ("retrieve_next_token", "retrieve_next_sibling"):
            arguments[name][request] = number[arguments[name][request, order]]
        for name in ("candidates", "target_predict"):
            arguments[name][request] = arguments[name][request, order]
    assert (arguments["retrieve_next_token"] < np.arange(12))[arguments["retrieve_next_token"] >= 0].any()
    agrees("verify_tree_greedy", **arguments, num_steps=11)


def test_views_are_walked_where_they_lie(agrees):
    arguments = {name: np.repeat(value, 2, axis=1)[:, ::2] for name, value in trees(3, 7, 2).items()}
    agrees("verify_tree_greedy", **arguments, num_steps=4)
    logits = np.random.default_rng(0).integers(-5, 6, (40, 9))
    agrees("argmax_target_predict", logits=logits.T[::2])


def test_malformed_links_neither_hang_nor_leave_the_request(rejection):
    arguments = trees(3, 6, 1)
    arguments["target_predict"][1] = 9
    on_device = {name: from_numpy(value.copy()) for name, value in arguments.items()}
    expected = gpu.verify_tree_greedy(**on_device, num_steps=4)
    for links in ([0] * 6, [1, 2, 3, 1, 2, 3], [99, -7, 6, -2, 2**40, 5]):
        arguments["retrieve_next_token"][1] = links
        arguments["retrieve_next_sibling"][1] = links
        for token in (0, 9):
            arguments["target_predict"][1] = token
            on_device = {name: from_numpy(value.copy()) for name, value in arguments.items()}
            got = gpu.verify_tree_greedy(**on_device, num_steps=4)
            for one, other in zip(got, expected, strict=True):
                assert one.reshape(3, -1)[::2].tolist() == other.reshape(3, -1)[::2].tolist()
            assert 0 <= got[2][1].item() <= 4
            assert all(node == -1 or 6 <= node < 12 for node in got[1][1].tolist())
    arguments["retrieve_next_token"][1] = [1, 2, 3, 1, -1, -1]
    arguments["retrieve_next_sibling"][1] = -1
    assert rejection("verify_tree_greedy", **arguments, num_steps=4) is Reason.CYCLIC_TREE


@pytest.mark.parametrize("dtype", [np.float32, np.int64])
@pytest.mark.parametrize(("num_tokens", "vocab"), [(0, 5), (1, 1), (3, 2), (4, 33), (2, 5000)])
@pytest.mark.parametrize("distinct", [1, 3, 10**5], ids=["all-equal", "ties", "distinct"])
def test_greedy_choice(agrees, num_tokens, vocab, dtype, distinct):
    logits = np.random.default_rng(1).integers(-distinct, distinct, (num_tokens, vocab)).astype(dtype)
    agrees("argmax_target_predict", logits=logits)


@pytest.mark.parametrize("num_shares", [1, 3, 64])
def test_greedy_choice_across_blocks_and_shares(cut, num_shares):
    cut(block=lambda size, most, interpreted: most, chunks=lambda items, chunks, programs: num_shares)
    logits = np.full((4, 200_003), -7, dtype=np.float32)
    logits[0, [4096, 150_000]] = 3
    logits[1, 200_002] = 3
    logits[2, [8191, 8192]] = -6
    chosen = [4096, 200_002, 8191, 0]
    assert gpu.argmax_target_predict(from_numpy(logits)).tolist() == chosen
    assert gpu.argmax_target_predict(from_numpy(logits.astype(np.int64))).tolist() == chosen


def test_greedy_choice_of_extremes(agrees):
    infinite = np.array([[-np.inf, -np.inf, -np.inf], [-0.0, 0.0, -1.0], [1.0, np.inf, np.inf]], dtype=np.float32)
    agrees("argmax_target_predict", logits=infinite)
    least, most = np.iinfo(np.int64).min, np.iinfo(np.int64).max
    agrees("argmax_target_predict", logits=np.array([[least, least], [most - 1, most], [2**53, 2**53 + 1]]))
    with_nan = np.array([[np.nan, 1.0, 2.0], [np.nan, np.nan, np.nan]], dtype=np.float32)
    assert gpu.argmax_target_predict(from_numpy(with_nan)).tolist() == [2, 0]


@pytest.mark.parametrize("page_size", [1, 4, 7])
@pytest.mark.parametrize("lengths", [[], [0], [9, 8, 3]], ids=["none", "length-0", "three"])
@pytest.mark.parametrize("tokens_per_request", [0, 1, 6])
def test_metadata(agrees, lengths, tokens_per_request, page_size):
    num_rows, row_width = len(lengths) + 2, 32
    table = np.random.default_rng(2).permutation(num_rows * row_width).reshape(num_rows, row_width)
    for max_seq_len_k in (max(lengths, default=0) + tokens_per_request, 31):
        agrees(
            "target_verify_metadata",
            req_pool_indices=np.arange(2, num_rows)[::-1],
            req_to_token=table.astype(np.int32)[:, ::-1],
            seq_lens=np.array(lengths, dtype=np.int32),
            num_tokens=tokens_per_request * len(lengths),
            max_seq_len_k=max_seq_len_k,
            page_size=page_size,
        )


def test_tokens_that_do_not_divide_are_rejected(rejection):
    arguments = {
        "req_pool_indices": np.array([1, 2]),
        "req_to_token": np.zeros((3, 16), dtype=np.int32),
        "seq_lens": np.array([4, 5]),
        "max_seq_len_k": 9,
        "page_size": 1,
    }
    assert rejection("target_verify_metadata", **arguments, num_tokens=7) is Reason.NOT_DIVISIBLE
    arguments["max_seq_len_k"] = 17
    assert rejection("target_verify_metadata", **arguments, num_tokens=8) is Reason.ROW_TOO_SHORT


@pytest.mark.parametrize("counts", [[], [0], [3], [0, 4, 1, 0], [40, 2], [5] * 300], ids=len)
def test_greedy_chains(agrees, counts):
    for seed in range(3):
        source = np.random.default_rng(seed)
        tokens, num_requests = source.integers(0, 2, sum(counts)), len(counts)
        most = max(counts, default=0)
        call = {
            "draft_tokens": tokens,
            "cu_num_drafts": np.cumsum([0, *counts]).astype(np.int32),
            "target_predict": source.integers(0, 2, len(tokens) + num_requests),
        }
        agrees("verify_chain_greedy", **call, max_num_drafts=most)
        request = np.repeat(np.arange(num_requests), counts)
        call["target_predict"][np.arange(len(tokens)) + request] = tokens
        agrees("verify_chain_greedy", **call, max_num_drafts=most + 2)
        tokens[2::3] = -1
        agrees("verify_chain_greedy", **call, max_num_drafts=most)


def test_greedy_chains_that_are_none_are_rejected(rejection):
    call = {"draft_tokens": np.arange(3), "target_predict": np.arange(5), "max_num_drafts": 2}
    for offsets, reason in ([0, 3, 3], Reason.COUNT_OUT_OF_RANGE), ([0, 2, 2], Reason.INCONSISTENT_LENGTHS):
        assert rejection("verify_chain_greedy", **call, cu_num_drafts=np.array(offsets, dtype=np.int32)) is reason
