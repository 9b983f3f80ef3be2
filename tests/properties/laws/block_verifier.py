"""Chains that are verified a block at once (Sun et al. 2024): the target's law, other acceptance than token by token.

Coins are drawn inside. The longest front of a draft is kept for which a coin of its own says so, and whatever mass the
front leaves is drawn from.
"""

import numpy as np

BLOCK_FAULTS = {
    "ratio kept": "the ratio of a front is not cut at 1",
    "last front": "the first front that is refused ends the walk",
}


def block_verifier(fault=None):
    def chain_speculative_sampling_without_coins(
        draft_tokens, cu_num_drafts, draft_probs, target_probs, max_num_drafts, seed
    ):
        random = np.random.default_rng(seed)
        count = len(cu_num_drafts) - 1
        output = np.full((count, max_num_drafts + 1), -1, dtype=np.int32)
        for request in range(count):
            first, last = cu_num_drafts[request : request + 2]
            tokens = [int(token) for token in draft_tokens[first:last]]
            tokens = tokens[: tokens.index(-1)] if -1 in tokens else tokens
            target = target_probs[first + request :].astype(float)
            proposal = np.eye(target.shape[1])[tokens] if draft_probs is None else draft_probs[first:].astype(float)
            kept, share, rest = 0, 1.0, rest_of(1.0, target[0], proposal, len(tokens), 0)
            for place, token in enumerate(tokens, 1):
                share *= target[place - 1, token] / proposal[place - 1, token]
                share = share if fault == "ratio kept" else min(share, 1.0)
                left = rest_of(share, target[place], proposal, len(tokens), place)
                whole = place == len(tokens)
                mass = left.sum()
                chance = share if whole else mass / (mass + 1 - share) if mass + 1 - share > 0 else 0.0
                if random.random() < chance:
                    kept, rest = place, left
                elif fault == "last front":
                    break
            rest = rest if rest.sum() > 0 else target[kept]
            drawn = int(random.choice(len(rest), p=rest / rest.sum()))
            output[request, : kept + 1] = [*tokens[:kept], drawn]
        return output, (output >= 0).sum(axis=1).astype(np.int32) - 1

    return chain_speculative_sampling_without_coins


def rest_of(share, row, proposal, num_drafts, place):
    """Return the weights of the token after a front: the target's own after the last draft."""
    return row if place == num_drafts else np.maximum(share * row - proposal[place], 0)
