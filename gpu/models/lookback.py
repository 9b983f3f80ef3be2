"""What a layer of a draft has consumed before a row; all of it can be captured."""

import torch
from torch import Tensor

from specsim.simulation.models.batches import DraftExtendBatch


def tokens_before(keys: Tensor, batch: DraftExtendBatch[Tensor], count: int) -> tuple[Tensor, ...]:
    """Return for each of the ``count`` positions in front of the selected rows their tokens; 0 before the text."""
    page_size, page_table = batch.keys.page_size, batch.keys.page_table
    back = torch.arange(count, 0, -1, device=keys.device)
    positions = batch.positions.index_select(0, batch.select)[:, None] - back
    there = positions.clamp(min=0)
    slots = page_table.long().gather(1, there // page_size) * page_size + there % page_size
    tokens = torch.where(positions >= 0, keys[:, 1].take(slots), 0)
    return tokens.unbind(1)
