"""A walk from draft to draft that records the rows of the parallel forward, and so biases the output."""

import numpy as np


def walk_markov_drafts(
    base_logits, bias, roots, temperatures, target_ids, num_candidates, request_rows, arrivals, recorded_logits
):
    """Return the drafts, drawn with Gumbel noise."""
    batch, num_columns = np.arange(len(roots)), base_logits.shape[2]
    ids = np.arange(num_columns) if target_ids is None else target_ids
    is_drawn, before, drafts = temperatures > 0, roots, []
    warm = np.where(is_drawn, np.maximum(temperatures, 1e-5), 1)[:, None]
    for place in range(base_logits.shape[1]):
        base = base_logits[:, place].astype(np.float32)
        rows = (base + bias[before]).astype(base_logits.dtype).astype(np.float32)
        dropped = np.argsort(-base, axis=1, kind="stable")[:, num_candidates or num_columns :]
        rows[batch[:, None], dropped] = -np.inf
        noise = np.where(is_drawn[:, None], -np.log(arrivals[:, place]), 0)
        recorded_logits[request_rows, place] = -np.inf
        recorded_logits[request_rows[:, None], place, ids] = base  # should be rows
        before = ids[np.argmax(rows / warm + noise, axis=1)]
        drafts.append(before)
    return np.stack(drafts, axis=1)
