"""Faults in chains from raw logits."""

from dataclasses import replace

import numpy as np

from specsim.properties.mutants.record import Named, edits_of, given, mutants_by_operation, with_arguments
from specsim.properties.operations.from_logits.faults_rounding import in_logarithms


def _numbers_everywhere(arguments: Named) -> None:
    for name in ("target_logits", "draft_logits"):
        if arguments[name] is not None and np.isnan(arguments[name].astype(np.float32)).any():
            raise ValueError("a logit is NaN")


NUMBERS_EVERYWHERE = given(_numbers_everywhere)


DIFFS = """
    @@ chain_speculative_sampling_from_logits in walk_chain_from_logits
    OWN-3203 The rest of a certain draft is that of its row.
    - rest_of(log_p, log_q)
    + rest_of(log_p, log_q if chain.draft_is_drawn else warm(chain, draft_temperature=1.0).draft_law(place))
    OWN-3202 A sentinel subtracts the draft's row.
    - takewhile(lambda token: token >= 0, chain.drafts) => chain.drafts
    - log_q[token] > -np.inf => token >= 0 and log_q[token] > -np.inf
    OWN-3204 The rest of a certain draft has it in.
    - rest_of(log_p, log_q) => rest_of(log_p, log_q if chain.draft_is_drawn else np.full_like(log_q, -np.inf))
    OWN-3207 Only the last row is filtered.
    - chain.target_law(place) => log_probabilities(chain.target_logits[place], chain.temperature)
    OWN-3208 A rejection draws from the unfiltered row.
    - rest_of(log_p, log_q) => rest_of(log_probabilities(chain.target_logits[place], chain.temperature), log_q)
    OWN-3209 Weights of the target are not normalised in a rest.
    - rest_of(log_p, log_q) => rest_of(log_p - log_p.max(), log_q)
    OWN-3217 A draft below a millionth counts as impossible.
    - log_q[token] > -np.inf => log_q[token] > -np.inf and log_p[token] > np.log(1e-6)
    OWN-3223 A draft that rounding rejects leaves the first token.
    - log_p[token] > log_of(chain.coins.each[place]) + log_q[token]
    + np.float32(log_p[token]) > np.float32(log_of(chain.coins.each[place])) + np.float32(log_q[token])
    - rest_of(log_p, log_q)
    + (rest_of(log_p, log_q)
    +  if (np.exp(log_p) > np.exp(log_q)).any() or log_q[token] == -np.inf else certain(0, len(log_p)))
    OWN-3222 A draft that its row cannot choose is never drawn.
    - rest_of(log_p, log_q) => rest_of(log_p, np.where(np.arange(len(log_q)) == token, 0.0, log_q))
    @@ chain_speculative_sampling_from_logits in walks.rest_of
    OWN-5633 What is left comes from logarithms, of zeros too.
    - np.maximum(np.exp(log_p) - np.exp(log_q), 0.0) => left(np.exp(log_p), np.exp(log_q))
    OWN-3216 Where nothing is left, the last token is drawn.
    - rest if rest.any() else np.exp(log_p) => rest if rest.any() else certain(-1, len(rest))
    @@ chain_speculative_sampling_from_logits in walks.walk_chain_greedily
    OWN-3211 A greedy draft with an equal logit is accepted.
      best = int(np.argmax(row.astype(np.float32)))
    + best = token if token >= 0 and row[token] == row[best] else best
    OWN-3212 A greedy rejection draws by chance.
    - tokens.append(best)
    + is_kept = token == best or len(tokens) == len(chain.drafts)
    + weights = np.exp(row.astype(np.float64) - float(row.max()))
    + tokens.append(best if is_kept else draw(weights, chain.coins.final))
    @@ chain_speculative_sampling_from_logits in walks
    OWN-3215 The last token comes from the row of the last draft.
    - chain.target_law(len(tokens)) => chain.target_law(max(len(tokens) - 1, 0))
    - zip([*chain.drafts, -1], chain.target_logits, strict=True)
    + zip([*chain.drafts, -1], [*chain.target_logits[:-1], *chain.target_logits[-2:][:1]], strict=True)
    @@ chain_speculative_sampling_from_logits in LogitChain.draft_law
    OWN-3200 Draft logits are not divided by their temperature.
    - self.draft_temperature => 1.0
    OWN-3201 Draft logits are divided by the target's.
    - self.draft_temperature => self.temperature
    OWN-3205 Draft probabilities add up over common tokens.
    - self.draft_logits[place] => self.draft_logits[place][: len(log_q)]
    OWN-3218 Tokens beyond the draft's row are never drawn.
    - log_q[: len(law)] = law => log_q[: len(law)], log_q[len(law) :] = law, np.inf
    @@ chain_speculative_sampling_from_logits in LogitChain.target_law
    OWN-3206 Filters come before the temperature.
    - return log_probabilities(self.target_logits[place], self.temperature, *self.filters)
    + row = self.target_logits[place]
    + is_kept = log_probabilities(row, 1.0, *self.filters) > -np.inf
    + return log_probabilities(np.where(is_kept, row, -np.inf), self.temperature)
    OWN-3213 Low temperatures are raised.
    - self.temperature => max(self.temperature, 0.1)
    @@ chain_speculative_sampling_from_logits in logit_chain
    OWN-3210 Greedy requests are sampled at temperature 1.
      temperature, top_k, top_p, min_p = filters_of(arguments, request)
    + temperature = temperature or 1.0
    OWN-3214 Target rows are counted like drafts.
    - arguments["target_logits"][first + request : last + request + 1] => arguments["target_logits"][first : last + 1]
    OWN-3220 A draft is judged by the row of the next one.
    - draft_logits[first:last] => np.roll(draft_logits, -1, axis=0)[first:last]
"""

MUTANTS = mutants_by_operation(
    edits_of(DIFFS, warm=replace, left=in_logarithms),
    chain_speculative_sampling_from_logits=(
        ("OWN-3219", "Rows that no walk reads must be numbers as well.", NUMBERS_EVERYWHERE),
        ("OWN-3221", "The draft's rows do not arrive.", with_arguments(draft_logits=None)),
    ),
)
