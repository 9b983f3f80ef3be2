import numpy as np
import pytest
from ml_dtypes import bfloat16

from specsim import Reason, SpecRejection, reference
from specsim.contracts.rounding import rounding_bound
from specsim.reference.closest import margin_of_filters
from specsim.reference.margins import MARGINS

INF = float("inf")


def test_penalties_and_bias_are_the_requests_and_the_mask_is_last(equal, f32, i32):
    got = reference.prepare_logits(
        f32([[4, -4, 1], [8, -8, 2], [1, 1, 1], [0, 0, 0]]),
        f32([[2, 2, 1], [1, 4, 1]]),
        f32([[-1, 0, 0], [0, -2, 0]]),
        f32([[0, 0, 5], [0, 0, 100]]),
        i32([[7], [7], [3], [7]]),
        2,
    )
    equal(got, f32([[1.5, -8, 6], [3.5, -16, 7], [1, -4, -INF], [0, -8, 100]]))


def test_absent_steps_leave_logits_alone(equal, f32):
    got = reference.prepare_logits(np.array([[1.5, -INF]], dtype=bfloat16), None, None, None, None, 1)
    equal(got, f32([[1.5, -INF]]))


def test_the_mask_has_32_tokens_a_word(equal, f32, i32):
    got = reference.prepare_logits(f32(np.zeros((1, 34))), None, None, None, i32([[-(2**31), 2]]), 1)
    assert np.flatnonzero(np.isfinite(got[0])).tolist() == [31, 33]


def test_top_k_keeps_ties(equal, f32, i32):
    got = reference.top_k_renorm(f32([[0.5, 0.25, 0.25, 0], [0.5, 0.25, 0.25, 0], [4, 2, 1, 1]]), i32([1, 2, 9]))
    equal(got, f32([[1, 0, 0, 0], [0.5, 0.25, 0.25, 0], [0.5, 0.25, 0.125, 0.125]]))


@pytest.mark.parametrize(
    ("top_p", "expected"),
    [(0.5, [1, 0, 0]), (0.625, [0.5, 0.25, 0.25]), (1.0, [0.5, 0.25, 0.25]), (2.0**-20, [1, 0, 0])],
)
def test_top_p_keeps_the_least_mass_that_reaches_it(top_p, expected, equal, f32):
    equal(reference.top_p_renorm(f32([[0.5, 0.25, 0.25]]), f32([top_p])), f32([expected]))


def test_top_p_is_a_share_of_the_rows_mass(equal, f32):
    equal(reference.top_p_renorm(f32([[4, 2, 2]]), f32([0.5])), f32([[1, 0, 0]]))


def test_top_p_of_what_it_kept_may_keep_less(equal, f32):
    """Of .4 .35 .25 two tokens reach a half, and of these alone the first does."""
    half = f32([0.5])
    kept = reference.top_p_renorm(f32([[8, 7, 5]]), half)
    assert (kept > 0).tolist() == [[True, True, False]]
    equal(reference.top_p_renorm(kept, half), f32([[1, 0, 0]]))


@pytest.mark.parametrize(("min_p", "expected"), [(0.0, [0.5, 0.25, 0.25]), (0.5, [0.5, 0.25, 0.25]), (0.75, [1, 0, 0])])
def test_min_p_is_a_share_of_the_largest(min_p, expected, equal, f32):
    equal(reference.min_p_renorm(f32([[0.5, 0.25, 0.25]]), f32([min_p])), f32([expected]))


def test_temperature_0_takes_the_first_largest_logit(equal, f32, i32):
    got = reference.target_probabilities(f32([[1, 3, 3]]), f32([0]), i32([1]), f32([0.1]), f32([1]), 1)
    equal(got, f32([[0, 1, 0]]))


def test_filters_follow_one_another_and_belong_to_the_request(f32, i32):
    logits = np.log(f32([[5, 3, 2], [5, 3, 2], [5, 3, 2], [5, 3, 2]]))
    got = reference.target_probabilities(logits, f32([1, 1]), i32([2, 3]), f32([0.6, 1]), f32([0, 0.5]), 2)
    expected = [[1, 0, 0], [1, 0, 0], [0.625, 0.375, 0], [0.625, 0.375, 0]]
    np.testing.assert_allclose(got, f32(expected), rtol=1e-6)


