"""Chains verified by the target's own draws: a draft is accepted if it equals the draw, which is emitted otherwise.

Draws are made inside. Neighbouring rules differ in one step, and most of them have another law.
"""

import numpy as np

DRAW_FAULTS = {
    "fresh": "at a mismatch a token is drawn once more",
    "residual": "at a mismatch what the proposal leaves is drawn from",
    "likeliest": "drafts are compared with the likeliest token",
    "no break": "the walk goes on after a mismatch",
}


def sampled_verifier(fault=None):
    def chain_speculative_sampling_without_coins(
        draft_tokens, cu_num_drafts, draft_probs, target_probs, max_num_drafts, seed
    ):
        random = np.random.default_rng(seed)
        count = len(cu_num_drafts) - 1
        output = np.full((count, max_num_drafts + 1), -1, dtype=np.int32)

        def draw(weights):
            return int(random.choice(len(weights), p=weights / weights.sum()))

        for request in range(count):
            first, last = cu_num_drafts[request : request + 2]
            drafts = [int(token) for token in draft_tokens[first:last]]
            drafts = drafts[: drafts.index(-1)] if -1 in drafts else drafts
            tokens = []
            for place in range(len(drafts) + 1):
                row = target_probs[first + request + place].astype(float)
                token = int(row.argmax()) if fault == "likeliest" and place < len(drafts) else draw(row)
                is_mismatch = place < len(drafts) and token != drafts[place]
                if is_mismatch and fault == "fresh":
                    token = draw(row)
                if is_mismatch and fault == "residual" and draft_probs is not None:
                    left = np.maximum(row - draft_probs[first + place], 0)
                    token = draw(left) if left.sum() else token
                tokens.append(token)
                if is_mismatch and fault != "no break":
                    break
            output[request, : len(tokens)] = tokens
        return output, (output >= 0).sum(axis=1).astype(np.int32) - 1

    return chain_speculative_sampling_without_coins
