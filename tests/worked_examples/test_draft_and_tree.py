"""K.1: two requests, topk 2, three steps, six nodes."""

import numpy as np
import pytest

from specsim.config import TreeMaskMode
from tests.worked_examples.numbers import (
    BONUS,
    DRAFT_TOKEN,
    DRAFT_TOKENS,
    NEXT_SIBLING,
    NEXT_TOKEN,
    NUM_NODES,
    NUM_STEPS,
    PARENT_LIST,
    POSITIONS,
    QLEN_ROWS,
    RETRIEVE_INDEX,
    SEQ_LENS,
    STEP_IDS,
    STEP_P,
    TOP_SCORES_INDEX,
    TOPK,
    f32,
    i64,
    scores_of,
)

CHOSEN = [
    ([11, 12, 31, 32], [100, 100, 200, 200], [[-1, 0, 1], [-1, 0, 1]]),
    ([21, 23, 41, 42], [0, 1, 2, 2], [[2, 4], [2, 3]]),
]
"""Of steps 0 and 1: the next input ids, the rows that their hidden states come from, and the parents' flat ids."""

MASKS = {
    TreeMaskMode.QLEN_ONLY: QLEN_ROWS.reshape(-1),
    TreeMaskMode.QLEN_ONLY_BITPACKING: np.array([1, 3, 5, 11, 21, 43, 1, 3, 7, 11, 23, 43], dtype=np.uint8),
    TreeMaskMode.FULL_MASK: np.concatenate(
        [
            np.concatenate([np.ones(length, dtype=bool), row])
            for length, request in zip(SEQ_LENS, QLEN_ROWS, strict=True)
            for row in request
        ]
    ),
}


@pytest.mark.parametrize("step", [0, 1])
def test_k1_select(step, computes):
    input_ids, hidden_rows, parents = CHOSEN[step]
    arguments = {
        "step_index": step,
        "topk_p": f32(STEP_P[step]),
        "topk_index": i64(STEP_IDS[step]),
        "hidden_states": i64([[100], [200]]) if step == 0 else i64([[0], [1], [2], [3]]),
        "scores": None if step == 0 else scores_of(0)[0],
        "topk": TOPK,
    }
    scores, block = scores_of(step)
    expected = {
        "input_ids": i64(input_ids),
        "next_hidden_states": i64(hidden_rows)[:, None],
        "next_scores": scores,
        "score_block": block,
        "token_block": i64(STEP_IDS[step]).reshape(2, -1),
        "parent_block": i64(parents),
    }
    computes("select_top_k_tokens", arguments, expected)


def test_k1_scores():
    assert [block.round(6).tolist() for _, block in map(scores_of, (1, 2))] == [
        f32([[[0.30, 0.18], [0.245, 0.07]], [[0.35, 0.28], [0.12, 0.06]]]).round(6).tolist(),
        f32([[[0.24, 0.03], [0.147, 0.0735]], [[0.21, 0.105], [0.252, 0.014]]]).round(6).tolist(),
    ]


def test_k1_organised(computes):
    arguments = {
        "score_list": [scores_of(step)[1] for step in range(NUM_STEPS)],
        "token_list": [i64(ids).reshape(2, -1) for ids in STEP_IDS],
        "parents_list": [i64(CHOSEN[0][2]), i64(CHOSEN[1][2]), i64([[6, 8], [8, 6]])],
        "num_draft_tokens": NUM_NODES,
    }
    expected = {
        "parent_list": i64(PARENT_LIST),
        "top_scores_index": i64(TOP_SCORES_INDEX),
        "draft_tokens": i64(DRAFT_TOKENS),
    }
    computes("organize_draft_results", arguments, expected)


@pytest.mark.parametrize("mask_mode", MASKS)
def test_k1_tree(mask_mode, computes):
    arguments = {
        "bonus_tokens": np.array(BONUS, dtype=np.int32),
        "parent_list": i64(PARENT_LIST),
        "top_scores_index": i64(TOP_SCORES_INDEX),
        "draft_tokens": i64(DRAFT_TOKENS),
        "seq_lens": i64(SEQ_LENS),
        "topk": TOPK,
        "num_steps": NUM_STEPS,
        "num_draft_tokens": NUM_NODES,
        "mask_mode": mask_mode,
        "seq_lens_sum": 12 if mask_mode is TreeMaskMode.FULL_MASK else 0,
    }
    expected = {
        "draft_token": i64(DRAFT_TOKEN),
        "retrieve_index": i64(RETRIEVE_INDEX),
        "retrieve_next_token": i64(NEXT_TOKEN),
        "retrieve_next_sibling": i64(NEXT_SIBLING),
        "positions": i64(POSITIONS),
        "tree_mask": MASKS[mask_mode],
    }
    computes("build_tree", arguments, expected)


def test_k1_full_mask_is_laid_out_request_after_request():
    mask = MASKS[TreeMaskMode.FULL_MASK]
    assert mask.shape == (144,)
    assert "".join(str(int(cell)) for cell in mask[4 * 13 : 5 * 13]) == "1111111101010"
    assert mask[78 : 78 + 11].tolist() == [True] * 6 + [False] * 5
