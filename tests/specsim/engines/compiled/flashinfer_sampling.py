"""What stands for the sampling module of FlashInfer 0.7.2: its functions' parameters and what they return, in torch."""

import torch

loaded = []


def get_sampling_module():
    loaded.append(True)


def top_k_renorm_probs(probs, top_k, is_deterministic=False):
    assert loaded, "compiled by the first call, which is timed"
    assert (probs.dtype, top_k.dtype, probs.is_contiguous()) == (torch.float32, torch.int32, True)
    least = [row.sort(descending=True).values[min(int(k), len(row)) - 1] for row, k in zip(probs, top_k, strict=True)]
    kept = torch.where(probs >= torch.stack(least)[:, None], probs, 0)
    return kept / kept.sum(1, keepdim=True)


def top_p_renorm_probs(probs, top_p, is_deterministic=False):
    assert loaded, "compiled by the first call, which is timed"
    assert (probs.dtype, top_p.dtype, probs.is_contiguous()) == (torch.float32, torch.float32, True)
    values, order = probs.double().sort(descending=True)
    before = values.cumsum(1) - values
    kept = torch.zeros_like(values).scatter(1, order, torch.where(before < top_p[:, None].double(), values, 0))
    return (kept / kept.sum(1, keepdim=True)).float()


def chain_speculative_sampling(
    draft_probs,
    draft_token_ids,
    target_probs,
    maybe_output_accepted_token_num=None,
    maybe_output_emitted_draft_token_num=None,
    deterministic=True,
    generator=None,
    seed=None,
    offset=None,
):
    num_requests, num_drafts, vocab = draft_probs.shape
    assert draft_token_ids.shape == (num_requests, num_drafts)
    assert target_probs.shape == (num_requests, num_drafts + 1, vocab)
    assert draft_token_ids.dtype is torch.int32
    assert draft_probs.is_contiguous()
    assert target_probs.is_contiguous()
    tokens = torch.full((num_requests, num_drafts + 1), -1, dtype=torch.int32)
    accepted, emitted = (torch.zeros(num_requests, dtype=torch.int32) for _ in range(2))
    for request in range(num_requests):
        left = target_probs[request, num_drafts]
        for place, token in enumerate(draft_token_ids[request].tolist()):
            coin = torch.rand((), generator=generator)
            if coin * draft_probs[request, place, token] >= target_probs[request, place, token]:
                left = (target_probs[request, place] - draft_probs[request, place]).clamp(min=0)
                break
            tokens[request, place] = token
            emitted[request] += 1
        tokens[request, emitted[request]] = torch.multinomial(left, 1, generator=generator).int()
    return tokens, accepted, emitted
