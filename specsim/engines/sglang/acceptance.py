"""Acceptance by coins, and simulated acceptance."""

from typing import TYPE_CHECKING

from specsim.engines.adapter import Adapted
from specsim.engines.chains import Chains, Outputs, draw, equals_of, sampler_of, sampler_with_outputs_of
from specsim.engines.sglang.release import engine, in_release

if TYPE_CHECKING:
    import torch

CHAIN = in_release("chain_speculative_sampling_triton", "kernels.ops.speculative.reject_sampling")
SIMULATED = in_release("simulated_accept", "kernels.ops.speculative.simulated_accept")


def _in_rows_of_their_own(chains: Chains, out: Outputs) -> None:
    _sample(chains, out, width_of_rows=None)


def _in_rows_of_the_caller(chains: Chains, out: Outputs) -> None:
    """Do the same for a caller whose rows of accepted indices are as wide as its rows of output tokens."""
    _sample(chains, out, width_of_rows=max(out[0].stride(0), chains.output_shape[1]))


def _sample(chains: Chains, out: Outputs, width_of_rows: int | None) -> None:
    """Make one call for the requests of one length.

    SGLang's chains have one length a batch, which is not 0, and none of their drafts is -1. A proposal that is known
    for certain (no ``draft_probs``) is handed over as one-hot rows; a request without drafts is drawn from the
    target's row.
    """
    output_tokens, num_accepted_drafts = out
    laws = chains.laws()
    for equals in equals_of(chains.draft_tokens, chains.cu_num_drafts):
        if equals.num_drafts == 0:
            coins = chains.uniform_samples_for_final_sampling[equals.requests]
            drawn = draw(chains.target_probs[equals.target_rows[:, 0]], coins)
            output_tokens[equals.requests, 0] = drawn.to(output_tokens.dtype)
            num_accepted_drafts[equals.requests] = 0
            continue
        tokens, accepted = _same_length(
            chains.draft_tokens[equals.drafts],
            chains.uniform_samples[equals.drafts],
            chains.uniform_samples_for_final_sampling[equals.requests],
            laws[equals.drafts],
            chains.target_probs[equals.target_rows],
            width_of_rows,
        )
        output_tokens[equals.requests, : tokens.shape[1]] = tokens
        num_accepted_drafts[equals.requests] = accepted


def _same_length(
    draft_tokens: "torch.Tensor",
    coins: "torch.Tensor",
    final_coins: "torch.Tensor",
    draft_probs: "torch.Tensor",
    target_probs: "torch.Tensor",
    width_of_rows: int | None,
) -> "tuple[torch.Tensor, torch.Tensor]":
    import torch

    num_requests = len(draft_tokens)
    # Node 0 is the bonus token, which no verify reads.
    candidates = torch.cat((draft_tokens.new_zeros((num_requests, 1)), draft_tokens), dim=1)
    retrieve_index = torch.arange(candidates.numel(), device=candidates.device).view(candidates.shape)
    predict = candidates.new_zeros(candidates.numel(), dtype=torch.int32)
    width = candidates.shape[1]
    accept_index = predict.new_full((num_requests, width_of_rows or width), -1)[:, :width]
    num_correct_drafts = predict.new_empty(num_requests)
    engine().get(CHAIN)(
        predict,
        accept_index,
        num_correct_drafts,
        candidates,
        retrieve_index,
        retrieve_index,
        retrieve_index,
        coins,
        final_coins,
        target_probs,
        draft_probs,
        1.0,
        1.0,
        True,
    )
    tokens = torch.where(accept_index >= 0, predict[accept_index.clamp(min=0).long()], -1)
    return tokens, num_correct_drafts


def generate_simulated_accept_index(
    accept_index: "torch.Tensor", simulated_num_tokens: int, num_draft_tokens: int
) -> "tuple[torch.Tensor, torch.Tensor, torch.Tensor]":
    """Pretend that every request accepted the same number of tokens."""
    num_requests, width = accept_index.shape
    predict = accept_index.new_empty(num_requests * num_draft_tokens)
    num_accepted_drafts = accept_index.new_empty(num_requests)
    simulated = engine().get(SIMULATED)(
        accept_indices=accept_index,
        predict_tokens=predict,
        num_correct_drafts=num_accepted_drafts,
        candidate_tokens=None,
        target_tokens=None,
        width=width,
        num_accept_tokens=simulated_num_tokens,
        real_tokens=False,
    )
    return predict, simulated, num_accepted_drafts


TABLE = (
    Adapted(sampler_of(_in_rows_of_their_own), (CHAIN,)),
    Adapted(sampler_with_outputs_of(_in_rows_of_the_caller), (CHAIN,)),
    Adapted(generate_simulated_accept_index, (SIMULATED,)),
)
