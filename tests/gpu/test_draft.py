import numpy as np
import pytest
import torch

from specsim import gpu
from specsim.gpu import draft
from specsim.gpu import topk as ranking
from specsim.gpu.arrays import DEVICE, from_numpy, to_numpy
from specsim.rejection import Reason

NEEDS_GPU = pytest.mark.skipif(DEVICE.type != "cuda", reason="the buffer spans 8 GiB")
STEPS = pytest.mark.parametrize("step_index", [0, 1, 3])


def scores(*shape, distinct=50, seed=0):
    """Return probabilities of few distinct values, so that ties happen."""
    return (np.random.default_rng(seed).integers(0, distinct + 1, shape) / distinct).astype(np.float32)


def tokens(*shape, seed=1):
    return np.random.default_rng(seed).integers(0, 1000, shape)


def blocks(num_requests, topk, num_steps, distinct=50):
    """Return the three lists that the draft steps collect; cumulative scores fall along a path."""
    score_list, token_list, parents_list = [], [], []
    for step in range(num_steps):
        branch = topk if step else 1
        score_list.append(scores(num_requests, branch, topk, distinct=distinct, seed=step) * np.float32(0.5**step))
        token_list.append(tokens(num_requests, branch * topk, seed=step))
        first = topk + topk * topk * (step - 1) if step else -1
        parents_list.append(np.tile(np.arange(first, first + topk + (step == 0)), (num_requests, 1)))
    return {"score_list": score_list, "token_list": token_list, "parents_list": parents_list}


@pytest.mark.parametrize(
    ("rows", "columns", "k"),
    [(0, 5, 2), (1, 1, 1), (3, 7, 1), (3, 7, 7), (2, 33, 5), (2, 64, 64), (5, 200, 16), (2, 4097, 3), (1, 9000, 64)],
)
@pytest.mark.parametrize("distinct", [1, 4, 10**6], ids=["all-equal", "ties", "distinct"])
def test_topk(agrees, rows, columns, k, distinct):
    agrees("fast_topk", values=scores(rows, columns, distinct=distinct), k=k)


def test_topk_of_signs_zeros_infinities_and_tiny_values(agrees):
    values = [0.0, -0.0, -1.0, -np.inf, np.inf, 1e-45, -1e-45, 3e38, -3e38, -0.0, 0.0, -np.inf]
    agrees("fast_topk", values=np.array([values, values[::-1]], dtype=np.float32), k=12)


def test_topk_takes_nan_for_the_smallest_value():
    values = from_numpy(np.array([[np.nan, -np.inf, 2.0, np.nan, 1.0]], dtype=np.float32))
    assert gpu.fast_topk(values, 4)[1].tolist() == [[2, 4, 0, 1]]


def test_topk_keeps_the_lowest_of_equal_columns_across_blocks():
    values = np.zeros((1, 3 * ranking.LARGEST_BLOCK), dtype=np.float32)
    values[0, [10, ranking.LARGEST_BLOCK + 1, 2 * ranking.LARGEST_BLOCK + 5]] = 1.0
    expected = [10, ranking.LARGEST_BLOCK + 1, 2 * ranking.LARGEST_BLOCK + 5, 0, 1]
    assert gpu.fast_topk(from_numpy(values), 5)[1].tolist() == [expected]


@pytest.mark.parametrize("step", [1, ranking.PART, ranking.GROUP], ids=["one group", "parts", "groups"])
@pytest.mark.parametrize("columns", [1024, 1000, 993], ids=["whole groups", "most of a group", "one of a group"])
def test_topk_finds_entries_of_one_group_as_of_many(agrees, columns, step):
    values = np.full((3, columns), -np.inf, dtype=np.float32)
    last = columns - 1 - np.arange(9) * step
    values[0, last] = scores(1, 9, distinct=3)[0]
    values[1, last[::-1]] = np.arange(9)
    values[2, np.arange(9) * step] = scores(1, 9, distinct=3)[0]
    agrees("fast_topk", values=values, k=9)


@pytest.mark.parametrize("past", [0, 1])
@pytest.mark.parametrize("topk", [1, 2])
def test_more_steps_than_one_kernel_takes(agrees, topk, past):
    agrees("organize_draft_results", **blocks(2, topk, draft.MOST_STEPS + past), num_draft_tokens=draft.MOST_STEPS)


def test_partial_sort_selects_what_taking_maxima_selects(agrees, cut):
    cut(sorts=True)
    agrees("fast_topk", values=scores(2, 13, distinct=4), k=ranking.FEW + 1)
    agrees("fast_topk", values=-scores(1, 513).cumsum(1), k=ranking.FEW + 1)
    agrees("organize_draft_results", **blocks(1, 2, 3), num_draft_tokens=ranking.FEW + 2)


@NEEDS_GPU
def test_rows_beyond_31_bits_are_read():
    values = torch.empty(2**31 + 64, dtype=torch.float32, device=DEVICE).as_strided((2, 16), (2**31, 1))
    values[0], values[1] = 0.0, torch.arange(16.0)
    assert gpu.fast_topk(values, 2)[1].tolist() == [[0, 1], [15, 14]]


