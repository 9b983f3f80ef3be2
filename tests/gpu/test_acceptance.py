import numpy as np
import pytest

from specsim import gpu
from specsim.gpu.arrays import DEVICE, from_numpy
from specsim.hashing import digest
from specsim.rejection import Reason

ON_GPU = pytest.mark.skipif(DEVICE.type != "cuda", reason="too large for the interpreter")
NEVER = 1 - 2.0**-24


def eighths(source, num_rows, vocab):
    """Return rows of probabilities that are whole eighths."""
    rows = np.zeros((num_rows, vocab), np.float32)
    for _ in range(8):
        rows[np.arange(num_rows), source.integers(0, vocab, num_rows)] += 0.125
    return rows


def trees(num_requests, num_nodes, vocab, reach=4, seed=0):
    """Return random trees with tokens of a small vocabulary, and rows and coins in eighths, so that bounds are met."""
    source = np.random.default_rng(seed)
    child = np.full((num_requests, num_nodes), -1)
    sibling = np.full((num_requests, num_nodes), -1)
    for request in range(num_requests):
        for node in range(num_nodes - 1, 0, -1):
            parent = source.integers(max(0, node - reach), node)
            sibling[request, node] = child[request, parent]
            child[request, parent] = node
    rows = eighths(source, num_requests * num_nodes, vocab)
    return {
        "candidates": source.integers(0, vocab, (num_requests, num_nodes)),
        "retrieve_index": np.arange(num_requests * num_nodes).reshape(num_requests, num_nodes),
        "retrieve_next_token": child,
        "retrieve_next_sibling": sibling,
        "uniform_samples": (source.integers(0, 8, (num_requests, num_nodes)) / 8).astype(np.float32),
        "uniform_samples_for_final_sampling": (source.integers(0, 8, num_requests) / 8).astype(np.float32),
        "target_probs": rows.reshape(num_requests, num_nodes, vocab),
        "draft_probs": np.zeros((num_requests, num_nodes, vocab), np.float32),
        "threshold_single": np.ones(num_requests, np.float32),
        "threshold_acc": np.ones(num_requests, np.float32),
    }


def star(tokens, coin, row, final=0.0):
    """Return one root with a child a token, all tried with one coin against one row."""
    num_nodes = len(tokens) + 1
    return {
        **trees(1, num_nodes, len(row)),
        "candidates": np.array([[0, *tokens]]),
        "retrieve_next_token": np.array([[1] + [-1] * len(tokens)]),
        "retrieve_next_sibling": np.array([[-1, *range(2, num_nodes), -1]]),
        "uniform_samples": np.full((1, num_nodes), coin, np.float32),
        "uniform_samples_for_final_sampling": np.full(1, final, np.float32),
        "target_probs": np.tile(np.array(row, np.float32), (1, num_nodes, 1)),
    }


def run(arguments, **switches):
    carried = {name: from_numpy(value.copy()) for name, value in arguments.items()}
    predict, _, num_accepted_drafts = gpu.tree_speculative_sampling_target_only(**carried, num_steps=1, **switches)
    return num_accepted_drafts.item(), predict[0].item(), carried["draft_probs"][0, 0].tolist()


@pytest.mark.parametrize(
    ("num_requests", "num_nodes", "num_steps", "vocab"),
    [
        (0, 4, 3, 5),
        (1, 1, 0, 1),
        (1, 1, 3, 2),
        (3, 2, 1, 2),
        (4, 6, 3, 3),
        (2, 33, 5, 33),
        (2, 40, 39, 4),
        (1, 9, 4, 999),
    ],
)
@pytest.mark.parametrize("strict", [True, False])
@pytest.mark.parametrize("skip_duplicates", [True, False])
def test_tree(agrees, num_requests, num_nodes, num_steps, vocab, strict, skip_duplicates):
    drawn = trees(num_requests, num_nodes, vocab)
    switches = {"num_steps": num_steps, "strict": strict, "skip_duplicates": skip_duplicates}
    agrees("tree_speculative_sampling_target_only", **drawn, **switches)
    for name in ("threshold_single", "threshold_acc"):
        drawn[name] = np.resize(np.array([0.25, 0.0, 0.5], np.float32), num_requests)
    agrees("tree_speculative_sampling_target_only", **drawn, **switches)


