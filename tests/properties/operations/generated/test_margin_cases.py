"""What differs where rounding decides is counted; what differs elsewhere fails."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import strategies as st

from specsim.conformance.backend import load
from specsim.conformance.outcomes import Observation, first_difference
from specsim.properties.operations.generated.agreement import agrees_with_the_reference, require_same_outputs
from specsim.properties.operations.generated.margin_cases import counting, difference_beyond_margins, near_boundaries
from specsim.properties.suite.catalogue import all_properties, property_named
from specsim.properties.suite.conformance import runner
from specsim.properties.suite.conformance.runner import check
from specsim.properties.suite.conformance.running import run_property

REFERENCE = load("specsim.reference")
TOP_P = "top_p_renorm"
AT_A_BOUNDARY = {
    "probabilities": np.array([[0.5, 0.25, 0.25], [0.5, 0.25, 0.25]], dtype=np.float32),
    "top_p": np.array([0.5, 0.6], dtype=np.float32),
}


def keeping(*rows):
    return Observation({"renormalised": np.array(rows, dtype=np.float32)})


RIGHT = keeping([1, 0, 0], [0.5, 0.25, 0.25])


def test_a_row_at_its_boundary_may_fall_either_way():
    assert near_boundaries(TOP_P, AT_A_BOUNDARY).tolist() == [True, False]
    with counting() as count:
        assert (
            difference_beyond_margins(TOP_P, AT_A_BOUNDARY, RIGHT, keeping([0.5, 0.25, 0.25], [0.5, 0.25, 0.25]))
            is None
        )
    assert count.calls == 1


def test_a_row_elsewhere_may_not():
    got = keeping([0.5, 0.25, 0.25], [1, 0, 0])
    with counting() as count:
        difference = difference_beyond_margins(TOP_P, AT_A_BOUNDARY, RIGHT, got)
    assert difference == "renormalised[1, 0] = 1.0, but should be 0.5"
    assert count.calls == 0


def test_agreement_that_needs_no_margin_is_not_counted():
    with counting() as count:
        assert difference_beyond_margins(TOP_P, AT_A_BOUNDARY, RIGHT, RIGHT) is None
    assert count.calls == 0


@pytest.mark.parametrize(("got", "is_same"), [(0.5 * (1 + 1e-6), True), (0.5 * (1 + 1e-5), False)])
def test_probabilities_may_be_rounded_otherwise(got, is_same):
    difference = first_difference(TOP_P, AT_A_BOUNDARY, RIGHT, keeping([1, 0, 0], [got, 0.25, 0.25]))
    assert (difference is None) == is_same


@pytest.mark.parametrize(("got", "is_same"), [(1e-31, True), (1e-29, False)])
def test_nothing_is_promised_below_underflow(got, is_same):
    difference = first_difference(TOP_P, AT_A_BOUNDARY, RIGHT, keeping([1, got, 0], [0.5, 0.25, 0.25]))
    assert (difference is None) == is_same


def test_what_an_operation_writes_is_compared_bit_for_bit():
    strategy = property_named("agreement.tree_speculative_sampling_target_only")

    def rounded(*args, **kwargs):
        outputs = REFERENCE.functions["tree_speculative_sampling_target_only"](*args, **kwargs)
        kwargs["draft_probs"] *= np.float32(1 + 2.0**-23)
        return outputs

    faulty = REFERENCE.with_function("tree_speculative_sampling_target_only", rounded, "rounded")
    report, failure = run_property(strategy, faulty, 1, 60, is_shrunk=False)
    assert report.failed
    assert "draft_probs" in failure.message


def test_operations_of_integers_have_no_margin():
    assert near_boundaries("verify_tree_greedy", {}) is None


def other_side(probabilities, top_p):
    """Decide as if every share were a little larger, as far as rounding may move it."""
    kept = REFERENCE.functions[TOP_P](probabilities, np.minimum(top_p * np.float32(1 + 1e-6), np.float32(1)))
    return np.where((top_p < 1)[:, None], kept, REFERENCE.functions[TOP_P](probabilities, top_p))


def test_a_run_counts_examples_of_either_side_and_adds_them_up(monkeypatch):
    backend = REFERENCE.with_function(TOP_P, other_side, "other side")
    elsewhere = {**AT_A_BOUNDARY, "top_p": np.array([0.6, 0.6], dtype=np.float32)}
    agreement = property_named(f"agreement.{TOP_P}")
    one = replace(agreement, strategy=lambda: st.sampled_from([AT_A_BOUNDARY, elsewhere]))
    monkeypatch.setattr(runner, "all_properties", lambda: (one, replace(one, name=f"{one.name}_again")))
    report = check(backend, seed=1, max_examples=20, operations=[TOP_P])
    found = [(each.failed, each.margin_cases, each.examples) for each in report.properties.values()]
    assert found == [(False, 1, 2)] * 2
    assert report.margin_cases == 2


def test_a_run_of_drawn_cases_excuses_what_lies_at_a_boundary():
    backend = REFERENCE.with_function(TOP_P, other_side, "other side")
    report = check(backend, seed=1, max_examples=150, operations=[TOP_P])
    named = report.properties[f"agreement.{TOP_P}"]
    assert not named.failed
    assert named.margin_cases < named.examples
    assert report.margin_cases == sum(one.margin_cases for one in report.properties.values())


def test_a_law_on_exact_rows_excuses_no_margin():
    backend = REFERENCE.with_function(TOP_P, other_side, "other side")
    exact = next(one for one in all_properties() if one.name.endswith("top_p_keeps_the_least_mass_that_suffices"))
    report, _ = run_property(exact, backend, 1, 60, is_shrunk=False)
    assert report.failed


def test_rows_far_from_a_boundary_must_agree():
    def shifted(probabilities, top_p):
        return REFERENCE.functions[TOP_P](probabilities, np.maximum(top_p - np.float32(0.1), np.float32(0.01)))

    case = {**AT_A_BOUNDARY, "top_p": np.array([0.55, 0.6], dtype=np.float32)}
    with pytest.raises(AssertionError, match=r"top_p_renorm: renormalised\[0, 0\]"):
        agrees_with_the_reference(TOP_P, REFERENCE.with_function(TOP_P, shifted, "shifted"), case)


def test_outcomes_are_compared_with_their_margins():
    expected, got = REFERENCE.run(TOP_P, AT_A_BOUNDARY), REFERENCE.run(TOP_P, AT_A_BOUNDARY)
    got.outputs["renormalised"][0] = AT_A_BOUNDARY["probabilities"][0]
    require_same_outputs(TOP_P, AT_A_BOUNDARY, expected, got)
