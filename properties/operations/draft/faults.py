"""Faults in choosing, pruning and naming the candidates of a draft."""

from collections.abc import Callable
from typing import Any

import numpy as np

from specsim.properties.mutants.record import Function, Mutant, Named, given, instead, mutants_of, returning, unchecked

Array = Any


def _topk(order_of: Any) -> Callable[[Array, int], tuple[Array, Array]]:
    """Return a choice of the first of another order of columns; ``order_of`` takes a row and how many are chosen."""

    def choose(values: Array, k: int) -> tuple[Array, Array]:
        index = np.array([order_of(row, k)[:k] for row in values], dtype=np.int64).reshape(len(values), k)
        return np.take_along_axis(values, index, axis=1), index

    return choose


def _best_first(row: Array, k: int) -> list[int]:
    return list(np.argsort(-row, kind="stable").tolist())


def _higher_index_first(row: Array, k: int) -> list[int]:
    return sorted(range(len(row)), key=lambda column: (-row[column], -column))


def _negative_zero_below_zero(row: Array, k: int) -> list[int]:
    return sorted(range(len(row)), key=lambda place: (-row[place], np.signbit(row[place]), place))


def _first_of_its_value(row: Array, k: int) -> list[int]:
    return [row.tolist().index(value) for value in sorted(row.tolist(), reverse=True)]


def _only_the_first_tile(values: Array, k: int) -> tuple[Array, Array]:
    return _topk(_best_first)(values[:, : max(k, 4)], k)


def _scores_add(outputs: Named, arguments: Named) -> None:
    if arguments["step_index"] > 0:
        shape = outputs["score_block"].shape
        outputs["score_block"] = arguments["scores"][:, :, None] + arguments["topk_p"].reshape(shape)


def _scores_forget_the_path(arguments: Named) -> None:
    if arguments["scores"] is not None:
        arguments["scores"] = np.ones_like(arguments["scores"])


def _scores_of_the_first_request(arguments: Named) -> None:
    if arguments["scores"] is not None and len(arguments["scores"]):
        arguments["scores"] = np.broadcast_to(arguments["scores"][:1], arguments["scores"].shape).copy()


def _hidden_state_of_the_place(outputs: Named, arguments: Named) -> None:
    if arguments["step_index"] > 0 and arguments["hidden_states"] is not None:
        outputs["next_hidden_states"] = arguments["hidden_states"].copy()


def _rows_of_other_requests(outputs: Named, arguments: Named) -> None:
    hidden_states = arguments["hidden_states"]
    if arguments["step_index"] == 0 and hidden_states is not None:
        outputs["next_hidden_states"] = np.concatenate([hidden_states] * arguments["topk"])


def _ids_of_the_step_after(outputs: Named, arguments: Named) -> None:
    if arguments["step_index"] > 0:
        outputs["parent_block"] = outputs["parent_block"] + arguments["topk"] ** 2


def _ids_within_the_step(outputs: Named, arguments: Named) -> None:
    topk, step = arguments["topk"], arguments["step_index"]
    if step > 0:
        outputs["parent_block"] = outputs["parent_block"] - (topk + topk * topk * (step - 1))


def _beams_keep_their_place(outputs: Named, arguments: Named) -> None:
    topk = arguments["topk"]
    outputs["input_ids"] = outputs["token_block"][:, :topk].reshape(-1).copy()


def _candidates_child_first(outputs: Named, arguments: Named) -> None:
    num_requests, branch, topk = outputs["score_block"].shape
    tokens = outputs["token_block"].reshape(num_requests, branch, topk)
    outputs["token_block"] = tokens.transpose(0, 2, 1).reshape(num_requests, branch * topk)


