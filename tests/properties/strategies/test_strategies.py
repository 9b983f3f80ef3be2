import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from specsim.operations import RECORDS
from specsim.properties import strategies
from specsim.validation.checking import check_call

BRIEFLY = settings(max_examples=40, deadline=None, database=None, suppress_health_check=list(HealthCheck))


@pytest.mark.parametrize("operation", RECORDS)
def test_every_drawn_call_is_valid(operation: str) -> None:
    @BRIEFLY
    @given(strategies.for_operation(operation))
    def check(arguments: strategies.Arguments) -> None:
        assert set(arguments) == {spec.name for spec in RECORDS[operation].contract.parameters}
        check_call(operation, arguments)

    check()


@pytest.mark.parametrize("operation", RECORDS)
def test_every_layout_is_valid_and_changes_no_value(operation: str) -> None:
    @BRIEFLY
    @given(strategies.in_any_layout(operation))
    def check(arguments: strategies.Arguments) -> None:
        check_call(operation, arguments)

    check()


@pytest.mark.parametrize("operation", RECORDS)
def test_an_empty_batch_can_be_asked_for(operation: str) -> None:
    @settings(BRIEFLY, max_examples=10)
    @given(strategies.for_operation(operation, max_requests=0), st.none())
    def check(arguments: strategies.Arguments, _: None) -> None:
        axes = check_call(operation, arguments)
        assert 0 in [axes.get(name) for name in ("request", "row", "token", "pair")]

    check()


def test_a_missing_strategy_is_named_with_its_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr("specsim.properties.strategies.tree.build_tree")
    with pytest.raises(NotImplementedError, match=r"there is no strategy of build_tree; write it in .*/tree\.py"):
        strategies.for_operation("build_tree")
