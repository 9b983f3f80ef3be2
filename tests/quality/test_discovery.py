"""What the strategies must find, and what simple failures must shrink to."""

from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, find, settings

from specsim.properties import strategies
from specsim.reference import verify_tree_greedy
from specsim.topology import Topology
from tests.quality.pool import Pool, calls_of

Case = dict[str, Any]

# NOTE: no phase that explains: it varies the smallest case once more, and find() returns what it was shown last.
SHRINK = settings(
    max_examples=2000,
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
    phases=(Phase.generate, Phase.shrink),
)
STARTS = range(5)


def shrunk(operation: str, predicate: Callable[[Case], Any], start: int = 0) -> Case:
    strategy = strategies.for_operation(operation)
    return find(strategy, lambda case: bool(predicate(case)), settings=SHRINK, random=Random(start))


def accepted(case: Case) -> np.ndarray:
    return verify_tree_greedy(**case)[2]


def depth_of_deepest(case: Case, request: int) -> int:
    return max(Topology.from_links(case["retrieve_next_token"][request], case["retrieve_next_sibling"][request]).depths)


def has_equal_sibling_tokens(case: Case) -> bool:
    for request, tokens in enumerate(case["candidates"]):
        for node, sibling in enumerate(case["retrieve_next_sibling"][request]):
            if sibling >= 0 and tokens[node] == tokens[sibling]:
                return True
    return False


def has_child_tied_with_its_parent_at_the_cut(case: Case) -> bool:
    for request in range(len(case["score_list"][0])):
        scores = np.concatenate([block[request].reshape(-1) for block in case["score_list"]])
        ranked = np.sort(scores)[::-1]
        last = case["num_draft_tokens"] - 2
        if last + 1 < len(ranked) and ranked[last] == ranked[last + 1] > 0 and len(case["score_list"]) > 1:
            return True
    return False


def leads_back(case: Case, name: str) -> np.ndarray:
    return (case[name] >= 0) & (case[name] < np.arange(case[name].shape[1]))


def overlap(case: Case) -> set[int]:
    return set(case["source_slots"].tolist()) & set(case["target_slots"].tolist()) - {0}


def has_cycle(case: Case) -> bool:
    move = dict(zip(case["source_slots"].tolist(), case["target_slots"].tolist(), strict=True))
    for start in move:
        slot, steps = move[start], 1
        while slot in move and slot != start and steps <= len(move):
            slot, steps = move[slot], steps + 1
        if slot == start != 0 and steps > 1:
            return True
    return False


def has_scores_tied_among_siblings(case: Case) -> bool:
    return any((np.diff(block[..., :], axis=-1) == 0).any() for block in case["score_list"])


VERIFY: dict[str, Callable[[Case], Any]] = {
    "equal sibling tokens": has_equal_sibling_tokens,
    "an empty batch": lambda case: len(case["candidates"]) == 0,
    "all accepted": lambda case: any(
        count == depth_of_deepest(case, request) > 1 for request, count in enumerate(accepted(case))
    ),
    "a row that is full": lambda case: any(count == case["num_steps"] > 1 for count in accepted(case)),
    "none accepted of several": lambda case: case["candidates"].shape[1] > 3 and any(accepted(case) == 0),
    "a path cut by the row width": lambda case: any(
        count == case["num_steps"] < depth_of_deepest(case, request) for request, count in enumerate(accepted(case))
    ),
    "a partial path": lambda case: any(0 < count < case["num_steps"] for count in accepted(case)),
    "only the last request accepts": lambda case: (
        len(case["candidates"]) > 2 and accepted(case)[-1] > 1 and not accepted(case)[:-1].any()
    ),
    "only the last request accepts nothing": lambda case: (
        len(case["candidates"]) > 2 and accepted(case)[-1] == 0 and accepted(case)[:-1].all()
    ),
    "64 nodes": lambda case: case["candidates"].shape[1] == 64 and len(case["candidates"]) > 1,
    "a lone root": lambda case: case["candidates"].shape[1] == 1 and len(case["candidates"]) > 1,
    "a sibling with a smaller number": lambda case: leads_back(case, "retrieve_next_sibling").any(),
    "the engines' own link from 4 to its sibling 1": lambda case: (case["retrieve_next_sibling"][:, 4:5] == 1).any(),
    "a child with a smaller number on an accepted path": lambda case: (
        (np.diff(verify_tree_greedy(**case)[1], axis=1) < 0) & (verify_tree_greedy(**case)[1][:, 1:] >= 0)
    ).any(),
    "more than 32 siblings": lambda case: any((case["retrieve_next_sibling"] >= 0).sum(axis=1) >= 32),
}

