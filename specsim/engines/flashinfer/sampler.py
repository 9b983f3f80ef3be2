"""Renormalised probabilities, and chains that are accepted by coins of FlashInfer's own."""

from typing import TYPE_CHECKING

from specsim.counts import count_tokens
from specsim.engines.adapter import Adapted, Definition
from specsim.engines.chains import equals_of, laws_of
from specsim.engines.flashinfer.release import HOMES, compiled

if TYPE_CHECKING:
    import torch


def top_k_renorm(probabilities: "torch.Tensor", top_k: "torch.Tensor") -> "torch.Tensor":
    """Keep the k most probable tokens of a row."""
    renormalised: torch.Tensor = compiled("top_k_renorm").call(probabilities, top_k)
    return renormalised


def top_p_renorm(probabilities: "torch.Tensor", top_p: "torch.Tensor") -> "torch.Tensor":
    """Keep the most probable tokens whose mass reaches p."""
    renormalised: torch.Tensor = compiled("top_p_renorm").call(probabilities, top_p)
    return renormalised


def chain_speculative_sampling_without_coins(
    draft_tokens: "torch.Tensor",
    cu_num_drafts: "torch.Tensor",
    draft_probs: "torch.Tensor | None",
    target_probs: "torch.Tensor",
    max_num_drafts: int,
    seed: int,
) -> "tuple[torch.Tensor, torch.Tensor]":
    """Make one call for the requests of one length, as FlashInfer's chains have one length a batch.

    A proposal that is certain is handed over as one-hot rows. A request without drafts is drawn from the target's row.
    """
    import torch

    generator = torch.Generator(draft_tokens.device).manual_seed(seed)
    laws = laws_of(draft_tokens, draft_probs, target_probs)
    shape = len(cu_num_drafts[1:]), count_tokens(max_num_drafts)
    output_tokens = cu_num_drafts.new_full(shape, -1)
    num_accepted_drafts = output_tokens.new_zeros(len(output_tokens))
    for equals in equals_of(draft_tokens, cu_num_drafts):
        rows = target_probs[equals.target_rows]
        if equals.num_drafts == 0:
            output_tokens[equals.requests, :1] = torch.multinomial(rows[:, 0], 1, generator=generator).int()
            continue
        tokens, _, emitted = compiled("chain_speculative_sampling_without_coins").call(
            laws[equals.drafts], draft_tokens[equals.drafts].int(), rows, None, None, True, generator
        )
        output_tokens[equals.requests, : tokens.shape[1]] = tokens
        num_accepted_drafts[equals.requests] = emitted
    return output_tokens, num_accepted_drafts


TABLE = tuple(
    Adapted(function, (Definition(HOMES[function.__name__].name, (HOMES[function.__name__].module,)),))
    for function in (top_k_renorm, top_p_renorm, chain_speculative_sampling_without_coins)
)
