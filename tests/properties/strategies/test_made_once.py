import pytest

from specsim.conformance.limits import NO_LIMITS, Limits
from specsim.properties.strategies import for_operation
from specsim.properties.strategies.limits import drawing_at_most, drawing_within
from specsim.properties.strategies.numbers import drawing_entries
from specsim.properties.strategies.scale import drawing_for_interpreter

OPERATION = "verify_tree_greedy"


def test_a_strategy_is_made_once():
    assert for_operation(OPERATION) is for_operation(OPERATION)
    with drawing_within(NO_LIMITS, [OPERATION]):
        assert for_operation(OPERATION) is for_operation(OPERATION)


def test_other_arguments_have_a_strategy_of_their_own():
    assert for_operation(OPERATION, 1) is not for_operation(OPERATION, True)
    assert for_operation(OPERATION, 1) is not for_operation(OPERATION, 2)


@pytest.mark.parametrize(
    "inside",
    [
        drawing_entries,
        drawing_for_interpreter,
        lambda: drawing_at_most({"node": 2}),
        lambda: drawing_within(Limits(takes_empty=False), [OPERATION]),
    ],
    ids=["entries", "interpreter", "ceilings", "limits"],
)
def test_other_surroundings_have_a_strategy_of_their_own(inside):
    outside = for_operation(OPERATION)
    with inside():
        assert for_operation(OPERATION) is not outside
    assert for_operation(OPERATION) is outside
