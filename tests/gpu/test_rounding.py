"""Kernels on rows where rounding matters, and on input that the contract refuses where entries are not checked."""

import pytest

from specsim.conformance.backend import load
from specsim.properties.suite.catalogue import all_properties, group_of
from specsim.properties.suite.conformance.unpromised import behaviour_of
from specsim.properties.suite.hunt.cases import draw_cases

GPU = load("specsim.gpu")
LAWS = {one.name: one for one in all_properties() if group_of(one) == "rounding"}


@pytest.mark.parametrize("name", LAWS)
def test_kernels_move_a_law_no_more_than_rounding_its_inputs(name):
    for case in draw_cases(LAWS[name], 1, 3):
        LAWS[name].law(GPU, case)


@pytest.mark.parametrize(
    "operation",
    ["chain_speculative_sampling", "chain_block_verification", "sample_target_predict", "top_k_renorm"],
)
def test_kernels_stay_inside_their_bounds_unchecked(operation):
    got = behaviour_of(GPU, operation, seed=1, max_examples=10)
    assert got.strayed == ""
    assert got.calls > 2
