"""Assisted generation: drafts of an assistant model, accepted by the ratio of two probabilities."""

from typing import TYPE_CHECKING

from specsim.counts import count_tokens
from specsim.engines.adapter import Adapted
from specsim.engines.chains import drafted_lengths, one_hot
from specsim.engines.transformers.release import drawing_with, engine, in_release

if TYPE_CHECKING:
    import torch

SPECULATIVE_SAMPLING = in_release("_speculative_sampling")


def chain_speculative_sampling(
    draft_tokens: "torch.Tensor",
    cu_num_drafts: "torch.Tensor",
    uniform_samples: "torch.Tensor",
    uniform_samples_for_final_sampling: "torch.Tensor",
    draft_probs: "torch.Tensor | None",
    target_probs: "torch.Tensor",
    max_num_drafts: int,
) -> "tuple[torch.Tensor, torch.Tensor]":
    """Sample chains one request at a time, as transformers does, from the logarithms of the probabilities.

    A request without drafts is never handed to the function of transformers, nor to it here: its token is drawn from
    the target's row.
    """
    import torch

    chains = drafted_lengths(draft_tokens, cu_num_drafts)
    output_tokens = draft_tokens.new_full((len(chains), count_tokens(max_num_drafts)), -1, dtype=torch.int32)
    num_accepted_drafts = output_tokens.new_zeros(len(chains))
    if draft_probs is None:
        draft_probs = one_hot(draft_tokens, target_probs.shape[1])
    for request, (first, _, length) in enumerate(chains):
        rows = target_probs[first + request : first + request + length + 1]
        final_coin = float(uniform_samples_for_final_sampling[request])
        if length == 0:
            running = rows[0].double().cumsum(0)
            output_tokens[request, 0] = (running > final_coin * running[-1]).int().argmax()
            continue
        with drawing_with(uniform_samples[first : first + length], final_coin):
            tokens, accepted = engine().get(SPECULATIVE_SAMPLING)(
                draft_tokens[None, first : first + length],
                draft_probs[None, first : first + length].log(),
                length,
                rows[None].log(),
            )
        output_tokens[request, : tokens.shape[1]] = tokens[0]
        num_accepted_drafts[request] = accepted
    return output_tokens, num_accepted_drafts


TABLE = (Adapted(chain_speculative_sampling, (SPECULATIVE_SAMPLING,)),)
