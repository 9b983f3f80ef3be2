"""Faults of drawn drafts: rows that no draft was drawn from, and drafts that are drawn from no row that is recorded."""

from specsim.properties.mutants.record import Mutant, edits_of


def _of_walks(name: str, first: int, logits: str, columns: str) -> tuple[Mutant, ...]:
    """Return the faults that any walk in a buffer can have."""
    return edits_of(
        f"""
        @@ {name}
        OWN-{first} Rows are recorded as divided by their temperature.
        - recorded_logits[request_rows] = walked
        + recorded_logits[request_rows] = walked / np.where(temperatures > 0, temperatures, 1)[:, None, None]
        OWN-{first + 1} Rows are recorded as cut to their two largest logits.
        - recorded_logits[request_rows] = walked
        + recorded_logits[request_rows] = np.where(walked < np.sort(walked, axis=2)[:, :, [-2]], NO_LOGIT, walked)
        OWN-{first + 2} Columns of the walk before are left in the buffer.
        - recorded_logits[request_rows] = walked
        + recorded_logits[request_rows] = np.where(np.isinf(walked), recorded_logits[request_rows], walked)
        OWN-{first + 3} Rows are recorded by the request's place in the batch.
        - recorded_logits[request_rows] => recorded_logits[:num_requests]
        OWN-{first + 4} Drafts are drawn without their temperature.
        - float(temperatures[request]) => float(temperatures[request] > 0)
        OWN-{first + 5} The temperature is applied twice.
        - float(temperatures[request]) => float(temperatures[request] ** 2)
        OWN-{first + 6} Requests at temperature 0 are drawn at 1.
        - float(temperatures[request]) => float(temperatures[request] or 1)
        OWN-{first + 7} Of each draft the row of the one before it is recorded.
        - recorded_logits[request_rows] = walked => recorded_logits[request_rows] = np.roll(walked, 1, axis=1)
        OWN-{first + 8} Rows are recorded by column, not by token.
        - walked[request, place, {columns}] => walked[request, place, : len(row)]
        OWN-{first + 9} A request is drawn on the noise of another.
        - arrivals[request, place] => arrivals[request - 1, place]
        OWN-{first + 10} All drafts of a request are drawn on one noise.
        - arrivals[request, place] => arrivals[request, 0]
        OWN-{first + 11} A walk clears the rows of all requests.
        - recorded_logits[request_rows] = walked
        + recorded_logits[...] = NO_LOGIT
        + recorded_logits[request_rows] = walked
        OWN-{first + 12} A logit of NaN counts as 0.
          vocab_size = recorded_logits.shape[2]
        + {logits} = np.nan_to_num({logits})
        OWN-{first + 13} A temperature below 0 counts as 0.
          vocab_size = recorded_logits.shape[2]
        + temperatures = np.maximum(temperatures, 0)
        OWN-{first + 14} A row past the buffer counts as the last one.
          vocab_size = recorded_logits.shape[2]
        + request_rows = np.minimum(request_rows, len(recorded_logits) - 1)
        """
    )


