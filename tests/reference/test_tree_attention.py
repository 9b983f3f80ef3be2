"""Tree attention by hand: weights of 1, 2 and 4, which scores of 0, ln 2 and ln 4 have."""

import numpy as np
import pytest

from specsim import Reason, SpecRejection, reference

LN_2 = float(np.log(2))
# Root → 1, 2 after a prefix of one position.
TREE = np.array([[1, 0, 0], [1, 1, 0], [1, 0, 1]], dtype=np.bool_)


@pytest.fixture
def call(i32):
    """Return one request in pages 2 and 0 of two slots; keys weigh 1, 2, 4 and 1, and values are 8, 4, 2 and 0."""
    keys, values = np.full((6, 1, 1), np.nan, np.float32), np.full((6, 1, 1), np.nan, np.float32)
    keys[[4, 5, 0, 1], 0, 0] = [0, LN_2, 2 * LN_2, 0]
    values[[4, 5, 0, 1], 0, 0] = [8, 4, 2, 0]
    return {
        "q": np.ones((3, 2, 1), np.float32),
        "k_buffer": keys,
        "v_buffer": values,
        "cache_seqlens": i32([4]),
        "page_table": i32([[2, 0, 7]]),
        "tree_mask": TREE.reshape(-1),
        "softmax_scale": None,
        "num_draft_tokens": 3,
        "page_size": 2,
    }


def test_nodes_see_the_prefix_and_their_ancestors(call):
    """The root sees 8 and 4 with weights of 1 and 2, node 1 also 2 with weight 4, and node 2 also 0 with weight 1."""
    got = reference.tree_attention(**call)
    np.testing.assert_allclose(got.attention[:, 0, 0], [16 / 3, 24 / 7, 16 / 4], rtol=1e-6)
    np.testing.assert_allclose(got.attention[:, 1], got.attention[:, 0])
    np.testing.assert_allclose(got.log_sum_exp[:, 0], np.log([3, 7, 4]), rtol=1e-6)


def test_a_scale_multiplies_scores(call):
    got = reference.tree_attention(**{**call, "softmax_scale": np.array([2.0], np.float32)})
    np.testing.assert_allclose(got.attention[0, 0, 0], (8 + 4 * 4) / 5, rtol=1e-6)


def test_scores_are_divided_by_the_root_of_the_head(call):
    wide = {name: np.concatenate([call[name]] * 4, axis=2) for name in ("q", "k_buffer", "v_buffer")}
    got = reference.tree_attention(**{**call, **wide})
    np.testing.assert_allclose(got.log_sum_exp[0, 0], np.log(1 + 4), rtol=1e-6)


def test_query_heads_share_a_kv_head_in_blocks(call):
    two = {name: np.concatenate([call[name], 2 * call[name]], axis=1) for name in ("k_buffer", "v_buffer")}
    queries = np.ones((3, 4, 1), np.float32)
    got = reference.tree_attention(**{**call, **two, "q": queries})
    np.testing.assert_allclose(got.log_sum_exp[0], np.log([3, 3, 5, 5]), rtol=1e-6)


def test_a_node_that_sees_nothing(call, i32):
    blind = {"cache_seqlens": i32([3]), "tree_mask": np.zeros(9, np.bool_)}
    got = reference.tree_attention(**{**call, **blind})
    assert not got.attention.any()
    assert (got.log_sum_exp == -np.inf).all()


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"cache_seqlens": np.array([2], np.int32)}, Reason.ROW_TOO_SHORT),
        ({"cache_seqlens": np.array([7], np.int32)}, Reason.ROW_TOO_SHORT),
        ({"page_table": np.array([[2, 3, 7]], np.int32)}, Reason.SLOT_OUT_OF_RANGE),
        ({"page_table": np.array([[2, 1, 7]], np.int32)}, Reason.NAN_SCORE),
        ({"q": np.full((3, 2, 1), np.inf, np.float32)}, Reason.INFINITE_LOGIT),
        ({"softmax_scale": np.array([np.inf], np.float32)}, Reason.INFINITE_LOGIT),
        ({"v_buffer": np.zeros((6, 2, 1), np.float32)}, Reason.WRONG_SHAPE),
        (
            {name: np.zeros((6, 2, 1), np.float32) for name in ("k_buffer", "v_buffer")}
            | {"q": np.ones((3, 3, 1), np.float32)},
            Reason.NOT_DIVISIBLE,
        ),
    ],
)
def test_bad_input_is_rejected(call, change, reason):
    with pytest.raises(SpecRejection) as caught:
        reference.tree_attention(**{**call, **change})
    assert caught.value.reason is reason
