"""What is drawn for mutants: as varied as what a strategy can draw."""

from collections import Counter

import pytest
from hypothesis import strategies as st

from specsim.properties.operations.generated.rejections import reason_of
from specsim.properties.property import Property
from specsim.properties.suite.catalogue import property_named
from specsim.properties.suite.hunt.cases import draw_cases
from specsim.rejection import Reason

OF_ANY_ARGUMENT = {
    Reason.MISSING_ARGUMENT,
    Reason.WRONG_DTYPE,
    Reason.WRONG_SHAPE,
    Reason.TOKEN_OUT_OF_RANGE,
    Reason.PROBABILITY_OUT_OF_RANGE,
}


@pytest.mark.parametrize("seed", range(3))
def test_no_first_choice_is_left_out_because_the_simplest_case_has_it(seed):
    one = Property("any.kind", "", (), lambda: st.tuples(st.sampled_from("abc"), st.integers(0, 2**32)), print)
    kinds = Counter(kind for kind, _ in draw_cases(one, seed, 60))
    assert min(kinds[kind] for kind in "abc") > 8, kinds


@pytest.mark.parametrize("operation", ["min_p_renorm", "verify_tree_greedy", "build_tree"])
def test_bad_calls_have_faults_of_many_kinds(operation):
    one = property_named(f"rejection.{operation}")
    for seed in range(2):
        reasons = Counter(reason_of(operation, case) for case in draw_cases(one, seed, 40))
        assert sum(reasons[reason] for reason in OF_ANY_ARGUMENT) >= 10, reasons
        assert sum(reasons[reason] for reason in reasons.keys() - OF_ANY_ARGUMENT) >= 5, reasons
        assert max(reasons.values()) <= 30, reasons


def test_an_interrupt_before_a_case_is_drawn_stays_one(monkeypatch):
    """Hypothesis fails by an assertion of its own there."""

    def interrupt(_):
        raise KeyboardInterrupt

    monkeypatch.setattr("hypothesis.core.function_digest", interrupt)
    with pytest.raises(KeyboardInterrupt):
        draw_cases(property_named("agreement.fast_topk"), 1, 2)
