import numpy as np
import pytest
import torch

from specsim.host.processors import apply_logit_processors
from specsim.rejection import Reason, SpecRejection


def forbid_token_1(rows):
    rows[:, 1] = float("-inf")
    return rows


def test_rows_of_the_second_request():
    logits = np.zeros((4, 2), dtype=np.float32)
    apply_logit_processors(logits, [None, forbid_token_1], 2)
    assert logits.tolist() == [[0, 0], [0, 0], [0, float("-inf")], [0, float("-inf")]]


def test_tensors():
    logits = torch.zeros((4, 2), dtype=torch.bfloat16)
    apply_logit_processors(logits, [forbid_token_1, None], 2)
    assert logits.isneginf().tolist() == [[False, True], [False, True], [False, False], [False, False]]


@pytest.mark.parametrize(
    ("processors", "reason"),
    [
        ([None], Reason.INCONSISTENT_LENGTHS),
        ([forbid_token_1, lambda rows: rows[:1]], Reason.WRONG_SHAPE),
    ],
)
def test_a_refused_batch_is_left_as_it_was(processors, reason):
    logits = np.zeros((4, 2), dtype=np.float32)
    with pytest.raises(SpecRejection) as refused:
        apply_logit_processors(logits, processors, 2)
    assert refused.value.reason is reason
    assert not logits.any()
