"""Faults in chains from raw logits that are judged as a block: in the laws of rows, and in how they are judged."""

from collections.abc import Callable
from functools import partial

from ml_dtypes import bfloat16

from specsim.properties.mutants.record import Mutant, edits_of, mutants_by_operation, with_arguments
from specsim.properties.operations.acceptance import faults_chain_blocks as blocks
from specsim.properties.operations.acceptance.faults_chain_blocks import left_by, with_share
from specsim.properties.operations.from_logits import faults_chains as chains
from specsim.reference.walks import LogitChain, block_of_logits, draw, walk_block_from_logits, walk_chain_greedily

_left_by = partial(left_by, within=walk_block_from_logits)

_KNOWN: dict[str, Mutant] = {mutant.id: mutant for mutant in blocks.MUTANTS}


def _share_goes_on() -> Callable[[LogitChain], list[int]]:
    share = 1.0

    def walk(chain: LogitChain) -> list[int]:
        nonlocal share
        if chain.temperature == 0:
            return walk_chain_greedily(chain)
        block = with_share(block_of_logits(chain), share)
        kept = block.kept_by(chain.coins)
        share, rest = block.shares[kept], block.rest_after(kept)
        return [*block.tokens[:kept], draw(rest if rest.any() else block.target[kept], chain.coins.final)]

    return walk


DIFFS = """
    @@ chain_block_verification_from_logits
    OWN-5757 The share goes on from one request to the next.
    - walk_block_from_logits => share_goes_on()
    @@ chain_block_verification_from_logits in walks.block_of_logits
    OWN-5772 Only the row after all drafts is filtered.
    - chain.target_law(place)
    + log_probabilities(chain.target_logits[place], chain.temperature, *(chain.filters if place == len(tokens) else ()))
    OWN-5758 Logarithms of shares are in bfloat16.
    - min(log_share + log_p[token] - log_q[token], 0.0)
    + float(half(min(log_share + log_p[token] - log_q[token], 0.0)))
    OWN-5754 Ratios are cut at 1, and not their product.
    - min(log_share + log_p[token] - log_q[token], 0.0) => log_share + min(log_p[token] - log_q[token], 0.0)
    OWN-5755 A front's share is its last ratio alone.
    - min(log_share + log_p[token] - log_q[token], 0.0) => min(log_p[token] - log_q[token], 0.0)
    OWN-5756 A draft that its own row forbids keeps the share.
    - min(log_share + log_p[token] - log_q[token], 0.0) if log_q[token] > -np.inf else -np.inf
    + min(log_share + log_p[token] - log_q[token], 0.0) if log_q[token] > -np.inf else log_share
    @@ chain_block_verification_from_logits in walks
    OWN-5753 The sum of logarithms is not cut at 0.
    - min(log_share + log_p[token] - log_q[token], 0.0) => log_share + log_p[token] - log_q[token]
    - rest / (rest + 1 - share) => rest / (rest + 1 - share) if rest + 1 > share else 1.0
    OWN-5764 The last token comes from the row of the last draft.
    - return self.target[kept] => return self.target[max(kept - 1, 0)]
    - zip([*chain.drafts, -1], chain.target_logits, strict=True)
    + zip([*chain.drafts, -1], [*chain.target_logits[:-1], *chain.target_logits[-2:][:1]], strict=True)
    @@ chain_block_verification_from_logits in walks.Block
    OWN-5759 What a front leaves is added up of its own row.
    - float(self.rest_after(kept).sum())
    + float(np.maximum(share * self.target[kept - 1] - self.proposal[kept - 1], 0.0).sum())
    OWN-5761 What a front leaves is its chance.
    - rest / (rest + 1 - share) => rest
    OWN-5763 The last front is judged like others.
    - kept == len(self.tokens) or share in (0.0, 1.0) => share in (0.0, 1.0)
    - float(self.rest_after(kept).sum())
    + float(np.maximum(share * self.target[kept] - [*self.proposal, *self.proposal[-1:]][kept], 0.0).sum())
    @@ chain_block_verification_from_logits in walk_block_from_logits
    OWN-5765 The coin that kept a front also draws.
    - chain.coins.final => float(chain.coins.each[kept - 1]) if kept else chain.coins.final
    OWN-5767 Where nothing is left, the last token is drawn.
    - rest if rest.any() else block.target[kept] => rest
    @@ chain_block_verification_from_logits in logit_chain
    OWN-5766 Target rows are counted like drafts.
    - arguments["target_logits"][first + request : last + request + 1] => arguments["target_logits"][first : last + 1]
    OWN-5773 Greedy requests are sampled at temperature 1.
      temperature, top_k, top_p, min_p = filters_of(arguments, request)
    + temperature = temperature or 1.0
    OWN-5776 A draft is judged by the row of the next one.
    - draft_logits[first:last] => np.roll(draft_logits, -1, axis=0)[first:last]
    @@ chain_block_verification_from_logits in LogitChain.draft_law
    OWN-5768 Draft logits are not divided by their temperature.
    - self.draft_temperature => 1.0
    OWN-5769 Draft logits are divided by the target's.
    - self.draft_temperature => self.temperature
    OWN-5770 Draft probabilities add up over common tokens.
    - self.draft_logits[place] => self.draft_logits[place][: len(log_q)]
    @@ chain_block_verification_from_logits in LogitChain.target_law
    OWN-5771 Filters come before the temperature.
    - return log_probabilities(self.target_logits[place], self.temperature, *self.filters)
    + row = self.target_logits[place]
    + is_kept = log_probabilities(row, 1.0, *self.filters) > -np.inf
    + return log_probabilities(np.where(is_kept, row, -np.inf), self.temperature)
    OWN-5774 Low temperatures are raised.
    - self.temperature => max(self.temperature, 0.1)
"""

MUTANTS = mutants_by_operation(
    edits_of(DIFFS, share_goes_on=_share_goes_on, half=bfloat16),
    chain_block_verification_from_logits=(
        ("OWN-5750", "The last token is drawn from max(p - q, 0), unshifted.", _left_by("1.0")),
        ("OWN-5751", "The first coin that fails ends the walk.", _KNOWN["OWN-4300"].inject),
        ("OWN-5752", "The first coin that keeps a front ends the walk.", _KNOWN["OWN-4301"].inject),
        ("OWN-5762", "The last token has the share of the next front.", _left_by("block.shares[kept + 1]")),
        ("OWN-5775", "Rows that no block reads must be numbers as well.", chains.NUMBERS_EVERYWHERE),
        ("OWN-5777", "The draft's rows do not arrive.", with_arguments(draft_logits=None)),
    ),
)