@STEPS
@pytest.mark.parametrize("topk", [1, 3, 8])
@pytest.mark.parametrize("hidden", [None, (np.float16, 5), (np.int64, 300), (np.float32, 0)])
def test_beams(agrees, step_index, topk, hidden):
    num_requests = 3
    rows = num_requests * (topk if step_index else 1)
    agrees(
        "select_top_k_tokens",
        step_index=step_index,
        topk_p=scores(rows, topk, distinct=5),
        topk_index=tokens(rows, topk),
        hidden_states=None if hidden is None else tokens(rows, hidden[1], seed=2).astype(hidden[0]),
        scores=scores(num_requests, topk, distinct=5, seed=3) if step_index else None,
        topk=topk,
    )


@STEPS
def test_no_beams_without_requests(agrees, step_index):
    agrees(
        "select_top_k_tokens",
        step_index=step_index,
        topk_p=scores(0, 4),
        topk_index=tokens(0, 4),
        hidden_states=tokens(0, 6),
        scores=scores(0, 4) if step_index else None,
        topk=4,
    )


def test_scores_are_rounded_once_and_small_ones_survive(agrees):
    topk_p = np.array([[1e-30, 0.1], [1e-20, 0.7]], dtype=np.float32)
    path = np.array([[3e-10, 1e-22]], dtype=np.float32)
    agrees(
        "select_top_k_tokens",
        step_index=1,
        topk_p=topk_p,
        topk_index=tokens(2, 2),
        hidden_states=None,
        scores=path,
        topk=2,
    )


def test_views_are_selected_from_where_they_lie(agrees):
    agrees(
        "select_top_k_tokens",
        step_index=2,
        topk_p=scores(12, 8)[::2, 1::2][:, :3],
        topk_index=tokens(7, 6)[1:, ::2],
        hidden_states=tokens(6, 40)[:, 3:37:2],
        scores=scores(2, 3).T.copy().T,
        topk=3,
    )
    agrees("fast_topk", values=scores(40, 6).T[::2], k=5)
    agrees("map_hot_tokens", topk_index=tokens(4, 8).T % 5, hot_token_id=np.arange(20)[::4] + 70)


@pytest.mark.parametrize(
    ("num_requests", "topk", "num_steps", "num_draft_tokens"),
    [
        (0, 4, 3, 8),
        (1, 1, 1, 2),
        (2, 3, 1, 2),
        (2, 3, 1, 4),
        (1, 2, 3, 11),
        (3, 4, 3, 33),
        (2, 8, 3, 64),
        (1, 16, 2, 64),
    ],
)
@pytest.mark.parametrize("distinct", [1, 6, 10**6], ids=["all-equal", "ties", "distinct"])
def test_pruning(agrees, num_requests, topk, num_steps, num_draft_tokens, distinct):
    agrees(
        "organize_draft_results",
        **blocks(num_requests, topk, num_steps, distinct=distinct),
        num_draft_tokens=num_draft_tokens,
    )


def test_pruning_of_more_candidates_than_a_block(agrees):
    agrees("organize_draft_results", **blocks(2, 40, 4, distinct=100), num_draft_tokens=64)


def test_pruning_reads_views(agrees):
    lists = {name: [np.repeat(block, 2, axis=0)[::2] for block in entry] for name, entry in blocks(3, 2, 3).items()}
    agrees("organize_draft_results", **lists, num_draft_tokens=7)


@pytest.mark.parametrize(("num_requests", "num_steps"), [(0, 3), (1, 1), (5, 1), (3, 2), (300, 4)])
def test_chains(agrees, num_requests, num_steps):
    agrees("organize_chain_draft_results", token_list=[tokens(num_requests, 1, seed=step) for step in range(num_steps)])


@pytest.mark.parametrize("rows", [0, 1, 300])
def test_hot_tokens(agrees, rows):
    agrees("map_hot_tokens", topk_index=tokens(rows, 4) % 33, hot_token_id=tokens(33, seed=5))


def test_an_id_outside_the_draft_vocabulary_maps_to_zero_unless_checked(rejection):
    topk_index, hot_token_id = np.array([[2, -1, 3]]), np.array([7, 8, 9])
    got = gpu.map_hot_tokens(from_numpy(topk_index), from_numpy(hot_token_id))
    assert to_numpy(got).tolist() == [[9, 0, 0]]
    assert rejection("map_hot_tokens", topk_index=topk_index, hot_token_id=hot_token_id) is Reason.TOKEN_OUT_OF_RANGE


def test_bad_scores_and_sizes_are_rejected(rejection):
    values = np.array([[1.0, np.nan]], dtype=np.float32)
    assert rejection("fast_topk", values=values, k=1) is Reason.NAN_SCORE
    assert rejection("fast_topk", values=scores(2, 3), k=4) is Reason.SCALAR_OUT_OF_RANGE
    too_many = {**blocks(1, 2, 1), "num_draft_tokens": 4}
    assert rejection("organize_draft_results", **too_many) is Reason.SCALAR_OUT_OF_RANGE
