"""Laws of drafting: which candidates are chosen, whose children they are, and what is kept of them."""

from typing import Any

import numpy as np
from hypothesis import strategies as st

from specsim.conformance.backend import Backend
from specsim.operations import RECORDS
from specsim.properties.composite import composite
from specsim.properties.laws.checks import Array, Case, outputs_of, require, require_equal, require_one_by_one, states
from specsim.properties.operations.generated.ties import is_as_right
from specsim.properties.strategies.limits import limits
from specsim.properties.strategies.numbers import generators


def topk_descends_with_ties_by_lower_index(backend: Backend, case: Case) -> None:
    """Values do not increase along a row, and equal ones stand in the order of their columns."""
    chosen = outputs_of(backend, "fast_topk", case)
    for values, index in zip(chosen["topk_values"].tolist(), chosen["topk_index"].tolist(), strict=True):
        columns = [0] * len(index) if limits().ties_are_free else index
        ranked = [(-value, column) for value, column in zip(values, columns, strict=True)]
        require(ranked == sorted(ranked), "the order of a row", ranked, "value descending, then index ascending")


def topk_values_stand_at_their_index(backend: Backend, case: Case) -> None:
    """Each value is the entry at its index, and no index comes twice."""
    chosen = outputs_of(backend, "fast_topk", case)
    for row, index in enumerate(chosen["topk_index"]):
        require(len(set(index.tolist())) == case["k"], f"the indices of row {row}", index, f"{case['k']} columns")
        require_equal(f"the values of row {row}", chosen["topk_values"][row], case["values"][row, index])


def topk_leaves_nothing_better(backend: Backend, case: Case) -> None:
    """Whatever was not chosen is smaller than the last choice, or equal and further right."""
    chosen = outputs_of(backend, "fast_topk", case)
    for row, values in enumerate(case["values"].tolist()):
        index = chosen["topk_index"][row].tolist()
        last = index[-1]
        for column in set(range(len(values))) - set(index):
            is_tied = limits().ties_are_free and values[column] == values[last]
            rank, worst = (-values[column], last + 1 if is_tied else column), (-values[last], last)
            require(rank > worst, f"column {column} of row {row}", "left out", f"chosen before {last}")


def scores_multiply_along_the_path(backend: Backend, case: Case) -> None:
    """A candidate's score is its probability, times its beam's score after the first step, in float32."""
    score_block = outputs_of(backend, "select_top_k_tokens", case)["score_block"]
    expected = case["topk_p"].reshape(score_block.shape)
    if case["step_index"] > 0:
        expected = case["scores"][:, :, None] * expected
    require_equal("score_block", score_block, expected)


def beams_are_the_best_candidates(backend: Backend, case: Case) -> None:
    """After the first step the beams are the best candidates of all beams, ties by lower flat id."""
    if case["step_index"] == 0:
        return
    selected = outputs_of(backend, "select_top_k_tokens", case)
    for request, scores in enumerate(selected["score_block"]):
        ranked = sorted((-score, candidate) for candidate, score in enumerate(scores.reshape(-1).tolist()))
        chosen = _candidates(selected, case, request)
        best = [place for _, place in ranked[: case["topk"]]]
        if limits().ties_are_free:
            require(len(set(chosen.tolist())) == len(best), f"the beams of request {request}", chosen, "different ones")
            chosen, best = scores.reshape(-1)[chosen], scores.reshape(-1)[best]
        require_equal(f"the beams of request {request}", chosen, best)


def parent_ids_name_the_beams(backend: Backend, case: Case) -> None:
    """The flat id emitted for a beam names the candidate whose token and score the beam carries."""
    selected = outputs_of(backend, "select_top_k_tokens", case)
    topk = case["topk"]
    for request, scores in enumerate(selected["score_block"]):
        chosen = _candidates(selected, case, request)
        if case["step_index"] == 0:
            require_equal("the column before the first beams", selected["parent_block"][request, 0], -1)
            require_equal("the first beams", chosen, np.arange(topk))
        tokens = selected["token_block"][request][chosen]
        require_equal("input_ids", selected["input_ids"][request * topk : (request + 1) * topk], tokens)
        require_equal("next_scores", selected["next_scores"][request], scores.reshape(-1)[chosen])


