"""Assisted generation: drafts of an assistant model, accepted by the ratio of two probabilities."""

from specsim.counts import count_tokens
from specsim.engines.adapter import Adapted
from specsim.engines.chains import Chains, Outputs, draw, sampler_of
from specsim.engines.transformers.release import drawing_with, engine, in_release

SPECULATIVE_SAMPLING = in_release("_speculative_sampling")


def _one_request_at_a_time(chains: Chains, out: Outputs) -> None:
    """Call transformers with one request, as it does, and with the logarithms of the probabilities.

    A request without drafts is never handed to the function of transformers, nor to it here: its token is drawn from
    the target's row.
    """
    output_tokens, num_accepted_drafts = out
    laws = chains.laws()
    for chain in chains.requests():
        drafts = slice(chain.first, chain.first + chain.num_drafts)
        rows = chains.target_probs[chain.first_target_row :][: count_tokens(chain.num_drafts)]
        final_coin = chains.uniform_samples_for_final_sampling[chain.request]
        if chain.num_drafts == 0:
            output_tokens[chain.request, 0] = draw(rows, final_coin[None])[0]
            continue
        with drawing_with(chains.uniform_samples[drafts], float(final_coin)):
            tokens, accepted = engine().get(SPECULATIVE_SAMPLING)(
                chains.draft_tokens[None, drafts], laws[None, drafts].log(), chain.num_drafts, rows[None].log()
            )
        output_tokens[chain.request, : tokens.shape[1]] = tokens[0]
        num_accepted_drafts[chain.request] = accepted


TABLE = (Adapted(sampler_of(_one_request_at_a_time), (SPECULATIVE_SAMPLING,)),)
