"""Faults of custom logit processors."""

from specsim.properties.mutants.record import edits_of

MUTANTS = edits_of(
    """
    @@ apply_logit_processors
    OWN-128 A processor sees row b instead of the rows of request b.
    - rows = logits[request * num_draft_tokens : (request + 1) * num_draft_tokens]
    + rows = logits[request : request + 1]
    - logits[request * num_draft_tokens : (request + 1) * num_draft_tokens] = rows
    + logits[request : request + 1] = rows
    OWN-129 The first request's processor is used for all.
    - enumerate(processors) => enumerate([next(iter(processors), None)] * len(processors))
    OWN-310 A processor is called for every row.
    - processor(deepcopy(rows)) => np.concatenate([processor(row[None].copy()) for row in rows])
    OWN-451 Only the root's row is processed.
    - logits[request * num_draft_tokens : (request + 1) * num_draft_tokens] = rows
    + logits[request * num_draft_tokens] = rows[0]
    OWN-311 What processors return is dropped.
    - logits[request * num_draft_tokens : (request + 1) * num_draft_tokens] = rows
    """
)