def candidates_keep_their_order(backend: Backend, case: Case) -> None:
    """The token block holds every candidate, beam after beam."""
    selected = outputs_of(backend, "select_top_k_tokens", case)
    require_equal("token_block", selected["token_block"].reshape(-1), case["topk_index"].reshape(-1))


def hidden_states_follow_the_parent(backend: Backend, case: Case) -> None:
    """A beam carries the hidden state of the row that proposed it."""
    selected = outputs_of(backend, "select_top_k_tokens", case)
    if case["hidden_states"] is None:
        require(selected["next_hidden_states"] is None, "hidden states without any", "an array", None)
        return
    topk = case["topk"]
    branch = 1 if case["step_index"] == 0 else topk
    for request in range(len(selected["next_scores"])):
        rows = request * branch + _candidates(selected, case, request) // topk
        got = selected["next_hidden_states"][request * topk : (request + 1) * topk]
        require_equal(f"the hidden states of request {request}", got, case["hidden_states"][rows])


def kept_candidates_are_the_best(backend: Backend, case: Case) -> None:
    """The kept candidates are the best of all depths, ties by lower flat id, in ascending order."""
    kept = outputs_of(backend, "organize_draft_results", case)["top_scores_index"]
    for request in range(len(kept)):
        scores = np.concatenate([entry[request].reshape(-1) for entry in case["score_list"]]).tolist()
        ranked = sorted(range(len(scores)), key=lambda candidate: (-scores[candidate], candidate))
        best, ids = sorted(ranked[: case["num_draft_tokens"] - 1]), kept[request].tolist()
        if limits().ties_are_free:
            require(ids == sorted(set(ids)), f"the kept of request {request}", ids, "ascending")
            ids, best = sorted(scores[candidate] for candidate in ids), sorted(scores[candidate] for candidate in best)
        require_equal(f"the kept of request {request}", ids, best)


def kept_tokens_stand_at_their_flat_ids(backend: Backend, case: Case) -> None:
    """A draft token is the one proposed at its flat id."""
    organized = outputs_of(backend, "organize_draft_results", case)
    tokens = np.concatenate(case["token_list"], axis=1)
    for request, kept in enumerate(organized["top_scores_index"]):
        require_equal("draft_tokens", organized["draft_tokens"][request], tokens[request][kept])


def parent_list_leaves_out_the_last_step(backend: Backend, case: Case) -> None:
    """The parent list is the steps' blocks in turn; the last step's beams have no children."""
    parent_list = outputs_of(backend, "organize_draft_results", case)["parent_list"]
    end = 0
    for parents in case["parents_list"][:-1]:
        require_equal(f"columns {end} of parent_list", parent_list[:, end : end + parents.shape[1]], parents)
        end += parents.shape[1]
    require_equal("the width of parent_list", parent_list.shape[1], end)


def chain_path_equals_the_general_path(backend: Backend, case: Case) -> None:
    """For topk 1 the short path returns what pruning nothing returns."""
    num_requests, num_steps = len(case["token_list"][0]), len(case["token_list"])
    falling = [np.full((num_requests, 1, 1), 1 / (step + 2), dtype=np.float32) for step in range(num_steps)]
    later = [np.full((num_requests, 1), step, dtype=np.int64) for step in range(1, num_steps)]
    parents = [np.tile(np.array([-1, 0], dtype=np.int64), (num_requests, 1)), *later]
    given = {"score_list": falling, "token_list": case["token_list"], "parents_list": parents}
    general = {**given, "num_draft_tokens": num_steps + 1}
    expected = outputs_of(backend, "organize_draft_results", general)
    got = outputs_of(backend, "organize_chain_draft_results", case)
    for name in ("parent_list", "top_scores_index", "draft_tokens"):
        require_equal(f"the chain's {name}", got[name], expected[name])