def _beams_with_ties_reversed(outputs: Named, arguments: Named) -> None:
    topk, step = arguments["topk"], arguments["step_index"]
    if step == 0:
        return
    scores = outputs["score_block"].reshape(len(outputs["score_block"]), topk * topk)
    outputs["next_scores"], chosen = _topk(_higher_index_first)(scores, topk)
    outputs["parent_block"] = chosen + topk + topk * topk * (step - 1)
    outputs["input_ids"] = np.take_along_axis(outputs["token_block"], chosen, axis=1).reshape(-1)
    if arguments["hidden_states"] is not None:
        rows = (np.arange(len(chosen))[:, None] * topk + chosen // topk).reshape(-1)
        outputs["next_hidden_states"] = arguments["hidden_states"][rows]


def _organized(order_of: Any) -> Callable[[Function], Function]:
    """Inject another choice and order of what is kept; ``order_of`` takes the scores of a request and their number."""

    def organize(outputs: Named, arguments: Named) -> None:
        scores = np.concatenate(
            [block.reshape(len(block), block.shape[1] * block.shape[2]) for block in arguments["score_list"]], axis=1
        )
        tokens = np.concatenate(arguments["token_list"], axis=1)
        count = arguments["num_draft_tokens"] - 1
        kept = np.array([order_of(row, count) for row in scores], dtype=np.int64).reshape(len(scores), count)
        outputs["top_scores_index"], outputs["draft_tokens"] = kept, np.take_along_axis(tokens, kept, axis=1)

    return returning(organize)


def _tokens_of_the_places(outputs: Named, arguments: Named) -> None:
    tokens = np.concatenate(arguments["token_list"], axis=1)
    outputs["draft_tokens"] = tokens[:, : outputs["draft_tokens"].shape[1]].copy()


def _kept_of_the_first_request(outputs: Named, arguments: Named) -> None:
    if len(outputs["top_scores_index"]):
        kept = np.broadcast_to(outputs["top_scores_index"][:1], outputs["top_scores_index"].shape).copy()
        tokens = np.concatenate(arguments["token_list"], axis=1)
        outputs["top_scores_index"], outputs["draft_tokens"] = kept, np.take_along_axis(tokens, kept, axis=1)


def _parents_without_the_marker(outputs: Named, arguments: Named) -> None:
    parents = np.concatenate(arguments["parents_list"], axis=1)
    outputs["parent_list"] = parents[:, 1 : 1 + outputs["parent_list"].shape[1]].copy()


def _chain_without_the_marker(outputs: Named, arguments: Named) -> None:
    outputs["parent_list"] = outputs["parent_list"] + 1


def _chain_counted_from_one(outputs: Named, arguments: Named) -> None:
    outputs["top_scores_index"] = outputs["top_scores_index"] + 1


def _tables_of_offsets(topk_index: Array, hot_token_id: Array) -> Array:
    return topk_index + hot_token_id[topk_index]


def _all_masked(topk_index: Array, hot_token_id: Array) -> Array:
    return hot_token_id[np.full_like(topk_index, -1)]


def _map_of_the_first_row(topk_index: Array, hot_token_id: Array) -> Array:
    return hot_token_id[np.broadcast_to(topk_index[:1], topk_index.shape)]


def _stride_of_another_vocabulary(values: Array, k: int) -> tuple[Array, Array]:
    rows, columns = values.shape
    places = np.arange(rows)[:, None] * (columns + 1) + np.arange(columns)
    return _topk(_best_first)(values.reshape(-1)[places % max(values.size, 1)] if values.size else values, k)


MUTANTS = (
    *mutants_of(
        "fast_topk",
        ("OWN-01", "Equal values are taken from the right.", instead(_topk(_higher_index_first))),
        (
            "OWN-02",
            "The chosen entries stay in column order.",
            instead(_topk(lambda row, k: sorted(_best_first(row, k)[:k]))),
        ),
        ("OWN-03", "Indices are looked up by value, so equal values share one.", instead(_topk(_first_of_its_value))),
        ("OWN-04", "Only the first tile of a row is searched.", instead(_only_the_first_tile)),
        ("G11", "Rows have the stride of another vocabulary.", instead(_stride_of_another_vocabulary)),
        ("OWN-124", "Negative zero ranks below zero.", instead(_topk(_negative_zero_below_zero))),
        ("OWN-05", "NaN scores are taken for numbers.", unchecked(_topk(_best_first))),
    ),
    *mutants_of(
        "select_top_k_tokens",
        ("OWN-06", "Probabilities along a path are added.", returning(_scores_add)),
        ("OWN-07", "The score of the path so far is dropped.", given(_scores_forget_the_path)),
        ("OWN-08", "Scores are those of the first request.", given(_scores_of_the_first_request)),
        (
            "OWN-09",
            "A beam keeps the hidden state of its place, not of its parent.",
            returning(_hidden_state_of_the_place),
        ),
        ("D07", "Rows of one request are read where one row a beam is laid out.", returning(_rows_of_other_requests)),
        ("OWN-10", "Flat ids are those of the step after.", returning(_ids_of_the_step_after)),
        ("OWN-11", "Flat ids count within the step.", returning(_ids_within_the_step)),
        ("OWN-12", "Tokens are those of the first candidates.", returning(_beams_keep_their_place)),
        ("OWN-13", "Candidates are listed child first.", returning(_candidates_child_first)),
        ("OWN-14", "Equal scores go to the later beam.", returning(_beams_with_ties_reversed)),
    ),
    *mutants_of(
        "organize_draft_results",
        (
            "SYN4",
            "Ties at the boundary keep a child and drop its parent.",
            _organized(lambda row, count: sorted(_higher_index_first(row, count)[:count])),
        ),
        (
            "OWN-15",
            "Kept candidates are ordered by score.",
            _organized(lambda row, count: _best_first(row, count)[:count]),
        ),
        ("OWN-16", "Tokens are not gathered.", returning(_tokens_of_the_places)),
        ("OWN-17", "Every request keeps the candidates of the first.", returning(_kept_of_the_first_request)),
        ("OWN-18", "The parent list lacks the marker of the root's children.", returning(_parents_without_the_marker)),
    ),
    Mutant(
        "OWN-19",
        "organize_chain_draft_results",
        "The chain's parent list lacks the marker.",
        returning(_chain_without_the_marker),
    ),
    Mutant(
        "OWN-20",
        "organize_chain_draft_results",
        "The chain's candidates are counted from 1.",
        returning(_chain_counted_from_one),
    ),
    *mutants_of(
        "map_hot_tokens",
        ("D04", "The table's ids are added as if they were offsets.", instead(_tables_of_offsets)),
        ("G15", "No row counts as live, and -1 wraps to the last entry.", instead(_all_masked)),
        ("OWN-21", "Every row is mapped like the first.", instead(_map_of_the_first_row)),
    ),
)
