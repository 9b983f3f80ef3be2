import pytest

from specsim.host.sampling import GREEDY, SamplingParameters
from specsim.rejection import Reason, SpecRejection


def test_the_defaults_leave_the_law_as_it_is():
    one = SamplingParameters()
    assert (one.temperature, one.top_p, one.min_p, one.threshold_single, one.threshold_acc) == (1.0, 1.0, 0.0, 1.0, 1.0)
    assert not one.is_greedy
    assert GREEDY.is_greedy


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("temperature", -1.0, Reason.TEMPERATURE_OUT_OF_RANGE),
        ("temperature", 2.0**21, Reason.TEMPERATURE_OUT_OF_RANGE),
        ("temperature", 2.0**-21, Reason.TEMPERATURE_OUT_OF_RANGE),
        ("temperature", float("nan"), Reason.TEMPERATURE_OUT_OF_RANGE),
        ("temperature", float("inf"), Reason.TEMPERATURE_OUT_OF_RANGE),
        ("top_k", 0, Reason.COUNT_OUT_OF_RANGE),
        ("top_k", 2**31, Reason.COUNT_OUT_OF_RANGE),
        ("top_p", 0.0, Reason.PROBABILITY_OUT_OF_RANGE),
        ("top_p", 1.5, Reason.PROBABILITY_OUT_OF_RANGE),
        ("min_p", -0.1, Reason.PROBABILITY_OUT_OF_RANGE),
        ("threshold_single", 1.1, Reason.PROBABILITY_OUT_OF_RANGE),
        ("threshold_acc", float("nan"), Reason.PROBABILITY_OUT_OF_RANGE),
        ("seed", -1, Reason.SCALAR_OUT_OF_RANGE),
        ("seed", 2**32, Reason.SCALAR_OUT_OF_RANGE),
    ],
)
def test_a_parameter_outside_its_range_is_refused(name, value, reason):
    with pytest.raises(SpecRejection) as caught:
        SamplingParameters(**{name: value})
    assert caught.value.reason is reason
    assert caught.value.what == name


def test_a_refusal_says_what_was_expected():
    with pytest.raises(SpecRejection) as caught:
        SamplingParameters(top_p=0.0)
    assert str(caught.value) == (
        "PROBABILITY_OUT_OF_RANGE: top_p is 0.0, but should be above 0, at most 1, because a request is sampled with it"
    )


@pytest.mark.parametrize("temperature", [0.0, 2.0**-20, 2.0**20])
def test_the_ends_of_the_range_are_taken(temperature):
    assert SamplingParameters(temperature=temperature).temperature == temperature
