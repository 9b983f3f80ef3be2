"""Faults in the sampler of ragged chains."""

from specsim.properties.mutants.record import Named, edits_of, given, mutants_by_operation, with_arguments


def every_row_has_mass(arguments: Named) -> None:
    """Raise ValueError where a row of the target has no mass."""
    if not (arguments["target_probs"].sum(axis=1) > 0).all():
        raise ValueError("a row has no mass")


DIFFS = """
    @@ chain_speculative_sampling in _walk_chains
    D13 Only drafts of the full length count as drawn.
    - draft_probs is None => draft_probs is None or last - first < max_num_drafts
    V21 The first start is read before the offsets.
    - cu_num_drafts[request] => cu_num_drafts[request or 1]
    OWN-273 Target rows are counted like drafts.
    - arguments["target_probs"][first + request : last + request + 1] => arguments["target_probs"][first : last + 1]
    OWN-274 Last coins are counted without empty requests.
    - arguments["uniform_samples_for_final_sampling"][request]
    + arguments["uniform_samples_for_final_sampling"][np.count_nonzero(np.diff(cu_num_drafts[: request + 1]))]
    @@ chain_speculative_sampling in walk_chain
    V05 Of the draft's law only the rejected entry is taken away.
    - target - proposal => target - proposal * certain(token, len(target))
    V06 Every draft is accepted.
    - proposal[token] > 0 and decide.is_below(float(coins.each[place]) * proposal[token], target[token]) => True
    V08 The draft's law is that before its filters.
    - draft_probs[place].astype(np.float64) => 0.75 * draft_probs[place].astype(np.float64)
    V10 A sentinel is used as a token.
    - takewhile(lambda token: token >= 0, drafts) => drafts
    V11 The coin that rejected also draws.
    - decide.draw(np.maximum(target - proposal, 0.0), coins.final)
    + decide.draw(np.maximum(target - proposal, 0.0), float(coins.each[place]))
    V29 A draft is accepted if a draw from the target matches.
    - proposal[token] > 0 and decide.is_below(float(coins.each[place]) * proposal[token], target[token])
    + draw(target, float(coins.each[place])) == token
    OWN-270 A coin at the ratio accepts.
    - proposal[token] > 0 and decide.is_below(float(coins.each[place]) * proposal[token], target[token])
    + float(coins.each[place]) * proposal[token] <= target[token]
    OWN-271 The token after a full chain is never its last draft.
    - target_probs[len(tokens)].astype(np.float64)
    + target_probs[len(tokens)].astype(np.float64) * ~np.isin(np.arange(target_probs.shape[1]), tokens[-1:])
    OWN-272 A rejection draws from the target.
    - np.maximum(target - proposal, 0.0) => target
    OWN-286 Where a rejection leaves nothing, no token is drawn.
    - decide.draw(np.maximum(target - proposal, 0.0), coins.final)
    + decide.draw(np.maximum(target - proposal, 0.0), coins.final) if np.maximum(target - proposal, 0.0).any() else -1
    OWN-276 The final coin tests the drafts too.
    - float(coins.each[place]) => coins.final
"""

MUTANTS = mutants_by_operation(
    edits_of(DIFFS),
    chain_speculative_sampling=(
        ("OWN-396", "Rows that no one reads must have mass as well.", given(every_row_has_mass)),
        ("V13", "The draft's law does not arrive.", with_arguments(draft_probs=None)),
    ),
)
