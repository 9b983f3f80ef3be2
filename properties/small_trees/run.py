"""Agreement on all small trees, a property of which nothing is drawn: what came of it, and its smallest failure."""

from dataclasses import replace
from itertools import islice

from specsim.conformance.backend import Backend
from specsim.conformance.limits import Limits
from specsim.properties.conformance.report import Failure, PropertyReport
from specsim.properties.conformance.running import call_law, failure_of
from specsim.properties.property import Property
from specsim.properties.small_trees import drafts, kept, walks
from specsim.properties.small_trees.forms import Form
from specsim.properties.small_trees.trial import Tried, calls_of, try_all

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


def run_small_trees(one: Property, backend: Backend, num_nodes: int) -> tuple[PropertyReport, Failure | None]:
    """Try all small cases of the operation that a property of agreement is about; examples are cases."""
    form = FORMS[one.operations[0]]
    tried = try_all(form, backend, num_nodes)
    left_out = dict(tried.left_out)
    report = PropertyReport(tried.cases, tried.error is not None, missing=False, left_out=left_out, cut=tried.is_cut)
    if tried.is_cut:
        report = replace(report, inconclusive=cut_in_words(form.operation, tried.cases, num_nodes))
    return report, None if tried.error is None else _failure_of(one, backend, form, tried)


def cut_in_words(operation: str, num_cases: int, num_nodes: int) -> str:
    """Return what is said where the time was not enough for all cases."""
    return f"time was enough for {num_cases:,} of {FORMS[operation].count_up_to(num_nodes):,} cases"


def cases_of(operation: str, limits: Limits, num_nodes: int, num_calls: int, *, interpreted: bool) -> int:
    """Return how many cases the first calls of an operation have together."""
    calls = calls_of(FORMS[operation], limits, num_nodes, interpreted=interpreted)
    return sum(map(len, islice(calls, num_calls)))


def _failure_of(one: Property, backend: Backend, form: Form, tried: Tried) -> Failure:
    """Return the failure of the cases that are left, as the law puts it where it sees it in them, too."""
    if tried.scope is None or tried.error is None:
        raise ValueError("nothing is wrong")
    arguments, error = form.pack(tried.scope), tried.error
    try:
        call_law(one, backend, arguments)
    except Exception as broken:  # NOTE: an implementation under test may raise anything at all.
        error = broken
    return failure_of(one, backend, error, arguments)
