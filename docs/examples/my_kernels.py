"""Three operations of a third-party engine, vectorised in NumPy."""

import numpy as np

from specsim.validation.checking import check_call

REJECTS = True


def per_step_draft_out_cache_loc(out_cache_loc, topk, num_steps):
    """Turn request-major draft slots into one row a step."""
    check_call("per_step_draft_out_cache_loc", locals())
    return out_cache_loc.reshape(-1, num_steps).T.copy()


def fill_bonus_tokens(accept_tokens, num_accepted_tokens):
    """Pick the last output token of each request."""
    check_call("fill_bonus_tokens", locals())
    return np.take_along_axis(accept_tokens, num_accepted_tokens[:, None] - 1, axis=1)[:, 0]


def fill_accept_out_cache_loc(accept_index, out_cache_loc):
    """List the slots of the accepted nodes, packed to the front; the tail is dump slot 0."""
    check_call("fill_accept_out_cache_loc", locals())
    nodes = accept_index[accept_index >= 0]
    source_slots = np.zeros(accept_index.size, dtype=np.int64)
    source_slots[: len(nodes)] = out_cache_loc[nodes]
    return source_slots
