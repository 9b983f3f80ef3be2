import pytest

from specsim.host.simulated import simulated_num_tokens
from specsim.rejection import Reason, SpecRejection


def test_k12_two_of_three_tenths():
    samples = [place / 1000 for place in range(1000)]
    counts = [simulated_num_tokens(2.3, 3, "match-expected", sample) for sample in samples]
    assert (counts.count(3), counts.count(2)) == (300, 700)


@pytest.mark.parametrize(
    ("mean", "sample", "expected"),
    [(2.3, 0.0, 2), (2.3, 0.2, 2), (2.3, 0.3, 3), (2.5, 0.0, 2), (3.5, 0.0, 4), (1.0, -9.0, 1), (3.0, 9.0, 4)],
)
def test_multinomial_rounds_half_to_even_and_stays_on_the_path(mean, sample, expected):
    assert simulated_num_tokens(mean, 3, "multinomial", sample) == expected


@pytest.mark.parametrize(("mean", "expected"), [(0.2, 1), (9.0, 4), (4.0, 4)])
@pytest.mark.parametrize("sample", [0.0, 0.999])
def test_a_mean_outside_is_clipped(mean, expected, sample):
    assert simulated_num_tokens(mean, 3, "match-expected", sample) == expected


@pytest.mark.parametrize("mean", [0.0, -1.0])
def test_it_is_off(mean):
    assert simulated_num_tokens(mean, 3, "match-expected", 0.5) is None


@pytest.mark.parametrize(
    ("mean", "method", "sample", "what"),
    [
        (2.0, "poisson", 0.5, "method"),
        (2.0, "match-expected", 1.0, "sample"),
        (2.0, "match-expected", -0.1, "sample"),
        (float("nan"), "multinomial", 0.5, "mean"),
        (2.0, "multinomial", float("inf"), "sample"),
    ],
)
def test_what_cannot_be_drawn_is_refused(mean, method, sample, what):
    with pytest.raises(SpecRejection) as caught:
        simulated_num_tokens(mean, 3, method, sample)
    assert (caught.value.reason, caught.value.what) == (Reason.SCALAR_OUT_OF_RANGE, what)
