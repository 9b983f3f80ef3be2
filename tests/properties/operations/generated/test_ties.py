"""Where ties are free, answers that break them otherwise are as right; everything else is as wrong as ever."""

from dataclasses import replace

import numpy as np
import pytest

from specsim.conformance.backend import load
from specsim.conformance.limits import Limits
from specsim.properties.operations.generated.ties import organize_draft_results as as_right
from specsim.properties.strategies.limits import drawing_within
from specsim.properties.suite.catalogue import all_properties
from specsim.properties.suite.conformance.running import run_property
from specsim.properties.suite.hunt.cases import draw_cases

ORACLE = load("specsim.reference")
FREE = Limits(ties_are_free=True)


def fast_topk(values, k):
    found = ORACLE.fast_topk(np.ascontiguousarray(values[:, ::-1]), k)
    return found.topk_values, values.shape[1] - 1 - found.topk_index


def argmax_target_predict(logits):
    return (logits.shape[1] - 1 - np.argmax(logits[:, ::-1], axis=1)).astype(np.int64)


def top_k_renorm(probabilities, top_k):
    kept = np.zeros(probabilities.shape)
    for row, count in enumerate(top_k):
        chosen = np.argsort(-probabilities[row], kind="stable")[:count]
        kept[row, chosen] = probabilities[row, chosen]
    return (kept / kept.sum(axis=1, keepdims=True)).astype(np.float32)


def top_p_renorm(probabilities, top_p):
    given, kept = probabilities.astype(np.float64), np.zeros(probabilities.shape)
    for row, share in enumerate(top_p.tolist()):
        chosen = np.argsort(-given[row], kind="stable")
        before = np.cumsum(given[row][chosen]) - given[row][chosen]
        chosen = chosen[(before < share * given[row].sum()) | (share >= 1) | (np.arange(len(chosen)) == 0)]
        kept[row, chosen] = given[row, chosen]
    return (kept / kept.sum(axis=1, keepdims=True)).astype(np.float32)


def keep_top_k_exactly(logits, top_k, num_draft_tokens):
    flipped = np.ascontiguousarray(logits[:, ::-1])
    return np.ascontiguousarray(ORACLE.keep_top_k_exactly(flipped, top_k, num_draft_tokens)[:, ::-1])


def select_top_k_tokens(step_index, topk_p, topk_index, hidden_states, scores, topk):
    found = ORACLE.select_top_k_tokens(step_index, topk_p, topk_index, hidden_states, scores, topk)
    if step_index == 0:
        return found
    values = found.score_block.reshape(len(found.score_block), topk * topk)
    chosen = topk * topk - 1 - np.argsort(-values[:, ::-1], axis=1, kind="stable")[:, :topk]
    rows = (np.arange(len(values))[:, None] * topk + chosen // topk).reshape(-1)
    return (
        np.take_along_axis(found.token_block, chosen, axis=1).reshape(-1),
        None if hidden_states is None else hidden_states[rows],
        found.next_scores,
        found.score_block,
        found.token_block,
        (chosen + topk + topk * topk * (step_index - 1)).astype(found.parent_block.dtype),
    )


OTHERWISE = [fast_topk, argmax_target_predict, top_k_renorm, top_p_renorm, keep_top_k_exactly, select_top_k_tokens]


def off_by_one(function):
    """Return the function with its last choice moved, which no tie excuses."""

    def wrong(**arguments):
        found = function(**arguments)
        last = found if isinstance(found, np.ndarray) else found[-1]
        if last.size:
            last.reshape(-1)[-1] = last.reshape(-1)[0] if last.dtype.kind == "f" else last.reshape(-1)[-1] ^ 1
        return found

    return wrong


LAWS = {
    "fast_topk": ("draft.topk_descends_with_ties_by_lower_index", "draft.topk_leaves_nothing_better"),
    "argmax_target_predict": ("verify.greedy_choice_is_the_largest_logit",),
    "top_k_renorm": ("probabilities.top_k_keeps_the_most_probable", "probabilities.kept_tokens_keep_their_ratios"),
    "top_p_renorm": ("probabilities.top_p_keeps_the_least_mass_that_suffices",),
    "keep_top_k_exactly": ("dflash.exactly_k_tokens_stay",),
    "select_top_k_tokens": ("draft.beams_are_the_best_candidates",),
}
PROPERTIES = {one.name: one for one in all_properties()}


@pytest.mark.parametrize("function", OTHERWISE, ids=lambda function: function.__name__)
def test_who_breaks_ties_otherwise_conforms_where_they_are_free(function):
    name = function.__name__
    otherwise = ORACLE.with_function(name, function, "otherwise")
    wrong = ORACLE.with_function(name, off_by_one(function), "wrong")
    for one in (PROPERTIES[f"agreement.{name}"], *(PROPERTIES[law] for law in LAWS[name])):
        report, failure = run_property(one, replace(otherwise, limits=FREE), 0, 20)
        assert (report.examples, failure) == (20, None)
    agreement = PROPERTIES[f"agreement.{name}"]
    for backend in (otherwise, replace(wrong, limits=FREE)):
        assert not all(holds(agreement, backend, case) for case in draw_cases(agreement, 0, 20))


def holds(one, backend, case):
    """Return whether a property holds of one case; nothing is shrunk."""
    try:
        with drawing_within(backend.limits, one.operations):
            one.law(backend, case)
    except AssertionError:
        return False
    return True


def test_pruning_keeps_parents_whichever_of_equal_scores_it_keeps():
    """Of two equal candidates either may be kept, but none without its parent."""
    half = np.float32(0.5)
    case = {
        "score_list": [np.array([[[1, half]]], np.float32), np.array([[[1, half], [half, half]]], np.float32)],
        "token_list": [np.array([[1, 2]]), np.array([[3, 4, 5, 6]])],
        "parents_list": [np.array([[-1, 0, 1]]), np.array([[2, 3]])],
        "num_draft_tokens": 4,
    }
    found = ORACLE.run("organize_draft_results", case).outputs
    assert found["top_scores_index"].tolist() == [[0, 1, 2]]
    tokens = np.concatenate(case["token_list"], axis=1)
    for kept, is_right in (([0, 2, 3], True), ([0, 1, 2], True), ([0, 2, 4], False), ([0, 1, 3], False)):
        other = {**found, "top_scores_index": np.array([kept]), "draft_tokens": tokens[:, kept]}
        assert as_right(case, found, other).tolist() == [is_right], kept
