import numpy as np
import pytest

from specsim import gpu, reference
from specsim.config import TreeMaskMode
from specsim.gpu.arrays import from_numpy
from specsim.rejection import Reason

MODES = pytest.mark.parametrize("mask_mode", list(TreeMaskMode))


def drafted(num_requests, topk, num_steps, num_nodes, seed=0):
    """Return what the draft phase hands over, chosen by the reference from random scores with ties."""
    source = np.random.default_rng(seed)
    lists = {"score_list": [], "token_list": [], "parents_list": []}
    path_scores = None
    for step in range(num_steps):
        rows = num_requests * (topk if step else 1)
        topk_p = np.sort(source.integers(1, 33, (rows, topk)) / 32)[:, ::-1].astype(np.float32)
        topk_index = source.integers(0, 100, (rows, topk))
        chosen = reference.select_top_k_tokens(step, topk_p, topk_index, None, path_scores, topk)
        _, _, path_scores, *emitted = chosen
        for name, block in zip(lists, emitted, strict=True):
            lists[name].append(block)
    parent_list, top_scores_index, draft_tokens = reference.organize_draft_results(**lists, num_draft_tokens=num_nodes)
    return {
        "bonus_tokens": source.integers(0, 100, num_requests).astype(np.int32),
        "parent_list": parent_list,
        "top_scores_index": top_scores_index,
        "draft_tokens": draft_tokens,
        "topk": topk,
        "num_steps": num_steps,
        "num_draft_tokens": num_nodes,
    }


def ancestors(num_requests, num_nodes, seed=0):
    """Return random ancestor matrices in topological order."""
    source = np.random.default_rng(seed)
    masks = np.zeros((num_requests, num_nodes, num_nodes), dtype=np.bool_)
    for request in range(num_requests):
        for node in range(num_nodes):
            if node:
                masks[request, node] = masks[request, source.integers(max(0, node - 5), node)]
            masks[request, node, node] = True
    return masks


@MODES
@pytest.mark.parametrize(
    ("num_requests", "topk", "num_steps", "num_nodes"),
    [
        (0, 2, 3, 6),
        (1, 1, 1, 2),
        (2, 1, 5, 6),
        (2, 3, 1, 4),
        (3, 2, 3, 6),
        (2, 4, 3, 8),
        (2, 4, 3, 9),
        (2, 4, 4, 16),
        (2, 4, 5, 17),
        (2, 8, 3, 32),
    ],
)
def test_trees(agrees, mask_mode, num_requests, topk, num_steps, num_nodes):
    lengths = np.arange(num_requests) * 13 % 21
    agrees(
        "build_tree",
        **drafted(num_requests, topk, num_steps, num_nodes),
        seq_lens=lengths,
        mask_mode=mask_mode,
        seq_lens_sum=int(lengths.sum()),
    )


@pytest.mark.parametrize("mask_mode", [TreeMaskMode.FULL_MASK, TreeMaskMode.QLEN_ONLY])
@pytest.mark.parametrize(
    ("topk", "num_steps", "num_nodes"), [(8, 3, 33), (16, 5, 64), (16, 5, 65), (16, 5, 200), (1, 64, 65)]
)
def test_trees_of_several_words(agrees, mask_mode, topk, num_steps, num_nodes):
    arguments = drafted(2, topk, num_steps, num_nodes, seed=3)
    lengths = np.array([11, 40], dtype=np.int32)
    agrees("build_tree", **arguments, seq_lens=lengths, mask_mode=mask_mode, seq_lens_sum=60)


def test_a_tree_of_1024_nodes(agrees):
    agrees("build_tree", **drafted(1, 16, 6, 1024), seq_lens=np.array([3]), mask_mode=1, seq_lens_sum=0)


def test_a_single_node(agrees):
    agrees(
        "build_tree",
        bonus_tokens=np.array([5, 6]),
        parent_list=np.array([[-1, 0, 1], [-1, 0, 1]]),
        top_scores_index=np.zeros((2, 0), dtype=np.int64),
        draft_tokens=np.zeros((2, 0), dtype=np.int64),
        seq_lens=np.array([4, 0]),
        topk=2,
        num_steps=2,
        num_draft_tokens=1,
        mask_mode=0,
        seq_lens_sum=4,
    )


@pytest.mark.parametrize("lengths", [[0, 0, 0], [1, 7, 8], [9, 64, 1025], [1031, 0, 5]])
def test_prefix_columns_of_any_alignment(agrees, lengths, cut):
    arguments = {**drafted(3, 2, 3, 5), "seq_lens": np.array(lengths), "mask_mode": 0, "seq_lens_sum": sum(lengths)}
    agrees("build_tree", **arguments)
    cut(block=lambda size, most, interpreted: 2, chunks=lambda items, chunks, programs: 3)
    agrees("build_tree", **arguments)


@pytest.mark.parametrize("mask_mode", [0, 1])
def test_links_are_the_same_by_a_program_of_their_own(agrees, cut, mask_mode):
    cut(chunks=lambda items, chunks, programs: 2)
    agrees("build_tree", **drafted(2, 4, 3, 17), seq_lens=np.array([2, 3]), mask_mode=mask_mode, seq_lens_sum=5)
    agrees("build_tree", **drafted(1, 9, 4, 70), seq_lens=np.array([2]), mask_mode=mask_mode, seq_lens_sum=2)