def kept_paths_are_whole(backend: Backend, case: Case) -> None:
    """Through all steps a kept draft's parent is kept before it, and a beam carries the hidden state of its own path.

    The hidden states log request and path, so that the state of another beam shows, of another request's too.
    """
    topk, num_steps = case["topk"], case["num_steps"]
    random = np.random.default_rng(case["seed"])
    blocks: dict[str, list[Array]] = {"score_list": [], "token_list": [], "parents_list": []}
    scores, hidden = None, np.tile(np.arange(case["num_requests"])[:, None], num_steps + 1)
    for step in range(num_steps):
        rows = len(hidden)
        probabilities = -np.sort(-random.integers(0, 9, (rows, topk)).astype(np.float32) / 8, axis=1)
        tokens = random.permutation(rows * topk).reshape(rows, topk) + 1000 * (step + 1)
        candidates = {"topk_p": probabilities, "topk_index": tokens, "hidden_states": hidden, "scores": scores}
        selected = outputs_of(backend, _SELECT, {**candidates, "step_index": step, "topk": topk})
        scores, hidden = selected["next_scores"], selected["next_hidden_states"].copy()
        hidden[:, step] = selected["input_ids"]
        for of_steps, name in zip(blocks.values(), ("score_block", "token_block", "parent_block"), strict=True):
            of_steps.append(selected[name])
    organized = outputs_of(backend, _ORGANIZE, {**blocks, "num_draft_tokens": case["num_draft_tokens"]})
    for request in range(case["num_requests"]):
        paths = _paths_of_kept(organized, request, topk)
        for place, beam in enumerate(hidden[request * topk : (request + 1) * topk].tolist()):
            every = [*_path_of_beam(organized, blocks, request, place, topk), request]
            require_equal(f"the path that beam {place} of request {request} carries", beam, every)
        require(len(paths) == case["num_draft_tokens"] - 1, "kept paths", len(paths), case["num_draft_tokens"] - 1)


def requests_are_organized_one_by_one(backend: Backend, case: Case) -> None:
    """What is kept of a request does not depend on the batch."""
    parts = ("parent_list", "top_scores_index", "draft_tokens")
    require_one_by_one(backend, _ORGANIZE, case, parts, is_right=is_as_right)


def requests_are_selected_one_by_one(backend: Backend, case: Case) -> None:
    """The beams of a request do not depend on the batch."""
    outputs = [spec.name for spec in RECORDS[_SELECT].contract.outputs]
    require_one_by_one(backend, _SELECT, case, outputs, is_right=is_as_right)


def _candidates(selected: dict[str, Any], case: Case, request: int) -> Array:
    """Return the candidates of this step that the emitted flat ids name."""
    topk, step = case["topk"], case["step_index"]
    if step == 0:
        return np.asarray(selected["parent_block"][request, 1:])
    candidates = selected["parent_block"][request] - (topk + topk * topk * (step - 1))
    inside = (candidates >= 0) & (candidates < topk * topk)
    require(inside.all(), f"parent_block[{request}]", selected["parent_block"][request], f"ids of step {step}")
    return np.asarray(candidates)


@composite
def whole_drafts(draw: st.DrawFn) -> Case:
    """Draw the sizes of a draft of several steps; its probabilities come from the seed."""
    topk, num_steps = draw(st.integers(1, 4)), draw(st.integers(1, 4))
    candidates = topk + (num_steps - 1) * topk * topk
    num_requests, count = draw(st.integers(1, 3)), draw(st.integers(2, min(candidates, 20) + 1))
    sizes = {"topk": topk, "num_steps": num_steps, "num_draft_tokens": count}
    return {"num_requests": num_requests, **sizes, "seed": draw(st.integers(0, 2**16))}


def identity_map_changes_nothing(backend: Backend, case: Case) -> None:
    """A table that maps each id to itself leaves every id as it is."""
    identity = np.arange(len(case["hot_token_id"]), dtype=np.int64)
    mapped = outputs_of(backend, "map_hot_tokens", {**case, "hot_token_id": identity})["token_index"]
    require_equal("ids through the identity table", mapped, case["topk_index"])


