"""Faults in the preparation of logits, and in the filters of rows."""

from specsim.properties.mutants.record import edits_of

DIFFS = """
    @@ top_k_renorm
    OWN-228 One token too many is kept.
    - int(top_k[row]) => min(int(top_k[row]), 2**30) + 1
    OWN-230 Every row has the count of the first.
    - int(top_k[row]) => int(top_k[0])
    @@ prepare_logits
    OWN-356 Rows of requests without penalty are left out.
      num_draft_tokens = axes["num_draft_tokens"]
    + if additive_penalty is not None:
    +     additive_penalty = additive_penalty[np.argsort((additive_penalty == 0).all(axis=1), kind="stable")]
    OWN-246 Without a mask only a word of tokens is allowed.
    - return prepared_logits
    + prepared_logits[:, 32 if vocab_mask is None else axes["vocab"] :] = -np.inf
    + return prepared_logits
    OWN-220 A row belongs to the request of its place in the batch.
    - row // num_draft_tokens => row % axes["request"]
    OWN-221 Forbidden tokens get a finite logit.
    - np.float32("-inf") => np.float32(-1e4)
    OWN-222 The bias comes before the scaling penalty.
    - if scaling_penalty is not None:
    -     scale = scaling_penalty[request]
    -     values = np.where(values > 0, values / scale, values * scale)
    - if logit_bias is not None:
    -     values = values + logit_bias[request]
    + if logit_bias is not None:
    +     values = values + logit_bias[request]
    + if scaling_penalty is not None:
    +     scale = scaling_penalty[request]
    +     values = np.where(values > 0, values / scale, values * scale)
    OWN-223 The scaling penalty comes before the additive one.
    - if additive_penalty is not None:
    -     values = values + additive_penalty[request]
    - if scaling_penalty is not None:
    -     scale = scaling_penalty[request]
    -     values = np.where(values > 0, values / scale, values * scale)
    + if scaling_penalty is not None:
    +     scale = scaling_penalty[request]
    +     values = np.where(values > 0, values / scale, values * scale)
    + if additive_penalty is not None:
    +     values = values + additive_penalty[request]
    OWN-224 Negative logits are divided too.
    - np.where(values > 0, values / scale, values * scale) => values / scale
    OWN-225 Bits of a word are counted from the other end.
    - token % BITS_PER_WORD => token % BITS_PER_WORD ^ 7
    OWN-226 Every node has the root's mask.
    - vocab_mask[row, token // BITS_PER_WORD] => vocab_mask[row - row % num_draft_tokens, token // 32]
    @@ top_k_renorm in keep_top_k
    OWN-227 Ties at the threshold are cut.
    - weights >= threshold => np.argsort(np.argsort(-weights, kind="stable")) < top_k
    OWN-229 What is kept is not divided by its sum.
    - rounded(weights, weights.sum()) => rounded(weights, 1.0)
    OWN-247 Only tokens above the k-th largest are kept.
    - weights >= threshold => (weights > threshold) | (weights == weights.max())
    OWN-249 Impossible tokens do not count as dropped.
    - top_k - 1 => max(np.count_nonzero(weights) - (len(weights) - top_k), 1) - 1
    @@ top_k_renorm
    OWN-248 A count beyond the vocabulary wraps.
    - int(top_k[row]) => (int(top_k[row]) - 1) % probabilities.shape[1] + 1
    @@ top_p_renorm in has_share
    OWN-231 A mass that reaches the share is not enough.
    - mass >= share * total => mass > share * total
    @@ top_p_renorm in keep_top_p
    OWN-232 The share is of 1, not of the row's mass.
    - weights.sum(), 0.0 => 1.0, 0.0
    OWN-233 Ties at the threshold are cut.
    - weights = np.where(weights >= threshold, weights, 0.0)
    + order = np.argsort(-weights, kind="stable")
    + before = np.cumsum(weights[order]) - weights[order]
    + weights[order[before >= top_p * total]] = 0.0
    @@ min_p_renorm in keep_min_p
    OWN-234 The share is of 1, not of the largest entry.
    - min_p * weights.max() => min(min_p, weights.max())
    OWN-235 A token exactly at the threshold is dropped.
    - reaches(weights, threshold) => (weights > threshold) | (weights == weights.max())
"""

MUTANTS = edits_of(DIFFS)