OTHERS: dict[str, tuple[str, Callable[[Case], Any]]] = {
    "an accepted path that does not ascend": (
        "compact_accepted_to_front",
        lambda case: ((np.diff(case["accept_index"], axis=1) < 0) & (case["accept_index"][:, 1:] >= 0)).any(),
    ),
    "scores tied among siblings": ("organize_draft_results", has_scores_tied_among_siblings),
    "a tie at the cut": ("organize_draft_results", has_child_tied_with_its_parent_at_the_cut),
    "a kept candidate of score 0": (
        "organize_draft_results",
        lambda case: any(
            (block[request].reshape(-1) > 0).sum() < case["num_draft_tokens"] - 1 and len(case["score_list"]) == 1
            for block in case["score_list"]
            for request in range(len(block))
        ),
    ),
    "a tie between signed zeros": (
        "fast_topk",
        lambda case: any({"0.0", "-0.0"} <= set(map(str, row.tolist())) for row in case["values"]),
    ),
    "a tree of 33 nodes": ("build_tree", lambda case: case["num_draft_tokens"] == 33 and len(case["seq_lens"]) > 0),
    "a tree of 64 nodes": ("build_tree", lambda case: case["num_draft_tokens"] == 64 and len(case["seq_lens"]) > 0),
    "a packed mask of 32 nodes": (
        "build_tree",
        lambda case: case["mask_mode"] == 2 and case["num_draft_tokens"] == 32 and len(case["seq_lens"]) > 0,
    ),
    "a full mask with a bound above the sum": (
        "build_tree",
        lambda case: case["mask_mode"] == 0 and case["seq_lens_sum"] > case["seq_lens"].sum() > 0,
    ),
    "a single step with an empty parent list": (
        "build_tree",
        lambda case: case["num_steps"] == 1 and case["parent_list"].shape[1] == 0 and len(case["seq_lens"]) > 1,
    ),
    "length 0": ("assign_draft_cache_locs", lambda case: len(case["seq_lens"]) > 1 and case["seq_lens"][-1] == 0),
    "lengths in int32": ("build_tree", lambda case: case["seq_lens"].dtype == np.int32 and len(case["seq_lens"]) > 1),
    "lengths in int64": ("build_tree", lambda case: case["seq_lens"].dtype == np.int64 and len(case["seq_lens"]) > 1),
    "a row filled to its end": (
        "assign_draft_cache_locs",
        lambda case: (
            len(case["seq_lens"]) > 1
            and case["seq_lens"][-1] + case["topk"] * case["num_steps"] == case["req_to_token"].shape[1]
        ),
    ),
    "a range that ends with the row": (
        "assign_req_to_token_pool",
        lambda case: (case["end_offsets"] == case["req_to_token"].shape[1]).any() and len(case["out_cache_loc"]) > 3,
    ),
    "an empty range between others": (
        "assign_req_to_token_pool",
        lambda case: (
            len(case["end_offsets"]) > 2
            and case["end_offsets"][1] == case["start_offsets"][1]
            and (case["end_offsets"][[0, 2]] > case["start_offsets"][[0, 2]]).all()
        ),
    ),
    "padded requests": ("assign_extend_cache_locs", lambda case: (case["req_pool_indices"] == 0).sum() > 1),
    "sources among the targets": ("move_kv_cache", lambda case: len(overlap(case)) > 2 and case["kv_buffers"]),
    "a cycle": ("move_kv_cache", lambda case: has_cycle(case) and case["kv_buffers"]),
    "zero layers": ("move_kv_cache", lambda case: not case["kv_buffers"] and len(case["target_slots"]) > 1),
    "a tail of dump slots": (
        "move_kv_cache",
        lambda case: (case["target_slots"][-2:] == 0).sum() == 2 and (case["target_slots"] > 0).any(),
    ),
    "buffers of several types": (
        "move_kv_cache",
        lambda case: len({(buffer.dtype, buffer.shape) for buffer in case["kv_buffers"]}) > 2,
    ),
    "no pairs": ("move_kv_cache", lambda case: len(case["target_slots"]) == 0 and case["kv_buffers"]),
    "a count of the whole row": (
        "fill_bonus_tokens",
        lambda case: (
            (case["num_accepted_tokens"] == case["accept_tokens"].shape[1]).any() and case["accept_tokens"].shape[1] > 3
        ),
    ),
    "negative garbage past the count": ("fill_bonus_tokens", lambda case: (case["accept_tokens"] < 0).any()),
    "integers that float64 confuses": (
        "argmax_target_predict",
        lambda case: (
            case["logits"].dtype == np.int64
            and any(row.max() == 2**53 + 1 and (row == 2**53).any() for row in case["logits"])
        ),
    ),
    "a padded forward": (
        "target_forward",
        lambda case: (
            case["tree_mask"] is not None and (case["out_cache_loc"] == 0).any() and (case["out_cache_loc"] > 0).any()
        ),
    ),
    "ragged queries": ("draft_extend_forward", lambda case: len(set(np.diff(case["cu_seqlens_q"]).tolist())) > 2),
    "pages of several slots": (
        "target_forward",
        lambda case: case["page_size"] > 1 and case["cache_seqlens"].sum() > 5,
    ),
    "a word of 32 ones": ("hash_target_logits", lambda case: (case["hidden_states"] == 2**32 - 1).any()),
    "a hostile draft": ("hash_draft_probabilities", lambda case: case["agreement"] == -1 and len(case["context"])),
}


