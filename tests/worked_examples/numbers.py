"""The tree of K.1 and what becomes of it in K.2 and K.3."""

import numpy as np


def i32(value):
    return np.array(value, dtype=np.int32)


def i64(value):
    return np.array(value, dtype=np.int64)


def f32(value):
    return np.array(value, dtype=np.float32)


def squares(rows):
    """Return bool [request, node, node] of rows that are written column 0 first."""
    return np.array([[[cell == "1" for cell in row] for row in request] for request in rows])


TOPK, NUM_STEPS, NUM_NODES = 2, 3, 6
SEQ_LENS, BONUS = [7, 5], [10, 30]
STEP_P = [
    [[0.6, 0.35], [0.7, 0.2]],
    [[0.5, 0.3], [0.7, 0.2], [0.5, 0.4], [0.6, 0.3]],
    [[0.8, 0.1], [0.6, 0.3], [0.6, 0.3], [0.9, 0.05]],
]
STEP_IDS = [
    [[11, 12], [31, 32]],
    [[21, 22], [23, 24], [41, 42], [43, 44]],
    [[51, 52], [53, 54], [61, 62], [63, 64]],
]
TOP_SCORES_INDEX = [[0, 1, 2, 4, 6], [0, 2, 3, 6, 8]]
PARENT_LIST = [[-1, 0, 1, 2, 4], [-1, 0, 1, 2, 3]]
DRAFT_TOKENS = [[11, 12, 21, 23, 51], [31, 41, 42, 61, 63]]
DRAFT_TOKEN = [10, 11, 12, 21, 23, 51, 30, 31, 41, 42, 61, 63]
POSITIONS = [7, 8, 8, 9, 9, 10, 5, 6, 7, 7, 8, 8]
RETRIEVE_INDEX = [[0, 1, 2, 3, 4, 5], [6, 7, 8, 9, 10, 11]]
NEXT_TOKEN = [[1, 3, 4, 5, -1, -1], [1, 2, 4, 5, -1, -1]]
NEXT_SIBLING = [[-1, 2, -1, -1, -1, -1], [-1, -1, 3, -1, -1, -1]]
QLEN_ROWS = squares(
    [
        ["100000", "110000", "101000", "110100", "101010", "110101"],
        ["100000", "110000", "111000", "110100", "111010", "110101"],
    ]
)
TARGET_PREDICT = [[12, 91, 23, 92, 70, 94], [31, 42, 95, 63, 96, 80]]
ACCEPT_INDEX = [[0, 2, 4, -1], [6, 7, 9, 11]]
PREDICT = [12, 0, 23, 0, 70, 0, 31, 42, 0, 63, 0, 80]
VERIFY_SLOTS = [20, 21, 22, 23, 24, 25, 30, 31, 32, 33, 34, 35]


def scores_of(step):
    """Return float32 [request, topk] and the score block [request, beam, topk] of a step, one product a level."""
    probabilities = f32(STEP_P[step])
    if step == 0:
        return probabilities, probabilities[:, None, :]
    before, _ = scores_of(step - 1)
    block = before[:, :, None] * probabilities.reshape(2, TOPK, TOPK)
    best = -np.sort(-block.reshape(2, -1), axis=1)[:, :TOPK]
    return best, block
