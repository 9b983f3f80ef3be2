"""Faults in the target's distributions: temperature and filters."""

from specsim.properties.mutants.record import edits_of

DIFFS = """
    @@ target_probabilities
    OWN-243 Every request has the filters of the first.
    - int(top_k[request]) => int(top_k[0])
    - float(top_p[request]) => float(top_p[0])
    - float(min_p[request]) => float(min_p[0])
    R10 Rows of drafts get default sampling parameters.
    - target_probs[row] = distribution(logits[row], *filters)
    + if row % num_draft_tokens < num_draft_tokens - 1:
    +     filters = (1.0, 2**30, 1.0, 0.0)
    + target_probs[row] = distribution(logits[row], *filters)
    R11 A filtered row becomes its most probable token.
    - distribution(logits[row], *filters) => np.arange(logits.shape[1]) == distribution(logits[row], *filters).argmax()
    OWN-236 A row has the parameters of its place in the batch.
    - row // num_draft_tokens => row % axes["request"]
    OWN-245 Forbidden tokens keep a little mass.
    - distribution(logits[row], *filters)
    + np.where(np.isneginf(logits[row].astype(np.float32)), 1e-9, distribution(logits[row], *filters))
    @@ target_probabilities in filtered
    OWN-237 Top-p comes before top-k.
    - by_k = keep_top_k(softened, top_k)
    - by_p = keep_top_p(by_k, top_p, is_enough)
    + by_k = keep_top_p(softened, top_p, is_enough)
    + by_p = keep_top_k(by_k, top_k)
    OWN-238 Min-p comes first.
    - keep_min_p(by_p, min_p, reaches) => by_p
    - by_k = keep_top_k(softened, top_k)
    + softened = keep_min_p(softened, min_p, reaches)
    + by_k = keep_top_k(softened, top_k)
    @@ target_probabilities in distribution
    OWN-239 Temperature comes after the filters.
    - return filtered(softmax(logits.astype(np.float64) / temperature), top_k, top_p, min_p)[-1]
    + row = filtered(softmax(logits.astype(np.float64)), top_k, top_p, min_p)[-1].astype(np.float64)
    + weights = (row / row.max()) ** (1 / temperature)
    + return rounded(weights, weights.sum())
    OWN-240 At temperature 0 the last of equal logits is taken.
    - np.argmax(logits.astype(np.float32)) => len(logits) - 1 - np.argmax(logits[::-1].astype(np.float32))
    OWN-241 At temperature 0 equal logits share.
    - np.asarray(np.arange(len(logits)) == np.argmax(logits.astype(np.float32))).astype(np.float32)
    + rounded(logits == logits.max(), (logits == logits.max()).sum())
    OWN-244 Exponents overflow before they are divided.
    - return filtered(softmax(logits.astype(np.float64) / temperature), top_k, top_p, min_p)[-1]
    + with np.errstate(all="ignore"):
    +     total = np.exp(logits.astype(np.float32) / np.float32(max(temperature, 2.0**-20))).sum()
    + row = filtered(softmax(logits.astype(np.float64) / temperature), top_k, top_p, min_p)[-1]
    + return row if np.isfinite(total) and total > 0 else np.zeros_like(row)
    OWN-242 Logits are multiplied by the temperature.
    - logits.astype(np.float64) / temperature => logits.astype(np.float64) * temperature
"""

MUTANTS = edits_of(DIFFS)
