"""The draft of STANDALONE on the device, where its metadata list nothing."""

import torch

from specsim.gpu.arrays import DEVICE
from specsim.gpu.models.alone import hidden_before_steps
from specsim.simulation.models.batches import DraftStepBatch, ListedKeys

NUM_LAYERS = 2


def _beams_after(kv_indices: list[int], kv_indptr: list[int]) -> torch.Tensor:
    def ints(values: list[int]) -> torch.Tensor:
        return torch.tensor(values, dtype=torch.int32, device=DEVICE)

    num_beams = len(kv_indptr) - 1
    beams = torch.zeros(num_beams, dtype=torch.int64, device=DEVICE)
    keys = ListedKeys(ints(kv_indices), ints(kv_indptr), max_num_keys=3)
    batch = DraftStepBatch(beams, beams, beams, beams, keys, hidden_states=None, depth=2)
    entries = torch.tensor([[0, 0, 0], [0, 7, 0], [1, 9, 0]], dtype=torch.int64, device=DEVICE)
    return hidden_before_steps(batch, entries, NUM_LAYERS)


def test_beams_of_padding_that_see_nothing_are_like_those_beside_live_ones():
    beside_live_ones = _beams_after([1, 2], [0, 2, 2, 2])
    alone = _beams_after([], [0, 0, 0])
    assert alone.tolist() == beside_live_ones[1:].tolist()
    assert beside_live_ones[0].tolist() != alone[0].tolist()
