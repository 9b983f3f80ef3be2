"""A chain sampler with a fault of a released engine: ``tutorial.md`` finds it, reads what is reported, and mends it."""

import numpy as np


def draw(weights, coin):
    """Return the first token at which the running sum of the weights passes the coin's share of their sum."""
    sums = np.cumsum(weights, dtype=np.float64)
    return int(np.searchsorted(sums, coin * sums[-1], side="right"))


def chain_speculative_sampling(
    draft_tokens,
    cu_num_drafts,
    uniform_samples,
    uniform_samples_for_final_sampling,
    draft_probs,
    target_probs,
    max_num_drafts,
):
    """Accept each request's drafts up to the first rejection, and draw one more token."""
    num_requests, vocab = len(cu_num_drafts) - 1, target_probs.shape[1]
    output_tokens = np.full((num_requests, max_num_drafts + 1), -1, np.int32)
    num_accepted_drafts = np.zeros(num_requests, np.int32)
    for request in range(num_requests):
        coin = uniform_samples_for_final_sampling[request]
        first, end = cu_num_drafts[request], cu_num_drafts[request + 1]
        weights = None
        for place in range(first, end):
            token, target = draft_tokens[place], target_probs[place + request].astype(np.float64)
            if token < 0:
                end = place
                break
            certain = np.eye(1, vocab, token)[0]
            proposal = certain if draft_probs is None else draft_probs[place].astype(np.float64)
            if not (proposal[token] > 0 and uniform_samples[place] * proposal[token] < target[token]):
                coin = uniform_samples[place]
                weights = np.maximum(target - proposal, 0)
                break
            output_tokens[request, num_accepted_drafts[request]] = token
            num_accepted_drafts[request] += 1
        if weights is None:
            weights = target_probs[end + request]
        output_tokens[request, num_accepted_drafts[request]] = draw(weights, coin)
    return output_tokens, num_accepted_drafts
