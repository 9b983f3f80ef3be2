"""Ties, where an implementation declares that it breaks them as it likes (``TIES = "any"``).

What differs from the reference then may be as right as it is: a chosen set is compared by what it has to hold whichever
of several equal values is kept, parents before children included. Where a tie decides about a whole walk, or about the
mass that a second filter sees, nothing is compared.

A unit is a row or a request: an entry of the first axis, or of the first axis in blocks, of every output.
"""

from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from specsim.contracts.logit_rows import filters_of
from specsim.contracts.rounding import is_rounded, rounding_bound
from specsim.properties.strategies.limits import limits
from specsim.reference.probabilities import softmax

Arguments = Mapping[str, Any]
Outputs = Mapping[str, Any]
Mask = NDArray[np.bool_]


def is_as_right(operation: str, arguments: Arguments, expected: Outputs, got: Outputs) -> bool:
    """Return whether ties are free and every unit of two answers differs by them only."""
    if not limits().ties_are_free or not any(np.size(value) for value in got.values()):
        return False
    return bool(AS_RIGHT[operation](arguments, expected, got).all())


def fast_topk(arguments: Arguments, expected: Outputs, got: Outputs) -> Mask:
    """Return which rows have the largest values, each at its own place."""
    values, index = got["topk_values"], got["topk_index"]
    is_inside = (index >= 0) & (index < arguments["values"].shape[1])
    there = np.take_along_axis(arguments["values"], np.where(is_inside, index, 0), axis=1)
    is_whole = (is_inside & (there == values) & (values == expected["topk_values"])).all(axis=1)
    return np.asarray(is_whole & _are_distinct(index))


def argmax_target_predict(arguments: Arguments, expected: Outputs, got: Outputs) -> Mask:
    """Return which rows have a largest logit at the token that was chosen."""
    logits, chosen = arguments["logits"], got["target_predict"]
    is_inside = (chosen >= 0) & (chosen < logits.shape[1])
    at = np.take_along_axis(logits, np.where(is_inside, chosen, 0)[:, None], axis=1)[:, 0]
    return np.asarray(is_inside & (at == logits.max(axis=1)))


def top_k_renorm(arguments: Arguments, expected: Outputs, got: Outputs) -> Mask:
    """Return which rows keep at least k tokens, among them all above the threshold and none below it."""
    wanted = np.minimum(arguments["top_k"], (arguments["probabilities"] > 0).sum(axis=1))
    enough = (got["renormalised"] > 0).sum(axis=1) >= wanted
    is_front = _keeps_a_front(arguments["probabilities"], expected["renormalised"], got["renormalised"])
    return np.asarray(enough & is_front)


def top_p_renorm(arguments: Arguments, expected: Outputs, got: Outputs) -> Mask:
    """Return which rows keep enough mass, among it all above the threshold and none below it."""
    given = arguments["probabilities"].astype(np.float64)
    mass = np.where(got["renormalised"] > 0, given, 0).sum(axis=1)
    enough = mass >= arguments["top_p"] * given.sum(axis=1) * (1 - rounding_bound(given.shape[1]))
    return np.asarray(enough & _keeps_a_front(given, expected["renormalised"], got["renormalised"]))


def keep_top_k_exactly(arguments: Arguments, expected: Outputs, got: Outputs) -> Mask:
    """Return which rows keep as many tokens as they should, with logits that are the same in another order."""
    wanted, found = expected["filtered_logits"].astype(np.float32), got["filtered_logits"].astype(np.float32)
    is_given = (found == arguments["logits"].astype(np.float32)) | np.isneginf(found)
    return np.asarray(is_given.all(axis=1) & (np.sort(wanted, axis=1) == np.sort(found, axis=1)).all(axis=1))