def test_a_coin_on_the_boundary_rejects():
    third = float(np.float32(1 / 3))
    row = [third, third, third]
    assert run(star([1, 2], third, row))[0] == 1
    assert run(star([1], third, row))[0] == 0
    assert run(star([1], third, row), strict=False)[0] == 1
    assert run(star([1], np.nextafter(np.float32(third), np.float32(0)), row))[0] == 1


def test_impossible_tokens_need_the_older_rule():
    assert run(star([0], 0.0, [0.0, 1.0])) == (0, 1, [0.0, 0.0])
    assert run(star([0], 0.0, [0.0, 1.0]), strict=False) == (1, 0, [0.0, 0.0])


def test_a_rejected_token_counts_once_or_again():
    arguments = star([0, 0, 0], 0.5, [0.25, 0.75])
    assert run(arguments) == (0, 1, [0.25, 0.0])
    assert run(arguments, skip_duplicates=False) == (1, 0, [0.25, 0.0])


def test_an_impossible_token_is_passed_over_too(agrees):
    arguments = star([0, 0, 1, 0, 1], 0.75, [0.0, 0.75, 0.25])
    agrees("tree_speculative_sampling_target_only", **arguments, num_steps=1)
    assert run(arguments) == (0, 2, [0.0, 0.75, 0.0])


def test_more_siblings_than_a_warp_has_threads(agrees):
    row = np.full(100, 0.01, np.float32)
    for coin in (0.0, 0.555, NEVER):
        agrees("tree_speculative_sampling_target_only", **star(range(90), coin, row, final=NEVER), num_steps=1)


@pytest.mark.parametrize("coin", [0.0, 2.0**-24, 0.5, NEVER])
def test_the_last_token_has_weight(agrees, cut, coin):
    cut(block=lambda size, most, interpreted: 8)
    source = np.random.default_rng(3)
    drawn = trees(4, 3, 100)
    rows = source.random((4, 3, 100)) * (source.random((4, 3, 100)) < 0.1)
    rows[..., 50] += 1e-3
    drawn["target_probs"] = rows.astype(np.float32)
    drawn["uniform_samples_for_final_sampling"][:] = coin
    agrees("tree_speculative_sampling_target_only", **drawn, num_steps=2)


@pytest.mark.parametrize("chunks", [1, 3, 7])
def test_the_last_row_is_split_over_programs(agrees, cut, chunks):
    cut(block=lambda size, most, interpreted: min(size, 8), chunks=lambda items, most, programs: chunks)
    row = np.full(50, 0.02, np.float32)
    for final in (0.0, 0.32, 0.61, NEVER):
        for tokens in ([0], [3, 3, 17], [49, 16, 23, 8]):
            agrees("tree_speculative_sampling_target_only", **star(tokens, NEVER, row, final), num_steps=1)
            agrees("tree_speculative_sampling_target_only", **star(tokens, 0.0, row, final), num_steps=1)


def test_views_are_walked_and_written_where_they_lie(agrees):
    arguments = {name: np.repeat(value, 2, axis=-1)[..., ::2] for name, value in trees(3, 7, 5).items()}
    agrees("tree_speculative_sampling_target_only", **arguments, num_steps=4)


def test_malformed_links_neither_hang_nor_leave_the_request(rejection):
    arguments = trees(3, 6, 2)
    arguments["uniform_samples"][1] = NEVER
    expected = [array.reshape(3, -1) for array in sampled(arguments)]
    for links in ([0] * 6, [1, 2, 3, 1, 2, 3], [99, -7, 6, -2, 2**40, 5]):
        arguments["retrieve_next_token"][1] = links
        arguments["retrieve_next_sibling"][1] = links
        got = [array.reshape(3, -1) for array in sampled(arguments)]
        for one, other in zip(got, expected, strict=True):
            assert one[::2].tolist() == other[::2].tolist()
        assert all(node == -1 or 6 <= node < 12 for node in got[1][1].tolist())
    arguments["retrieve_next_token"][1] = [1, 2, 3, 1, -1, -1]
    arguments["retrieve_next_sibling"][1] = -1
    assert rejection("tree_speculative_sampling_target_only", **arguments, num_steps=4) is Reason.CYCLIC_TREE


def sampled(arguments):
    carried = {name: from_numpy(value.copy()) for name, value in arguments.items()}
    return gpu.tree_speculative_sampling_target_only(**carried, num_steps=4)


