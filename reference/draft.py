"""Draft: choose candidates and prune them."""

from collections.abc import Sequence

import numpy as np

from specsim.conformance.arrays import Array
from specsim.counts import count_draft_nodes
from specsim.operations.outputs import (
    FastTopkOutputs,
    OrganizeChainDraftResultsOutputs,
    OrganizeDraftResultsOutputs,
    SelectTopKTokensOutputs,
)
from specsim.validation.checking import check_call


def fast_topk(values: Array, k: int) -> FastTopkOutputs[Array]:
    """Pick the k largest entries of each row, ties by lower index.

    Parameters
    ----------
    values : float32 [row, column]
        Scores.
    k : int
        How many to pick, at most ``column``.

    Returns
    -------
    topk_values : float32 [row, k]
        In non-increasing order.
    topk_index : int64 [row, k]
        Their columns.

    Raises
    ------
    SpecRejection
        NAN_SCORE; SCALAR_OUT_OF_RANGE: k exceeds the row.

    Notes
    -----
    Source: semantics A.2.
    """
    axes = check_call("fast_topk", locals())
    k = axes["k"]
    topk_values = np.zeros((axes["row"], k), dtype=np.float32)
    topk_index = np.zeros((axes["row"], k), dtype=np.int64)
    for row in range(axes["row"]):
        topk_index[row] = best_first(values[row])[:k]
        topk_values[row] = values[row, topk_index[row]]
    return FastTopkOutputs(topk_values, topk_index)


def best_first(scores: Array) -> Array:
    """Return the places of all scores, the largest first and equal ones by place, as a stable sort leaves them."""
    order: Array = (-scores).argsort(kind="stable")
    return order


def select_top_k_tokens(
    step_index: int, topk_p: Array, topk_index: Array, hidden_states: Array | None, scores: Array | None, topk: int
) -> SelectTopKTokensOutputs[Array]:
    """Choose the beams of the next depth by cumulative score and emit the tree blocks of this depth.

    Parameters
    ----------
    step_index : int
        The draft step; at step 0 the rows are requests, later they are beams.
    topk_p : float32 [request*branch, topk]
        Probabilities of the candidates of each row; ``branch`` is 1 at step 0 and ``topk`` later.
    topk_index : int64 [request*branch, topk]
        Their token ids.
    hidden_states : any [request*branch, hidden] or None
        Hidden state of each row.
    scores : float32 [request, topk] or None
        Cumulative scores of the beams; None at step 0.
    topk : int
        Beams a request.

    Returns
    -------
    input_ids : int64 [request*topk]
        Tokens of the chosen beams.
    next_hidden_states : like hidden_states [request*topk, hidden]
        Hidden state of each chosen beam's parent row.
    next_scores : float32 [request, topk]
        Cumulative scores of the chosen beams.
    score_block : float32 [request, branch, topk]
        Cumulative scores of all candidates.
    token_block : int64 [request, branch*topk]
        Their tokens.
    parent_block : int64 [request, topk] ([request, topk+1] at step 0)
        Flat candidate id of each chosen beam; at step 0 preceded by -1.

    Raises
    ------
    SpecRejection
        MISSING_ARGUMENT: no scores at a later step; NAN_SCORE.

    Notes
    -----
    Source: semantics A.3. A score is one float32 product a depth, so that every layer rounds alike.
    """
    axes = check_call("select_top_k_tokens", locals())
    step_index, topk = axes["step_index"], axes["topk"]
    num_requests, branch = axes["request"], axes["branch"]
    input_ids = np.zeros(num_requests * topk, dtype=np.int64)
    next_hidden_states = None
    if hidden_states is not None:
        next_hidden_states = np.zeros((num_requests * topk, *hidden_states.shape[1:]), dtype=hidden_states.dtype)
    next_scores = np.zeros((num_requests, topk), dtype=np.float32)
    score_block = np.zeros((num_requests, branch, topk), dtype=np.float32)
    token_block = topk_index.reshape(num_requests, branch * topk).copy()
    parent_block = np.full((num_requests, topk + (step_index == 0)), -1, dtype=np.int64)

    for request in range(num_requests):
        for beam in range(branch):
            probabilities = topk_p[request * branch + beam]
            if step_index > 0 and scores is not None:
                probabilities = scores[request, beam] * probabilities
            score_block[request, beam] = probabilities
    best_scores, best = topk_p, np.tile(np.arange(topk), (num_requests, 1))
    if step_index > 0:
        best_scores, best = fast_topk(score_block.reshape(num_requests, branch * topk), topk)
    for request in range(num_requests):
        next_scores[request], chosen = best_scores[request], best[request].tolist()
        if step_index == 0:
            parent_block[request, 1:] = chosen
        else:
            first_id = topk + topk * topk * (step_index - 1)
            parent_block[request] = [first_id + candidate for candidate in chosen]
        for place, candidate in enumerate(chosen):
            input_ids[request * topk + place] = token_block[request, candidate]
            if hidden_states is not None and next_hidden_states is not None:
                parent_row = request * branch + candidate // topk
                next_hidden_states[request * topk + place] = hidden_states[parent_row]
    return SelectTopKTokensOutputs(input_ids, next_hidden_states, next_scores, score_block, token_block, parent_block)