def test_small_blocks_find_the_same_links(agrees, cut):
    cut(block=lambda size, most, interpreted: 4)
    agrees("build_tree", **drafted(2, 4, 3, 17), seq_lens=np.array([2, 3]), mask_mode=1, seq_lens_sum=0)
    agrees("reconstruct_indices_from_tree_mask", tree_mask=ancestors(2, 17), seq_lens=np.array([2, 3]))


def test_children_of_two_groups_with_one_parent_are_siblings(agrees):
    agrees(
        "build_tree",
        bonus_tokens=np.array([5]),
        parent_list=np.array([[-1, 0, 0]]),
        top_scores_index=np.array([[0, 1, 2, 4, 5]]),
        draft_tokens=np.array([[1, 2, 3, 4, 5]]),
        seq_lens=np.array([4]),
        topk=2,
        num_steps=2,
        num_draft_tokens=6,
        mask_mode=1,
        seq_lens_sum=0,
    )


def test_views_are_read_where_they_lie(agrees):
    arguments = {**drafted(6, 2, 3, 6), "seq_lens": np.arange(6)}
    views = {name: value[::2] if isinstance(value, np.ndarray) else value for name, value in arguments.items()}
    agrees("build_tree", **views, mask_mode=2, seq_lens_sum=0)
    view = np.asfortranarray(ancestors(3, 6))
    agrees("reconstruct_indices_from_tree_mask", tree_mask=view, seq_lens=np.arange(6)[::2])


def test_an_orphan_sees_the_root_and_itself_and_is_not_linked(rejection):
    arguments = {
        "bonus_tokens": np.array([50, 60]),
        "parent_list": np.array([[-1, 0, 1], [-1, 0, 1]]),
        "top_scores_index": np.array([[0, 2, 4], [0, 3, 5]]),
        "draft_tokens": np.array([[1, 2, 3], [4, 5, 6]]),
        "seq_lens": np.array([10, 20]),
        "topk": 2,
        "num_steps": 2,
        "num_draft_tokens": 4,
        "mask_mode": 1,
        "seq_lens_sum": 0,
    }
    assert rejection("build_tree", **arguments) is Reason.ORPHAN_NODE
    on_device = {key: from_numpy(value) if isinstance(value, np.ndarray) else value for key, value in arguments.items()}
    draft_token, retrieve_index, child, sibling, positions, tree_mask = gpu.build_tree(**on_device)
    assert draft_token.tolist() == [50, 1, 2, 3, 60, 4, 5, 6]
    assert retrieve_index.tolist() == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert child.tolist() == [[1, 2, -1, -1], [1, 2, -1, -1]]
    assert sibling.tolist() == [[-1] * 4, [-1] * 4]
    assert positions.tolist() == [10, 11, 12, 11, 20, 21, 22, 21]
    expected = [[1, 0, 0, 0], [1, 1, 0, 0], [1, 1, 1, 0], [1, 0, 0, 1]]
    assert tree_mask.view(2, 4, 4).int().tolist() == [expected, expected]


def test_malformed_candidates_neither_hang_nor_leave_the_request():
    source = np.random.default_rng(7)
    for _ in range(5):
        arguments = drafted(3, 3, 3, 9)
        good = {key: from_numpy(value) if isinstance(value, np.ndarray) else value for key, value in arguments.items()}
        expected = gpu.build_tree(**good, seq_lens=from_numpy(np.array([1, 2, 3])))
        arguments["top_scores_index"][1] = source.integers(-3, 40, 8)
        arguments["parent_list"][1] = source.integers(-3, 40, arguments["parent_list"].shape[1])
        bad = {key: from_numpy(value) if isinstance(value, np.ndarray) else value for key, value in arguments.items()}
        got = gpu.build_tree(**bad, seq_lens=from_numpy(np.array([1, 2, 3])))
        for one, other in zip(got, expected, strict=True):
            assert one.reshape(3, -1)[::2].tolist() == other.reshape(3, -1)[::2].tolist()
        links = got[2].reshape(-1).tolist() + got[3].reshape(-1).tolist()
        assert all(-1 <= node < 9 for node in links)


@pytest.mark.parametrize(("num_requests", "num_nodes"), [(0, 4), (1, 1), (3, 2), (3, 6), (2, 33), (2, 64), (1, 130)])
def test_links_from_a_mask(agrees, num_requests, num_nodes):
    agrees(
        "reconstruct_indices_from_tree_mask",
        tree_mask=ancestors(num_requests, num_nodes),
        seq_lens=np.arange(num_requests, dtype=np.int32),
    )


def test_bad_trees_are_rejected(rejection):
    arguments = {**drafted(1, 4, 4, 33), "seq_lens": np.array([4]), "seq_lens_sum": 3}
    assert rejection("build_tree", **arguments, mask_mode=2) is Reason.SCALAR_OUT_OF_RANGE
    assert rejection("build_tree", **arguments, mask_mode=0) is Reason.INCONSISTENT_LENGTHS
    masks = ancestors(1, 4)
    masks[0, 3, 3] = False
    reason = rejection("reconstruct_indices_from_tree_mask", tree_mask=masks, seq_lens=np.array([4]))
    assert reason is Reason.MALFORMED_MASK