def test_top_p_after_top_k_sees_what_top_k_left(f32, i32):
    logits = np.log(f32([[5, 3, 2]]))
    only_p = reference.target_probabilities(logits, f32([1]), i32([3]), f32([0.6]), f32([0]), 1)
    assert (only_p > 0).tolist() == [[True, True, False]]


@pytest.mark.parametrize(
    ("change", "reason", "what"),
    [
        ({"logits": [[INF, 0.0]]}, Reason.INFINITE_LOGIT, "logits[0, 0]"),
        ({"logits": [[-INF, -INF]]}, Reason.EMPTY_DISTRIBUTION, "logits[0]"),
        ({"logits": [[float("nan"), 0.0]]}, Reason.NAN_SCORE, "logits[0, 0]"),
        ({"temperature": [1e-30]}, Reason.TEMPERATURE_OUT_OF_RANGE, "temperature[0]"),
        ({"temperature": [-1.0]}, Reason.TEMPERATURE_OUT_OF_RANGE, "temperature[0]"),
        ({"top_p": [0.0]}, Reason.PROBABILITY_OUT_OF_RANGE, "top_p[0]"),
        ({"top_p": [1.0000001]}, Reason.PROBABILITY_OUT_OF_RANGE, "top_p[0]"),
        ({"top_k": [0]}, Reason.COUNT_OUT_OF_RANGE, "top_k[0]"),
    ],
)
def test_target_probabilities_reject(change, reason, what, f32, i32):
    arguments = {"logits": [[0.0, 1.0]], "temperature": [1.0], "top_k": [1], "top_p": [1.0], "min_p": [0.0], **change}
    arrays = {name: (i32 if name == "top_k" else f32)(value) for name, value in arguments.items()}
    with pytest.raises(SpecRejection) as caught:
        reference.target_probabilities(**arrays, num_draft_tokens=1)
    assert (caught.value.reason, caught.value.what) == (reason, what)


@pytest.mark.parametrize("name", ["top_k", "top_p", "min_p"])
def test_a_row_without_mass_is_rejected(name, f32, i32):
    operation = getattr(reference, f"{name}_renorm")
    with pytest.raises(SpecRejection) as caught:
        operation(f32([[1, 0], [0, 0]]), (i32 if name == "top_k" else f32)([1, 1]))
    assert (caught.value.reason, caught.value.what) == (Reason.EMPTY_DISTRIBUTION, "probabilities[1].sum()")


def test_a_scale_of_zero_is_rejected(f32):
    with pytest.raises(SpecRejection) as caught:
        reference.prepare_logits(f32([[1, 2]]), f32([[1, 0]]), None, None, None, 1)
    assert (caught.value.reason, caught.value.what) == (Reason.INFINITE_LOGIT, "scaling_penalty[0, 1]")


@pytest.mark.parametrize(
    ("name", "share", "margin"),
    [
        ("top_p", 0.5, 0),
        ("top_p", 0.75, 0.25),
        ("top_p", 1, INF),
        ("min_p", 0.5, 0),
        ("min_p", 0.25, 1),
        ("min_p", 0, INF),
    ],
)
def test_margins_say_how_far_the_nearest_mass_or_token_lies(name, share, margin, f32):
    call = {"probabilities": f32([[0.5, 0.25, 0.25]]), name: f32([share])}
    assert MARGINS[f"{name}_renorm"](call).tolist() == [margin / rounding_bound(3)]


def test_a_share_below_the_largest_probability_is_itself_the_margin(f32):
    call = {"probabilities": f32([[0.5, 0.25, 0.25]]), "top_p": f32([0.125])}
    assert MARGINS["top_p_renorm"](call).tolist() == [0.125 / rounding_bound(3)]


def test_equal_logits_have_no_margin_and_close_ones_a_small_one(f32):
    assert margin_of_filters(f32([0, 0, -5]), 1.0, 1, 1.0, 0.0) > 0.9
    assert margin_of_filters(f32([1e-9, 0, -5]), 1.0, 1, 1.0, 0.0) == 0
    assert margin_of_filters(f32([3, 1, -5]), 0.0, 1, 0.5, 1.0) == INF


def test_margins_count_roundings(f32):
    call = {"probabilities": f32([[0.5, 0.25, 0.25], [1, 0, 0]]), "top_p": f32([0.75, 1.0])}
    assert MARGINS["top_p_renorm"](call).tolist() == [0.25 / rounding_bound(3), INF]
