"""What a layer of a draft has consumed before a row: tokens that stand in its own KV."""

import numpy as np

from specsim.conformance.arrays import Array
from specsim.simulation.models.batches import DraftExtendBatch


def tokens_before(keys: Array, batch: DraftExtendBatch[Array], count: int) -> Array:
    """Return int64 [request, count]: the tokens of the positions in front of each selected row; 0 before the text.

    Parameters
    ----------
    keys : int64 [slot, 4]
        Tags of the layer.
    batch : DraftExtendBatch
        Its window.
    count : int
        Positions.
    """
    positions = batch.positions[batch.select][:, None] - np.arange(count, 0, -1)
    there = np.maximum(positions, 0)
    page_size = batch.keys.page_size
    pages = np.take_along_axis(batch.keys.page_table.astype(np.int64), there // page_size, axis=1)
    tokens: Array = keys[(pages * page_size + there % page_size).reshape(-1), 1].reshape(there.shape)
    return np.where(positions >= 0, tokens, 0)