def organize_draft_results(
    score_list: Sequence[Array], token_list: Sequence[Array], parents_list: Sequence[Array], num_draft_tokens: int
) -> OrganizeDraftResultsOutputs[Array]:
    """Keep the N-1 best candidates of all depths, in flat-id order, with the parents' flat ids.

    Parameters
    ----------
    score_list : list of float32 [request, branch, topk]
        Cumulative scores, one block a step.
    token_list : list of int64 [request, branch*topk]
        Tokens, one block a step.
    parents_list : list of int64 [request, topk]
        Flat ids of the beams, one block a step; the first has a leading -1.
    num_draft_tokens : int
        Nodes of the tree, root included.

    Returns
    -------
    parent_list : int64 [request, topk*(step-1)+1]
        Flat id of beam t of step s in column ``1 + s*topk + t``; empty rows for a single step.
    top_scores_index : int64 [request, node-1]
        Flat ids of the kept candidates, ascending.
    draft_tokens : int64 [request, node-1]
        Their tokens.

    Raises
    ------
    SpecRejection
        SCALAR_OUT_OF_RANGE: more nodes than candidates; NAN_SCORE.

    Notes
    -----
    Source: semantics A.5.
    """
    axes = check_call("organize_draft_results", locals())
    num_draft_tokens = axes["num_draft_tokens"]
    num_requests = axes["request"]
    parent_list = np.zeros((num_requests, 0), dtype=np.int64)
    if len(parents_list) > 1:
        parent_list = np.concatenate(parents_list[:-1], axis=1)
    num_kept = count_draft_nodes(num_draft_tokens)
    top_scores_index = np.zeros((num_requests, num_kept), dtype=np.int64)
    draft_tokens = np.zeros((num_requests, num_kept), dtype=np.int64)
    for request in range(num_requests):
        scores = np.concatenate([block[request].reshape(-1) for block in score_list])
        tokens = np.concatenate([block[request] for block in token_list])
        top_scores_index[request] = np.sort(best_first(scores)[:num_kept])
        draft_tokens[request] = tokens[top_scores_index[request]]
    return OrganizeDraftResultsOutputs(parent_list, top_scores_index, draft_tokens)


def organize_chain_draft_results(token_list: Sequence[Array]) -> OrganizeChainDraftResultsOutputs[Array]:
    """Organise the drafts of a chain, where nothing is pruned.

    Parameters
    ----------
    token_list : list of int64 [request, 1]
        One token a step.

    Returns
    -------
    parent_list : int64 [request, step]
        -1, 0, 1, … ; empty rows for a single step.
    top_scores_index : int64 [request, step]
        0, 1, 2, …
    draft_tokens : int64 [request, step]
        The tokens in order.

    Notes
    -----
    Source: semantics A.6.
    """
    axes = check_call("organize_chain_draft_results", locals())
    num_requests, num_steps = axes["request"], axes["step"]
    parent_list = np.zeros((num_requests, num_steps if num_steps > 1 else 0), dtype=np.int64)
    top_scores_index = np.zeros((num_requests, num_steps), dtype=np.int64)
    draft_tokens = np.zeros((num_requests, num_steps), dtype=np.int64)
    for request in range(num_requests):
        for step in range(num_steps):
            top_scores_index[request, step] = step
            draft_tokens[request, step] = token_list[step][request, 0]
            if num_steps > 1:
                parent_list[request, step] = step - 1
    return OrganizeChainDraftResultsOutputs(parent_list, top_scores_index, draft_tokens)


def map_hot_tokens(topk_index: Array, hot_token_id: Array) -> Array:
    """Map draft-vocabulary ids to target-vocabulary ids.

    Parameters
    ----------
    topk_index : int64 [row, column]
        Draft ids.
    hot_token_id : int64 [draft_vocab]
        Target id (not an offset) of each draft id.

    Returns
    -------
    token_index : int64 [row, column]
        Target ids.

    Raises
    ------
    SpecRejection
        TOKEN_OUT_OF_RANGE: an id outside the draft vocabulary.

    Notes
    -----
    Source: semantics A.12.
    """
    axes = check_call("map_hot_tokens", locals())
    token_index = np.zeros_like(topk_index)
    for row in range(axes["row"]):
        for column in range(axes["column"]):
            token_index[row, column] = hot_token_id[topk_index[row, column]]
    return token_index
