"""Every situation that ``check --reach`` requires is drawn with its share: no run misses one by bad luck."""

from collections import Counter

import pytest

from specsim.conformance.backend import load
from specsim.conformance.limits import NO_LIMITS, Limits
from specsim.operations import RECORDS
from specsim.properties.reach.counting import counting_reach
from specsim.properties.reach.situations import SITUATIONS, situations_of, tags_of, tell_situations
from specsim.properties.suite.catalogue import properties_by_name
from specsim.properties.suite.hunt.cases import draw_cases

CASES = 60
ORACLE = load("specsim.reference")
OPERATIONS = [name for name in RECORDS if situations_of(name)]


@pytest.mark.parametrize("operation", OPERATIONS)
def test_examples_come_to_each_situation_with_its_share(operation):
    shares = Counter()
    for case in draw_cases(properties_by_name()[f"agreement.{operation}"], 0, CASES):
        with counting_reach() as counts:
            tell_situations(operation, case, ORACLE.run(operation, case).outputs)
        shares.update(counts)
    rare = {one.tag: shares[one.tag] for one in situations_of(operation) if shares[one.tag] < one.share * CASES}
    assert not rare, f"of {CASES} cases"


def test_every_situation_belongs_to_an_operation_once():
    assert {one.tag for name in OPERATIONS for one in situations_of(name)} == {one.tag for one in SITUATIONS}
    assert all(len(set(tags)) == len(tags) for tags in (tags_of(name, NO_LIMITS) for name in OPERATIONS))


def test_what_limits_leave_out_is_not_required():
    tags = tags_of("verify_tree_greedy", NO_LIMITS)
    without = tags_of("verify_tree_greedy", Limits(has_distinct_siblings=True))
    assert set(tags) - set(without) == {"equal siblings"}
    assert tags_of("verify_tree_greedy", Limits(values={"verify_tree_greedy": {"node": range(2, 9)}})) == ()
