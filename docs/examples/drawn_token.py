"""A schedule that verifies the drafts which were drawn with the largest probability, and so biases the output."""

import numpy as np


def choose_verify_lens(draft_tokens, draft_probs, confidences, num_drafts, history):
    """Return how many tokens of each request are verified, the root included."""
    drawn = np.take_along_axis(draft_probs, np.maximum(draft_tokens, 0)[:, :, None], axis=2)[:, :, 0]
    survivals = np.cumprod(drawn, axis=1)
    budget = 3 if history.verify_token_budget is None else history.verify_token_budget
    ranked = sorted((-survivals[b, i], i, b) for b, count in enumerate(num_drafts) for i in range(count))
    lens = np.ones(len(num_drafts), dtype=np.int32)
    for _, _, request in ranked[:budget]:
        lens[request] += 1
    return lens