@pytest.mark.parametrize("what", VERIFY)
def test_verification_cases_hold(what: str) -> None:
    assert calls_of("verify_tree_greedy").first(VERIFY[what])


@pytest.mark.parametrize("what", OTHERS)
def test_cases_hold(what: str) -> None:
    operation, predicate = OTHERS[what]
    assert calls_of(operation).first(predicate)


LAID_OUT = Pool(strategies.in_any_layout("verify_tree_greedy"), 2000)


@pytest.mark.parametrize("argument", ["candidates", "retrieve_next_token", "target_predict"])
def test_layouts_are_strided(argument: str) -> None:
    case = LAID_OUT.first(lambda case: strategies.is_strided(case[argument]) and case[argument].size > 4)
    assert not case[argument].flags.c_contiguous


@pytest.mark.parametrize("start", STARTS)
def test_any_request_shrinks_to_the_smallest_tree(start: int) -> None:
    case = shrunk("verify_tree_greedy", lambda case: len(case["candidates"]) > 0, start)
    assert case["candidates"].shape[0] == 1
    assert case["candidates"].shape[1] <= 2
    assert not case["candidates"].any()


@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize("num_nodes", [6, 31])
def test_no_tree_is_a_dead_end_for_shrinking(num_nodes: int, start: int) -> None:
    met: list[Case] = []

    def is_after_a_large_tree(case: Case) -> bool:
        """Return whether there is a request, from the first tree on that has so many nodes."""
        requests, nodes = case["candidates"].shape
        met.extend([case] if nodes >= num_nodes and requests else [])
        return requests > 0 and len(met) > 0

    case = shrunk("verify_tree_greedy", is_after_a_large_tree, start)
    assert case["candidates"].shape[0] == 1
    assert case["candidates"].shape[1] <= 2
    assert not case["candidates"].any()


def test_an_overlap_shrinks_to_one_pair_without_layers() -> None:
    case = shrunk("move_kv_cache", lambda case: len(overlap(case)) > 0)
    assert case["kv_buffers"] == []
    assert case["target_slots"].tolist() == [1]
    assert case["source_slots"].tolist() == [1]


def test_a_positive_length_shrinks_to_one() -> None:
    case = shrunk("build_tree", lambda case: (case["seq_lens"] > 0).any())
    assert case["seq_lens"].sum() == 1
    assert case["num_draft_tokens"] <= 3
