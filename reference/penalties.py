"""Penalties: logits of tokens that a text holds already, in float32."""

import numpy as np

from specsim.conformance.arrays import Array
from specsim.validation.checking import check_call


def apply_penalties(
    logits: Array,
    token_counts: Array,
    draft_token: Array,
    tree_mask: Array,
    frequency_penalty: Array,
    presence_penalty: Array,
    repetition_penalty: Array,
    num_draft_tokens: int,
    exact: bool = True,
) -> Array:
    """Penalise the tokens that a request has output, and in exact mode those on the path to each node too.

    Parameters
    ----------
    logits : float32 or bfloat16 [request*node, vocab]
        Row ``b*N+i`` belongs to node i of request b.
    token_counts : int32 [request, vocab]
        How often each token counts for the request, its root included.
    draft_token : int64 [request*node]
        Token of each node, the root first.
    tree_mask : bool [request*node*node]
        Which nodes each node sees, one square a request.
    frequency_penalty, presence_penalty : float32 [request]
        Taken away for every occurrence of a token, and once if it occurs at all.
    repetition_penalty : float32 [request]
        Positive logits of tokens that occur are divided by it, the others multiplied.
    num_draft_tokens : int
        Nodes of a request.
    exact : bool
        Whether the drafts that a node sees, itself included, occur as well; otherwise all nodes are treated alike.

    Returns
    -------
    penalised_logits : float32 [request*node, vocab]
        Every step rounds once to float32.

    Raises
    ------
    SpecRejection
        INFINITE_LOGIT: a logit is +inf, or a penalty out of range; COUNT_OUT_OF_RANGE, TOKEN_OUT_OF_RANGE, NAN_SCORE.

    Notes
    -----
    Source: semantics B.4. Exact penalties of a node are those of its path once that is committed.
    """
    axes = check_call("apply_penalties", locals())
    num_nodes = axes["num_draft_tokens"]
    masks = tree_mask.reshape(-1, num_nodes, num_nodes)
    penalised_logits = np.zeros(logits.shape, dtype=np.float32)
    for request in range(axes["request"]):
        for node in range(num_nodes):
            row, counts = request * num_nodes + node, token_counts[request].copy()
            for draft in range(1, num_nodes):
                if axes["exact"] and masks[request, node, draft]:
                    counts[draft_token[request * num_nodes + draft]] += 1
            values = logits[row].astype(np.float32)
            values = values - frequency_penalty[request] * counts.astype(np.float32)
            values = np.where(counts > 0, values - presence_penalty[request], values)
            scale = repetition_penalty[request]
            scaled = np.where(values > 0, values / scale, values * scale)
            penalised_logits[row] = np.where(counts > 0, scaled, values)
    return penalised_logits