def hot_map_reads_the_table(backend: Backend, case: Case) -> None:
    """Every entry becomes the table's entry for it."""
    mapped = outputs_of(backend, "map_hot_tokens", case)["token_index"]
    require_equal("token_index", mapped, case["hot_token_id"][case["topk_index"]])


def hot_maps_compose(backend: Backend, case: Case) -> None:
    """A permutation of the draft vocabulary and its inverse, one after the other, restore every id."""
    there = case["permutation"]
    back = np.argsort(there)
    mapped = outputs_of(backend, "map_hot_tokens", {"topk_index": case["topk_index"], "hot_token_id": there})
    restored = outputs_of(backend, "map_hot_tokens", {"topk_index": mapped["token_index"], "hot_token_id": back})
    require_equal("ids there and back", restored["token_index"], case["topk_index"])


@composite
def permuted_vocabularies(draw: st.DrawFn) -> Case:
    """Draw ids and a permutation of their vocabulary."""
    size = draw(st.integers(1, 9))
    shape = draw(st.tuples(st.integers(0, 4), st.integers(1, 4)))
    random = draw(generators())
    return {"topk_index": random.integers(0, size, shape), "permutation": random.permutation(size)}


def _paths_of_kept(organized: dict[str, Any], request: int, topk: int) -> dict[int, list[int]]:
    """Return the flat ids from the root to each kept candidate; every one of them must be kept."""
    paths: dict[int, list[int]] = {}
    for candidate in organized["top_scores_index"][request].tolist():
        parent = int(organized["parent_list"][request, candidate // topk]) if candidate >= topk else None
        require(parent is None or parent in paths, f"the parent of kept candidate {candidate}", parent, "kept before")
        paths[candidate] = [*(paths[parent] if parent is not None else []), candidate]
    return paths


def _path_of_beam(organized: dict[str, Any], blocks: Case, request: int, place: int, topk: int) -> list[int]:
    """Return the tokens from the root to a beam of the last step, by flat ids alone."""
    tokens = np.concatenate([block[request] for block in blocks["token_list"]])
    candidate = int(blocks["parents_list"][-1][request, place - topk])
    path = [int(tokens[candidate])]
    while candidate >= topk:
        candidate = int(organized["parent_list"][request, candidate // topk])
        path.append(int(tokens[candidate]))
    return path[::-1]


_SELECT = "select_top_k_tokens"
_ORGANIZE = "organize_draft_results"

PROPERTIES = states(
    "draft",
    (topk_descends_with_ties_by_lower_index, "fast_topk", "P20"),
    (topk_values_stand_at_their_index, "fast_topk", "P20"),
    (topk_leaves_nothing_better, "fast_topk", "P20"),
    (scores_multiply_along_the_path, _SELECT, "P20"),
    (beams_are_the_best_candidates, _SELECT, "P20"),
    (parent_ids_name_the_beams, _SELECT, "P20"),
    (candidates_keep_their_order, _SELECT),
    (hidden_states_follow_the_parent, _SELECT, "P49"),
    (requests_are_selected_one_by_one, _SELECT, "P31"),
    (kept_candidates_are_the_best, _ORGANIZE, "P20"),
    (kept_tokens_stand_at_their_flat_ids, _ORGANIZE),
    (parent_list_leaves_out_the_last_step, _ORGANIZE),
    (requests_are_organized_one_by_one, _ORGANIZE, "P31"),
    (chain_path_equals_the_general_path, ("organize_chain_draft_results", _ORGANIZE), "P21"),
    (kept_paths_are_whole, whole_drafts, (_SELECT, _ORGANIZE), "P20"),
    (identity_map_changes_nothing, "map_hot_tokens", "P50"),
    (hot_map_reads_the_table, "map_hot_tokens", "P50"),
    (hot_maps_compose, permuted_vocabularies, "map_hot_tokens", "P50"),
)
