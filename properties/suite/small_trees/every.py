"""The operations of which all small trees are tried, and how many cases that is."""

from itertools import islice

from specsim.conformance.limits import Limits
from specsim.properties.suite.small_trees import drafts, kept, walks
from specsim.properties.suite.small_trees.forms import Form
from specsim.properties.suite.small_trees.trial import calls_of

FORMS: dict[str, Form] = {form.operation: form for form in (*drafts.FORMS, *walks.FORMS, *kept.FORMS)}
"""The operations of which all calls can be made, up to a number of nodes."""

NUM_NODES = 8
"""Nodes of the largest trees, where nothing else is said."""

MOST_CASES = 10_000_000
"""Cases of an operation: minutes on a GPU."""

AGREEMENT = "agreement."


def property_of(operation: str) -> str:
    """Return the name of the property that states what holds in all cases of an operation."""
    return f"{AGREEMENT}{operation}"


def operation_of(name: str) -> str:
    """Return the operation whose cases a property of that name is about."""
    return name.removeprefix(AGREEMENT)


def cut_in_words(operation: str, num_cases: int, num_nodes: int) -> str:
    """Return what is said where the time was not enough for all cases."""
    return f"time was enough for {num_cases:,} of {FORMS[operation].count_up_to(num_nodes):,} cases"


def cases_of(operation: str, limits: Limits, num_nodes: int, num_calls: int, *, interpreted: bool) -> int:
    """Return how many cases the first calls of an operation have together."""
    calls = calls_of(FORMS[operation], limits, num_nodes, interpreted=interpreted)
    return sum(map(len, islice(calls, num_calls)))
