"""K.12: three simulated tokens of two requests, whatever was accepted."""

import numpy as np

from tests.worked_examples.numbers import i32


def test_k12_everybody_has_three_tokens(computes):
    computes(
        "generate_simulated_accept_index",
        {"accept_index": i32([[0, 2, 3, -1], [4, -1, -1, -1]]), "simulated_num_tokens": 3, "num_draft_tokens": 4},
        {
            "predict": np.full(8, 100, dtype=np.int32),
            "simulated_accept_index": i32([[0, 1, 2, -1], [4, 5, 6, -1]]),
            "num_accepted_drafts": i32([2, 2]),
        },
    )