def select_top_k_tokens(arguments: Arguments, expected: Outputs, got: Outputs) -> Mask:
    """Return which requests go on with beams that score as well, each with its own token, id and hidden state."""
    step, topk, hidden = arguments["step_index"], arguments["topk"], arguments["hidden_states"]
    scores = got["score_block"].reshape(-1, got["score_block"][0].size if len(got["score_block"]) else 1)
    is_right = np.ones(len(scores), dtype=np.bool_)
    for name in ("score_block", "token_block", "next_scores"):
        is_right &= (got[name] == expected[name]).reshape(len(scores), -1).all(axis=1)
    if step == 0:
        return is_right & False
    chosen = got["parent_block"] - (topk + topk * topk * (step - 1))
    is_right &= ((chosen >= 0) & (chosen < topk * topk)).all(axis=1) & _are_distinct(chosen)
    chosen = np.clip(chosen, 0, topk * topk - 1)
    is_right &= (np.take_along_axis(scores, chosen, axis=1) == got["next_scores"]).all(axis=1)
    tokens = np.take_along_axis(got["token_block"], chosen, axis=1)
    is_right &= (tokens == got["input_ids"].reshape(tokens.shape)).all(axis=1)
    if hidden is not None:
        rows = hidden.reshape(len(scores), topk, -1)[np.arange(len(scores))[:, None], chosen // topk]
        is_right &= (rows == got["next_hidden_states"].reshape(rows.shape)).all(axis=(1, 2))
    return is_right


def organize_draft_results(arguments: Arguments, expected: Outputs, got: Outputs) -> Mask:
    """Return which requests keep drafts that score as well, in order, each with its token and after its parent."""
    is_right = [_is_pruned(arguments, expected, got, request) for request in range(len(got["top_scores_index"]))]
    return np.array(is_right, dtype=np.bool_)


def target_probabilities(arguments: Arguments, expected: Outputs, got: Outputs) -> Mask:
    """Return in which rows a tie decides about what is kept."""
    width = arguments["num_draft_tokens"]
    tied = [_is_tied(row, *filters_of(arguments, place // width)) for place, row in enumerate(arguments["logits"])]
    return np.array(tied, dtype=np.bool_)


def chain_speculative_sampling_from_logits(arguments: Arguments, expected: Outputs, got: Outputs) -> Mask:
    """Return which requests have a row in which a tie decides about what is kept; rows without a law have none."""
    starts = arguments["cu_num_drafts"] + np.arange(len(arguments["cu_num_drafts"]))
    rows = arguments["target_logits"]
    has_law = np.isfinite(rows.astype(np.float32)).any(axis=1)
    tied = [
        any(has_law[row] and _is_tied(rows[row], *filters_of(arguments, request)) for row in range(first, last))
        for request, (first, last) in enumerate(pairwise(starts.tolist()))
    ]
    return np.array(tied, dtype=np.bool_)


def sample_target_predict(arguments: Arguments, expected: Outputs, got: Outputs) -> Mask:
    """Return which requests have a row in which a tie decides about what is kept."""
    num_requests, width = arguments["positions"].shape
    rows = target_probabilities({**arguments, "num_draft_tokens": width}, expected, got)
    return np.asarray(rows.reshape(num_requests, width).any(axis=1))


def tied_requests(arguments: Arguments, *_: Outputs) -> Mask:
    """Return which requests of an acceptance from logits have a row in which a tie decides; without filters greedy."""
    num_requests, width = arguments["candidates"].shape
    tied = [
        _is_tied(row, *(filters_of(arguments, place // width) if "temperature" in arguments else (0.0, 1, 1.0, 0.0)))
        for place, row in enumerate(arguments["logits"])
    ]
    return np.asarray(np.array(tied, dtype=np.bool_).reshape(num_requests, width).any(axis=1))


def _is_tied(logits: Any, temperature: float, top_k: int, top_p: float, min_p: float) -> bool:
    values = logits.astype(np.float64)
    if temperature == 0:
        return int((values == values.max()).sum()) > 1
    order = np.sort(values[np.isfinite(values)])[::-1]
    if top_k < len(order) and order[top_k] == order[top_k - 1]:
        return True
    if top_p >= 1:
        return False
    weights = softmax(np.where(np.isin(values, order[:top_k]), values, -np.inf) / temperature)
    mass = np.cumsum(np.sort(weights)[::-1])
    last = order[min(int(np.searchsorted(mass, top_p * mass[-1])), len(order) - 1)]
    return int((values == last).sum()) > 1


def _keeps_a_front(given: Any, expected: Any, got: Any) -> Mask:
    """Return which rows keep all above the least that the reference keeps, none below it, and are renormalised."""
    is_kept = got > 0
    least = np.where(expected > 0, given, np.inf).min(axis=1, initial=np.inf, keepdims=True)
    is_front = (is_kept | ~(given > least)).all(axis=1) & (~is_kept | (given >= least)).all(axis=1)
    expected = renormalised(np.where(is_kept, given, 0).astype(np.float64))
    return np.asarray(is_front & is_rounded(expected, got).all(axis=1))


def renormalised(weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return rows with a sum of 1; those without mass stay as they are."""
    total = weights.sum(axis=1, keepdims=True)
    return np.asarray(np.divide(weights, total, out=np.zeros_like(weights), where=total > 0))


def _is_pruned(arguments: Arguments, expected: Outputs, got: Outputs, request: int) -> bool:
    scores = np.concatenate([block[request].reshape(-1) for block in arguments["score_list"]])
    tokens = np.concatenate([block[request] for block in arguments["token_list"]])
    kept, parents = got["top_scores_index"][request], got["parent_list"][request]
    is_ascending = bool((np.diff(kept) > 0).all()) and bool(((kept >= 0) & (kept < len(scores))).all())
    if not is_ascending or not np.array_equal(parents, expected["parent_list"][request]):
        return False
    topk = arguments["score_list"][0].shape[-1]
    first, following = kept[kept < topk], kept[kept >= topk]
    return bool(
        np.array_equal(np.sort(scores[kept]), np.sort(scores[expected["top_scores_index"][request]]))
        and np.array_equal(got["draft_tokens"][request], tokens[kept])
        and (len(following) == 0 or len(first) > 0)
        and np.isin(parents[following // topk], kept).all()
    )


def _are_distinct(values: Any) -> Mask:
    ordered = np.sort(values, axis=1)
    return np.asarray((ordered[:, 1:] != ordered[:, :-1]).all(axis=1))


AS_RIGHT: dict[str, Callable[[Arguments, Outputs, Outputs], Mask]] = {
    "fast_topk": fast_topk,
    "argmax_target_predict": argmax_target_predict,
    "top_k_renorm": top_k_renorm,
    "top_p_renorm": top_p_renorm,
    "keep_top_k_exactly": keep_top_k_exactly,
    "select_top_k_tokens": select_top_k_tokens,
    "organize_draft_results": organize_draft_results,
    "target_probabilities": target_probabilities,
    "verify_tree_greedy_from_logits": tied_requests,
    "verify_tree_sampled_from_logits": tied_requests,
    "chain_speculative_sampling_from_logits": chain_speculative_sampling_from_logits,
    "chain_block_verification_from_logits": chain_speculative_sampling_from_logits,
    "sample_target_predict": sample_target_predict,
}
"""Of every operation that breaks ties, which units of an answer are as right as the reference's, or not compared."""
