"""Filter and merge on tensors: the library is that of the arrays."""

import numpy as np
import torch

from specsim.gpu.arrays import DEVICE
from specsim.phases import DraftInput, EagleDraftExtendInput, filter_batch, merge_batch


def i64(*values):
    return torch.tensor(values, dtype=torch.int64, device=DEVICE)


def draft(*rows):
    row = i64(*rows)
    probabilities = row.float()[:, None].repeat(1, 2)
    return DraftInput(row, row * 10, probabilities, row[:, None].repeat(1, 2), row[:, None] * 100, row.int())


def test_draft_inputs_of_tensors_are_filtered_and_merged():
    merged = merge_batch(filter_batch(draft(1, 2, 3), [2, 0]), draft(4))
    assert merged.req_pool_indices.tolist() == [3, 1, 4]
    assert merged.topk_p.tolist() == [[3, 3], [1, 1], [4, 4]]
    assert merged.hidden_states.tolist() == [[300], [100], [400]]
    assert merged.bonus_tokens.dtype is torch.int32
    assert filter_batch(merged, []).topk_index.shape == (0, 2)


def test_an_idle_input_of_tensors_is_neutral():
    def zeros(shape, dtype):
        return torch.zeros(shape, dtype=getattr(torch, dtype), device=DEVICE)

    idle = DraftInput.create_idle_input(2, 1, "int64", zeros)
    carried = draft(5)
    assert idle.topk_p.device.type == DEVICE.type
    assert merge_batch(idle, carried) is merge_batch(carried, idle) is carried


def test_segments_of_tensors_stay_whole():
    counts = torch.tensor([3, 1], dtype=torch.int32, device=DEVICE)
    phase = EagleDraftExtendInput(
        i64(1, 2), i64(9, 8), (9, 8), counts - 1, counts, (3, 1), i64(7, 8, 9, 5), None, i64(1, 2, 3, 4)
    )
    kept = filter_batch(phase, [1, 0])
    assert kept.input_ids.tolist() == [5, 7, 8, 9]
    assert kept.num_accepted_tokens_cpu == (1, 3)
    assert np.array_equal(kept.num_accepted_tokens.cpu().numpy(), [1, 3])
