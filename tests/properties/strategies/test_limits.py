"""Strategies draw inside declared limits, and hardly anything is drawn in vain."""

import pytest

from specsim.conformance.limits import Limits, limits_of
from specsim.conformance.outside import why_outside
from specsim.operations import RECORDS
from specsim.properties.strategies.limits import drawing_within, nearest, taken
from specsim.properties.suite.catalogue import property_named
from specsim.properties.suite.hunt.cases import draw_cases

EVERYTHING = limits_of(
    {
        "LIMITS": {
            "build_tree": {"mask_mode": (0, 2), "node": (2, 16), "topk": (1, 4)},
            "verify_tree_greedy": {"node": (3, 8), "request": (2, 3)},
            "target_verify_metadata": {"page_size": (8, 32)},
            "top_k_renorm": {"vocab": (5, 40), "token": (1, 2)},
            "tree_speculative_sampling_target_only": {"strict": (1,), "vocab": (1, 4), "node": (1, 6)},
            "chain_speculative_sampling": {"draft": (0, 2), "request": (1, 4)},
            "select_top_k_tokens": {"topk": (2, 4), "step_index": (0, 1)},
            "fast_topk": {"column": (4, 100), "k": (1, 2, 4)},
            "generate_draft_decode_kv_indices": {"page_size": (1,), "topk": (1, 2), "num_steps": (2, 3)},
            "assign_draft_cache_locs": {"page_size": (1,), "num_copies": (0,)},
        },
        "EMPTY": False,
        "ZERO_PROPOSALS": False,
        "PADDED_PROPOSALS": False,
        "NORMALISED": True,
        "DISTINCT_SIBLINGS": True,
    },
    "mine",
)
OPERATIONS = tuple(EVERYTHING.values)


def drawn(operation, limits, count=20):
    one = property_named(f"agreement.{operation}")
    with drawing_within(limits, (operation,)):
        return draw_cases(one, 0, count)


@pytest.mark.parametrize("operation", OPERATIONS)
def test_cases_lie_inside(operation):
    inside = [why_outside(EVERYTHING, RECORDS[operation], case) for case in drawn(operation, EVERYTHING)]
    assert inside.count(None) >= 18, inside


@pytest.mark.parametrize(
    "operation", ["build_tree", "verify_tree_greedy", "top_k_renorm", "chain_speculative_sampling"]
)
def test_cases_are_no_larger_than_is_wanted(operation):
    wanted = Limits().at_most({"nodes": 5, "words": 7, "requests": 2})
    inside = [why_outside(wanted, RECORDS[operation], case) for case in drawn(operation, wanted)]
    assert inside.count(None) >= 18, inside
    assert any(why_outside(wanted, RECORDS[operation], case) for case in drawn(operation, Limits()))


def test_both_ends_of_an_axis_are_drawn():
    sizes = {case["candidates"].shape for case in drawn("verify_tree_greedy", EVERYTHING)}
    assert {width for _, width in sizes} >= {3, 8} and {count for count, _ in sizes} == {2, 3}


def test_trees_of_distinct_siblings_are_still_wide():
    cases = drawn("verify_tree_greedy", Limits(has_distinct_siblings=True))
    assert any((case["retrieve_next_sibling"] >= 0).sum(axis=1).max(initial=0) > 4 for case in cases)


def test_drafts_of_some_chance_are_still_rejected():
    cases = drawn("chain_speculative_sampling", Limits(takes_zero_proposals=False))
    assert any(case["draft_probs"] is not None and case["draft_tokens"].size for case in cases)


def test_values_are_moved_to_the_nearest():
    limits = limits_of({"LIMITS": {"build_tree": {"topk": (1, 4), "node": (2, 8)}}}, "mine")
    assert nearest("topk", 9) == 9
    with drawing_within(limits, ("build_tree",)):
        assert [nearest("topk", value) for value in (0, 2, 3, 9)] == [1, 1, 4, 4]
        assert [nearest("node", value) for value in (0, 5, 64)] == [2, 5, 8]
        assert taken("topk", (1, 2, 4)) == [1, 4] and taken("topk", (2, 3)) == (2, 3)


def test_operations_of_one_property_share_what_all_of_them_take():
    limits = limits_of({"LIMITS": {"build_tree": {"node": (2, 8)}, "verify_tree_greedy": {"node": (4, 9)}}}, "mine")
    with drawing_within(limits, ("build_tree", "verify_tree_greedy")):
        assert [nearest("node", value) for value in (0, 6, 64)] == [4, 6, 8]
