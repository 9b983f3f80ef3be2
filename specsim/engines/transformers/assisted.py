"""Assisted generation: drafts of an assistant model, accepted by the ratio of two probabilities."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from specsim.counts import count_tokens
from specsim.engines.adapter import Adapted
from specsim.engines.chains import Chain, Chains, Outputs, chains_of, draw, laws_of, sampler_of
from specsim.engines.transformers.release import drawing_with, engine, in_release

if TYPE_CHECKING:
    import torch

SPECULATIVE_SAMPLING = in_release("_speculative_sampling")


def _one_request_at_a_time(chains: Chains, out: Outputs) -> None:
    """Call transformers with coins, which stand for its draws."""

    def draw_first(row: "torch.Tensor", request: int) -> "torch.Tensor":
        return draw(row, chains.uniform_samples_for_final_sampling[request : request + 1])

    def accept(chain: Chain, *arguments: Any) -> "tuple[torch.Tensor, torch.Tensor]":
        drafts = slice(chain.first, chain.first + chain.num_drafts)
        final_coin = float(chains.uniform_samples_for_final_sampling[chain.request])
        with drawing_with(chains.uniform_samples[drafts], final_coin):
            return _speculative_sampling(*arguments)

    _accept_each(chains.requests(), chains.draft_tokens, chains.laws(), chains.target_probs, draw_first, accept, out)


def chain_speculative_sampling_without_coins(
    draft_tokens: "torch.Tensor",
    cu_num_drafts: "torch.Tensor",
    draft_probs: "torch.Tensor | None",
    target_probs: "torch.Tensor",
    max_num_drafts: int,
    seed: int,
) -> Outputs:
    """Call transformers as it is, which draws from torch's own generator."""
    import torch

    torch.manual_seed(seed)
    num_requests = len(cu_num_drafts[1:])
    output_tokens = cu_num_drafts.new_full((num_requests, count_tokens(max_num_drafts)), -1)
    out = output_tokens, output_tokens.new_zeros(len(output_tokens))
    _accept_each(
        chains_of(draft_tokens, cu_num_drafts),
        draft_tokens,
        laws_of(draft_tokens, draft_probs, target_probs),
        target_probs,
        lambda row, _: torch.multinomial(row, 1)[0],
        lambda _, *arguments: _speculative_sampling(*arguments),
        out,
    )
    return out


def _accept_each(
    chains: list[Chain],
    draft_tokens: "torch.Tensor",
    laws: "torch.Tensor",
    target_probs: "torch.Tensor",
    draw_first: "Callable[[torch.Tensor, int], torch.Tensor]",
    accept: "Callable[..., tuple[torch.Tensor, torch.Tensor]]",
    out: Outputs,
) -> None:
    """Call transformers with one request, as it does, and with the logarithms of the probabilities.

    A request without drafts is never handed to the function of transformers, nor to it here: its token is drawn from
    the target's row.
    """
    output_tokens, num_accepted_drafts = out
    for chain in chains:
        drafts = slice(chain.first, chain.first + chain.num_drafts)
        rows = target_probs[chain.first_target_row :][: count_tokens(chain.num_drafts)]
        if chain.num_drafts == 0:
            output_tokens[chain.request, 0] = draw_first(rows, chain.request)[0]
            continue
        tokens, accepted = accept(
            chain, draft_tokens[None, drafts], laws[None, drafts].log(), chain.num_drafts, rows[None].log()
        )
        output_tokens[chain.request, : tokens.shape[1]] = tokens[0]
        num_accepted_drafts[chain.request] = accepted


def _speculative_sampling(*arguments: Any) -> "tuple[torch.Tensor, torch.Tensor]":
    sampled: tuple[torch.Tensor, torch.Tensor] = engine().get(SPECULATIVE_SAMPLING)(*arguments)
    return sampled


TABLE = (
    Adapted(sampler_of(_one_request_at_a_time), (SPECULATIVE_SAMPLING,)),
    Adapted(chain_speculative_sampling_without_coins, (SPECULATIVE_SAMPLING,)),
)
