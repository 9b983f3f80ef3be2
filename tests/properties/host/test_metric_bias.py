"""The bias of the old accept rate, as a formula: what the seeded faults M01 and M03 compute."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specsim.host.metrics import interval_rates
from specsim.properties.host.metrics.faults import MUTANTS

FAULTS = {mutant.id: mutant.inject(interval_rates) for mutant in MUTANTS if mutant.operation == "interval_rates"}
SIZES = st.integers(2, 64), st.integers(1, 200), st.data()


@given(*SIZES)
def test_the_old_rate_is_the_true_one_and_a_share_of_the_rest(num_nodes, num_verifies, data):
    num_drafts = data.draw(st.integers(0, num_verifies * (num_nodes - 1)))
    counts = (num_drafts, num_verifies, num_nodes - 1)
    alpha = Fraction(num_drafts, num_verifies * (num_nodes - 1))
    old = FAULTS["M01"](*counts).accept_rate
    assert old == float(alpha + (1 - alpha) / num_nodes)
    assert (num_nodes * old - 1) / (num_nodes - 1) == pytest.approx(interval_rates(*counts).accept_rate, abs=1e-12)
    assert old >= interval_rates(*counts).accept_rate
    assert FAULTS["M01"](*counts).tokens_per_verify == interval_rates(*counts).tokens_per_verify


@given(*SIZES)
def test_tokens_over_drafts_exceed_the_rate_by_one_share(num_nodes, num_verifies, data):
    num_drafts = data.draw(st.integers(0, num_verifies * (num_nodes - 1)))
    got = FAULTS["M03"](num_drafts, num_verifies, num_nodes - 1).accept_rate
    alpha = Fraction(num_drafts, num_verifies * (num_nodes - 1))
    assert got == float(alpha + Fraction(1, num_nodes - 1))


@pytest.mark.parametrize(
    ("num_requests", "num_nodes", "num_drafts", "old"),
    [(8, 4, 0, 0.25), (8, 4, 8, 0.5), (8, 4, 12, 0.625), (8, 4, 24, 1.0), (4, 6, 10, 0.5833)],
)
def test_k10_old_rates(num_requests, num_nodes, num_drafts, old):
    got = FAULTS["M01"](num_drafts, num_requests, num_nodes - 1).accept_rate
    assert got == pytest.approx(old, abs=5e-5)
