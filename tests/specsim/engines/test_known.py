"""Known failures of adapters are known by their causes, and hide no other."""

from pathlib import Path

import pytest
from packaging.version import Version

from specsim.conformance.known import read_known
from specsim.properties.suite.catalogue import all_properties

NOTHING_LEFT = "probability tensor contains either `inf`, `nan` or element < 0"


@pytest.mark.parametrize(
    ("name", "message", "is_known"),
    [
        ("poison.chain_speculative_sampling", NOTHING_LEFT, True),
        ("chains.chains_are_sampled_one_by_one", NOTHING_LEFT, True),
        ("poison.chain_speculative_sampling", "output_tokens[0, 1] = 3, but should be 2", False),
        ("chains.ratios_decide_as_stated", "output 0[1] = 0, but should be 1", True),
        ("chains.ratios_decide_as_stated", "output 0 = nothing, but should be int32 [1, 2]", False),
        ("chains.chains_output_drafts_and_one_token", "the target's chances of accepted drafts = [0.0], but …", True),
        ("chains.chains_output_drafts_and_one_token", "the accepted drafts = [0], but …", False),
        ("sampling_chain_law.acceptance_is_the_overlap", "outcome at coins [0.0, 0.0] = (1, 0), but should be", False),
        (
            "sampling_chain_law.acceptance_is_the_overlap",
            "outcome at coins [0.0, 0.0] = (1, 0), but should be (0,) as in its cell",
            True,
        ),
        (
            "sampling_chain_law.acceptance_is_the_overlap",
            "outcome at coins [0.0, 0.5] = (1, 0), but should be (0,) as in its cell",
            False,
        ),
        ("sampling_chain_law.acceptance_is_the_overlap", "the overlap = 1/2, but should be 1/4", False),
    ],
)
def test_the_causes_that_transformers_is_known_for_hide_no_other(name, message, is_known):
    path = Path(__file__).parents[3] / "specsim" / "engines" / "transformers" / "known.toml"
    properties = [one.name for one in all_properties()]
    entries = read_known(path, properties, Version("5.23.0"))
    operation = "chain_speculative_sampling"
    assert name in properties
    assert any(entry.matches(operation, name, message) for entry in entries) == is_known
    assert not any(entry.matches("top_k_renorm", name, message) for entry in entries)


@pytest.mark.parametrize(
    ("message", "is_known"),
    [
        ("the parent of kept candidate 3 = 0, but should be kept before", True),
        ("kept candidates = 3, but should be 4", False),
    ],
)
def test_a_child_without_its_parent_is_what_sglang_is_known_for_and_nothing_beside(message, is_known):
    path = Path(__file__).parents[3] / "specsim" / "engines" / "sglang" / "known.toml"
    name = "draft.kept_paths_are_whole"
    entries = read_known(path, [one.name for one in all_properties()], Version("0.5.23"))
    assert any(entry.matches("select_top_k_tokens", name, message) for entry in entries) == is_known


@pytest.mark.parametrize(
    ("outcome", "is_known"), [("[0]", True), ("[2, 0]", True), ("[1]", False), ("[0, 1]", False), ("[10]", False)]
)
def test_token_0_where_nothing_is_left_is_what_vllm_is_known_for_and_nothing_beside(outcome, is_known):
    path = Path(__file__).parents[3] / "specsim" / "engines" / "vllm" / "known.toml"
    name = "rounding.chain_moves_no_more_than_its_inputs"
    message = f"tokens at coins [0.5, 0.0], draft [1] of 2, first row (0,1), [1] = {outcome}, but should be [1]"
    entries = read_known(path, [one.name for one in all_properties()], Version("0.33.0"))
    assert any(entry.matches("chain_speculative_sampling", name, message) for entry in entries) == is_known