def chains(counts, vocab, seed=0):
    """Return ragged chains with laws in eighths."""
    source = np.random.default_rng(seed)
    drafted, num_requests = sum(counts), len(counts)
    rows = eighths(source, 2 * drafted + num_requests, vocab)
    return {
        "draft_tokens": source.integers(0, vocab, drafted),
        "cu_num_drafts": np.cumsum([0, *counts]).astype(np.int32),
        "uniform_samples": (source.integers(0, 8, drafted) / 8).astype(np.float32),
        "uniform_samples_for_final_sampling": (source.integers(0, 8, num_requests) / 8).astype(np.float32),
        "draft_probs": rows[:drafted],
        "target_probs": rows[drafted:],
    }


@pytest.mark.parametrize("counts", [[], [0], [3], [0, 4, 1, 0], [40, 2]], ids=str)
@pytest.mark.parametrize("vocab", [1, 2, 33, 999])
@pytest.mark.parametrize("has_law", [True, False])
def test_chain(agrees, counts, vocab, has_law):
    for seed in range(3):
        drawn = chains(counts, vocab, seed)
        drawn["draft_probs"] = drawn["draft_probs"] if has_law else None
        most = max(counts, default=0)
        agrees("chain_speculative_sampling", **drawn, max_num_drafts=most)
        drawn["draft_tokens"][2:3] = -1
        drawn["uniform_samples"] /= 16
        agrees("chain_speculative_sampling", **drawn, max_num_drafts=most + 2)


def test_a_draft_of_the_targets_own_law_leaves_no_residual(agrees):
    drawn = chains([1], 4)
    drawn["draft_probs"] = drawn["target_probs"][:1].copy()
    drawn["draft_tokens"][:] = np.argmin(drawn["draft_probs"])
    agrees("chain_speculative_sampling", **drawn, max_num_drafts=1)


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
@pytest.mark.parametrize(("num_requests", "num_nodes"), [(0, 3), (1, 1), (5, 7), (2, 1024)])
def test_coins(agrees, num_requests, num_nodes, dtype):
    seeds = np.resize(np.array([2**32 - 1, 0, 7, 7]), num_requests)
    lengths = np.resize(np.array([0, 2**31 - 1, 9, 8], dtype=dtype), num_requests)
    agrees("generate_coins", seeds=seeds, seq_lens=lengths, num_draft_tokens=num_nodes)


def test_coins_are_the_hash_of_seed_length_and_column():
    nodes, final = gpu.generate_coins(from_numpy(np.array([5])), from_numpy(np.array([12])), 3)
    assert nodes.tolist() == [[(digest([5, 12, column]) >> 8) / 2**24 for column in range(3)]]
    assert final.tolist() == [(digest([5, 12, 1024]) >> 8) / 2**24]


@pytest.mark.parametrize(("num_requests", "num_nodes", "width"), [(0, 3, 2), (1, 1, 1), (5, 7, 4), (3, 33, 33)])
def test_simulation(agrees, num_requests, num_nodes, width):
    paths = np.full((num_requests, width), -1, np.int32)
    paths[:, 0] = np.arange(num_requests) * num_nodes
    for count in {1, (width + 1) // 2, width}:
        agrees(
            "generate_simulated_accept_index",
            accept_index=paths,
            simulated_num_tokens=count,
            num_draft_tokens=num_nodes,
        )


@ON_GPU
@pytest.mark.parametrize("vocab", [32_000, 152_064])
def test_large_vocabularies(agrees, vocab):
    agrees("tree_speculative_sampling_target_only", **trees(64, 32, vocab, seed=1), num_steps=6)
    for has_law in (True, False):
        drawn = chains([3, 0, 7] * 20, vocab)
        drawn["draft_probs"] = drawn["draft_probs"] if has_law else None
        agrees("chain_speculative_sampling", **drawn, max_num_drafts=7)


@ON_GPU
def test_the_widest_tree(agrees):
    agrees("tree_speculative_sampling_target_only", **trees(8, 1024, 50, reach=3), num_steps=1023)
    arguments = star(np.arange(1023) % 300, NEVER, np.full(400, 0.0025))
    agrees("tree_speculative_sampling_target_only", **arguments, num_steps=1)
