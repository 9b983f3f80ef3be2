"""What a module declares is read once; what makes no sense is one line."""

import pytest

from specsim.conformance.limits import NO_LIMITS, BadLimits, axes_of, limits_of
from specsim.operations import RECORDS


def test_a_module_that_declares_nothing_has_no_limits():
    assert limits_of({"EMPTY": True, "TIES": None, "LIMITS": {}}, "mine") == NO_LIMITS
    assert NO_LIMITS.are_none and NO_LIMITS.in_words() == []


def test_values_of_scalars_are_listed_and_sizes_of_axes_lie_between_two():
    declared = {"LIMITS": {"build_tree": {"mask_mode": (1, 0), "node": (1, 64), "topk": range(1, 4)}}}
    limits = limits_of({**declared, "EMPTY": False, "TIES": "any"}, "mine")
    assert limits.of("build_tree") == {"mask_mode": (0, 1), "node": range(1, 65), "topk": (1, 2, 3)}
    assert limits.of("fast_topk") == {}
    assert limits.in_words() == [
        "an empty batch",
        "ties that are broken otherwise than by the contract",
        "build_tree with mask_mode other than 0 or 1",
        "build_tree with node outside 1 to 64",
        "build_tree with topk other than 1 or 2 or 3",
    ]


def test_a_sampler_accepts_any_number_of_drafts_or_those_that_equal_its_draws():
    free, drawing = (limits_of({"ACCEPTANCE": said}, "mine") for said in ("any", "draws"))
    assert (free.accepts_any_number, free.accepts_equal_draws) == (True, False)
    assert (drawing.accepts_any_number, drawing.accepts_equal_draws) == (False, True)
    assert drawing.in_words() == [], "nothing is left out"


def test_largest_sizes_hold_in_every_operation_and_within_what_it_takes():
    declared = limits_of({"LIMITS": {"build_tree": {"node": (4, 64)}, "fast_topk": {"row": (3, 5)}}}, "mine")
    limits = declared.at_most({"nodes": 8, "requests": 2})
    assert limits.of("build_tree") == {
        "node": range(4, 9), "draft": range(8), "request": range(3), "row": range(3)
    }  # fmt: skip
    assert limits.of("fast_topk")["row"] == range(3, 4), "the smallest size that is taken is drawn all the same"
    assert limits.declared_of("build_tree") == {"node": range(4, 65)}
    assert limits.in_words()[-2:] == ["more than 8 nodes", "more than 2 requests"]
    assert declared.at_most({}) == declared


def test_a_sampler_without_coins_has_the_limits_of_its_operation():
    name = "tree_speculative_sampling_target_only"
    limits = limits_of({"LIMITS": {name: {"strict": (1,)}}}, "mine")
    assert limits.of(f"{name}_without_coins") == {"strict": (1,)}


def test_axes_are_those_that_a_contract_binds():
    assert axes_of(RECORDS["build_tree"]) == ["topk", "step", "node", "request", "parent"]
    assert axes_of(RECORDS["move_kv_cache"]) == ["slot", "buffer", "pair"]


@pytest.mark.parametrize(
    ("declared", "message"),
    [
        ({"LIMITS": 3}, "mine.LIMITS is 3, but should be a dictionary by operation"),
        (
            {"LIMITS": {"build_tre": {}}},
            "mine.LIMITS names 'build_tre', but should name an operation; did you mean build_tree?",
        ),
        ({"LIMITS": {4: {}}}, "mine.LIMITS names 4, but should name an operation"),
        (
            {"LIMITS": {"fast_topk": (1, 2)}},
            "mine.LIMITS['fast_topk'] is (1, 2), but should be a dictionary by axis or scalar",
        ),
        ({"LIMITS": {"fast_topk": {"kk": (1,)}}}, "mine.LIMITS['fast_topk']['kk'] is no axis or scalar: fast_topk has"),
        ({"LIMITS": {"build_tree": {"mask_mode": 1}}}, "'mask_mode'] is 1, but should list the values that are taken"),
        ({"LIMITS": {"build_tree": {"mask_mode": ()}}}, "'mask_mode'] is (), but should list the values"),
        ({"LIMITS": {"build_tree": {"mask_mode": (0, 3)}}}, "lists 3, but should list values of the contract, 0 to 2"),
        ({"LIMITS": {"build_tree": {"node": (4,)}}}, "'node'] is (4,), but should be the least and the largest size"),
        ({"LIMITS": {"build_tree": {"node": (5, 4)}}}, "'node'] is (5, 4), but should be two sizes, the smaller one"),
        ({"LIMITS": {"build_tree": {"node": ("1", 4)}}}, "should be the least and the largest size that are taken"),
        ({"EMPTY": 0}, "mine.EMPTY is 0, but should be True or False"),
        ({"NORMALISED": "yes"}, "mine.NORMALISED is 'yes', but should be True or False"),
        ({"ACCEPTANCE": "few"}, 'mine.ACCEPTANCE is \'few\', but should be "any" or "draws", because nothing else'),
        ({"TIES": "lower"}, "mine.TIES is 'lower', but should be \"any\", because nothing else is a choice"),
    ],
)
def test_what_makes_no_sense_is_reported_in_one_line(declared, message):
    with pytest.raises(BadLimits) as refused:
        limits_of(declared, "mine")
    assert message in str(refused.value) and "\n" not in str(refused.value)
