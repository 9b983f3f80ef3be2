import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from ml_dtypes import bfloat16

from specsim.operations import RECORDS
from specsim.properties import strategies
from specsim.properties.strategies.arrays import any_layout
from specsim.validation.checking import check_call

BRIEFLY = settings(max_examples=20, deadline=None, database=None, suppress_health_check=list(HealthCheck))


@pytest.mark.parametrize("operation", RECORDS)
def test_every_drawn_call_is_valid_in_any_layout_with_the_same_values(operation: str) -> None:
    plain = strategies.for_operation(operation)

    @BRIEFLY
    @given(plain.flatmap(lambda arguments: st.tuples(st.just(arguments), any_layout(operation, arguments))))
    def check(case: tuple[strategies.Arguments, strategies.Arguments]) -> None:
        arguments, laid_out = case
        assert set(arguments) == {spec.name for spec in RECORDS[operation].contract.parameters}
        assert check_call(operation, arguments) == check_call(operation, laid_out)
        np.testing.assert_equal(comparable(laid_out), comparable(arguments))

    check()


def comparable(arguments: strategies.Arguments) -> strategies.Arguments:
    """Return the call with bfloat16 as float32: NumPy takes no NaN of another library's type for equal to itself."""
    return {
        name: value.astype(np.float32) if getattr(value, "dtype", None) == bfloat16 else value
        for name, value in arguments.items()
    }


@pytest.mark.parametrize("operation", RECORDS)
def test_an_empty_batch_can_be_asked_for(operation: str) -> None:
    @settings(BRIEFLY, max_examples=10)
    @given(strategies.for_operation(operation, max_requests=0), st.none())
    def check(arguments: strategies.Arguments, _: None) -> None:
        axes = check_call(operation, arguments)
        assert 0 in [axes.get(name) for name in ("request", "row", "token", "pair")]

    check()


def test_a_missing_strategy_is_named_with_its_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr("specsim.properties.operations.tree.strategy.build_tree")
    with pytest.raises(
        NotImplementedError, match=r"there is no strategy of build_tree; write it in .*/tree/strategy\.py"
    ):
        strategies.for_operation("build_tree", max_requests=1789)  # What other tests have asked for is kept.