MUTANTS = (
    *_of_walks("walk_markov_drafts", 4850, "base_logits", "ids"),
    *_of_walks("walk_selector_drafts", 4872, "scores", "candidates[request, place]"),
    *edits_of(
        """
        @@ walk_markov_drafts
        OWN-4865 The row of the parallel forward is recorded, without what the draft before adds.
        - walked[request, place, ids] = row => walked[request, place, ids] = base
        OWN-4866 Rows are recorded before they are rounded.
        - walked[request, place, ids] = row
        + walked[request, place, ids] = np.where(np.isinf(row), row, base.astype(np.float32) + bias[token])
        OWN-4869 Drafts are returned by column, not by token.
        - draft_tokens[request, place] = token => draft_tokens[request, place] = column
        OWN-4870 All columns are drawn from, and candidates recorded.
        - _drawn(row, float(temperatures[request]), arrivals[request, place].tolist())
        + _drawn(whole, float(temperatures[request]), arrivals[request, place].tolist())
        - row = [logit if column in kept else NO_LOGIT for column, logit in enumerate(row)]
        + whole, row = row, [logit if column in kept else NO_LOGIT for column, logit in enumerate(row)]
        OWN-4871 Every draft is recorded as if it stood after the root.
        - walked[request, place, ids] = row
        + row = _rounded(base.astype(np.float32) + bias[roots[request]], base_logits.dtype)
        + walked[request, place, ids] = [logit if column in kept else NO_LOGIT for column, logit in enumerate(row)]
        @@ walk_markov_drafts in _weights
        OWN-4867 Temperatures are raised to the least one on one side only.
        - LEAST_DRAFT_TEMPERATURE => LEAST_TEMPERATURE
        OWN-4868 A higher least temperature is drawn with.
        - LEAST_DRAFT_TEMPERATURE => 1e-3
        @@ walk_selector_drafts
        OWN-4887 Scores are recorded as of the first candidate.
        - walked[request, place, candidates[request, place]] = row
        + walked[request, place, candidates[request, place]] = scores[request, place, 0]
        OWN-4888 Drafts are returned by candidate, not by token.
        - candidates[request, place, drawn] => drawn
        @@ sample_draft_chains
        OWN-4889 Of each draft the law of the one before it is handed over.
        - SampledChains(draft_tokens, draft_probs) => SampledChains(draft_tokens, np.roll(draft_probs, 1, axis=1))
        OWN-4890 Laws are handed over without their temperature.
        - draft_probs[request, place, ids] = np.array(weights) / sum(weights)
        + weights = [one if one >= float(min_p[request]) else 0.0 for one in _weights(row, float(temperature > 0))]
        + draft_probs[request, place, ids] = np.array(weights) / sum(weights)
        OWN-4891 Laws are handed over with their temperature twice.
        - draft_probs[request, place, ids] = np.array(weights) / sum(weights)
        + weights = [one if one >= float(min_p[request]) else 0.0 for one in _weights(row, temperature**2)]
        + draft_probs[request, place, ids] = np.array(weights) / sum(weights)
        OWN-4892 Drafts are handed over by column, not by token.
        - SampledChains(draft_tokens, draft_probs)
        + SampledChains((draft_tokens[:, :, None] == np.array(ids)).argmax(axis=2), draft_probs)
        OWN-4893 Laws are handed over by column, not by token.
        - draft_probs[request, place, ids] => draft_probs[request, place, : len(ids)]
        OWN-4894 The draft model is given columns in the place of tokens.
        - draft_tokens[:, :place].copy() => (draft_tokens[:, :place, None] == np.array(ids)).argmax(axis=2)
        OWN-4895 Drafts are drawn after filters, laws handed over before them.
        - draft_probs[request, place, ids] = np.array(weights) / sum(weights)
        + weights = _weights(logits, temperature)
        + draft_probs[request, place, ids] = np.array(weights) / sum(weights)
        OWN-4896 Drafts are drawn before filters, laws handed over after them.
        - column = _first_to_arrive(weights, arrivals[request, place].tolist())
        + column = _first_to_arrive(_weights(logits, temperature), arrivals[request, place].tolist())
        OWN-4897 What filters keep is not divided by its sum.
        - sum(weights) => sum(_weights(logits, temperature))
        OWN-4898 Laws are handed over in bfloat16.
        - SampledChains(draft_tokens, draft_probs) => SampledChains(draft_tokens, draft_probs.astype("bfloat16"))
        OWN-4899 The drawn token is handed over as certain.
        - SampledChains(draft_tokens, draft_probs)
        + SampledChains(draft_tokens, np.eye(vocab_size, dtype=np.float32)[draft_tokens])
        OWN-4820 Requests at temperature 0 are drawn at 1.
        - column = _first_to_arrive(weights, arrivals[request, place].tolist())
        + warm = [one if one >= float(min_p[request]) else 0.0 for one in _weights(row, temperature or 1.0)]
        + column = _first_to_arrive(warm, arrivals[request, place].tolist())
        OWN-4823 At temperature 0 the law of temperature 1 is handed over.
        - draft_probs[request, place, ids] = np.array(weights) / sum(weights)
        + weights = [one if one >= float(min_p[request]) else 0.0 for one in _weights(row, temperature or 1.0)]
        + draft_probs[request, place, ids] = np.array(weights) / sum(weights)
        OWN-4821 A request is drawn on the noise of another.
        - arrivals[request, place] => arrivals[request - 1, place]
        OWN-4822 All drafts of a request are drawn on one noise.
        - arrivals[request, place] => arrivals[request, 0]
        """
    ),
)
