"""Agreement on all small trees, a property of which nothing is drawn: what came of it, and its smallest failure."""

from dataclasses import replace

from specsim.conformance.backend import Backend
from specsim.properties.property import Property
from specsim.properties.suite.conformance.report import Failure, PropertyReport
from specsim.properties.suite.conformance.running import call_law, failure_of
from specsim.properties.suite.small_trees.every import FORMS, cut_in_words
from specsim.properties.suite.small_trees.forms import Form
from specsim.properties.suite.small_trees.trial import Tried, try_all


def run_small_trees(one: Property, backend: Backend, num_nodes: int) -> tuple[PropertyReport, Failure | None]:
    """Try all small cases of the operation that a property of agreement is about; examples are cases."""
    form = FORMS[one.operations[0]]
    tried = try_all(form, backend, num_nodes)
    left_out = dict(tried.left_out)
    report = PropertyReport(tried.cases, tried.error is not None, missing=False, left_out=left_out, cut=tried.is_cut)
    if tried.is_cut:
        report = replace(report, inconclusive=cut_in_words(form.operation, tried.cases, num_nodes))
    return report, None if tried.error is None else _failure_of(one, backend, form, tried)


def _failure_of(one: Property, backend: Backend, form: Form, tried: Tried) -> Failure:
    """Return the failure of the cases that are left, as the law puts it where it sees it in them, too."""
    if tried.scope is None or tried.error is None:
        raise ValueError("nothing is wrong")
    arguments, error = form.arguments(tried.scope), tried.error
    try:
        call_law(one, backend, arguments)
    except Exception as broken:  # NOTE: an implementation under test may raise anything at all.
        error = broken
    return failure_of(one, backend, error, arguments)
