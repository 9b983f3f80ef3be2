"""What a failure shows: outputs that have to be wrong for it, and arguments that have to be unusual."""

import numpy as np
import pytest

from specsim.conformance.backend import load
from specsim.properties.suite.catalogue import property_named
from specsim.properties.suite.conformance.evidence import Evidence
from specsim.properties.suite.conformance.running import run_property
from tests.properties.laws.planted_samplers import tree_sampler

REFERENCE = load("specsim.reference")
SAMPLER = "tree_speculative_sampling_target_only"
LAW, REMEMBERED = "sampling_law.tree_emits_the_targets_law", "acceptance.rejected_children_are_remembered"
LOWER = "sampling_law.lower_thresholds_only_raise_acceptance"


def no_thresholds(**arguments):
    """Sample without thresholds below 1, and leave the scratch memory alone."""
    whole = np.ones_like(arguments["threshold_single"])
    return tree_sampler("SYN6")(**{**arguments, "threshold_single": whole, "threshold_acc": whole})


@pytest.mark.parametrize(
    ("name", "wrong", "needs"),
    [(LAW, "predict", ()), (REMEMBERED, "draft_probs", ()), (LOWER, "predict", ("threshold_single", "threshold_acc"))],
)
def test_each_cause_of_a_sampler_with_three_shows_itself(name, wrong, needs):
    planted = REFERENCE.with_function(SAMPLER, no_thresholds, "planted")
    _, failure = run_property(property_named(name), planted, 1, 20)
    assert wrong in failure.evidence.wrong and ("draft_probs" in failure.evidence.wrong) == (wrong == "draft_probs")
    assert bool(failure.evidence.needs) == bool(needs) and set(failure.evidence.needs) <= set(needs)


def test_the_case_of_a_law_is_a_call_with_a_wrong_result_and_not_one_that_differs_in_scratch_memory_alone():
    planted = REFERENCE.with_function(SAMPLER, no_thresholds, "planted")
    _, failure = run_property(property_named(LAW), planted, 1, 20)
    outputs = [one.run(SAMPLER, failure.case).outputs["predict"] for one in (REFERENCE, planted)]
    assert (outputs[0] != outputs[1]).any() and len(failure.case["candidates"]) == 1


def test_an_operation_of_one_output_shows_that():
    def one_off(values, k):
        kept, index = REFERENCE.functions["fast_topk"](values, k)
        return kept, index[:, ::-1].copy()

    planted = REFERENCE.with_function("fast_topk", one_off, "planted")
    _, failure = run_property(property_named("agreement.fast_topk"), planted, 1, 20)
    assert failure.evidence == Evidence(("topk_index",))
