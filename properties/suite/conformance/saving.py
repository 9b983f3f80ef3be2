"""Cases of failures: a call with what the reference gives for it and what the implementation gave."""

from collections.abc import Mapping
from typing import Any

from specsim.conformance.backend import Backend, load
from specsim.conformance.cases import Case, case_arguments
from specsim.conformance.outcomes import Observation, observe
from specsim.conformance.stored import Provenance
from specsim.properties.operations.generated.margin_cases import difference_beyond_margins
from specsim.properties.suite.conformance.report import Failure


def case_of(failure: Failure, backend: Backend, provenance: Provenance) -> tuple[Case, str]:
    """Call the operation of a failure again; return the case, and where its outputs differ first.

    Parameters
    ----------
    failure : Failure
        Its case is a call.
    """
    with backend.arrays.debugging():
        observed = observe(backend, failure.operation, case_arguments(failure.operation, failure.case or {}))
    case = case_that(failure, observed, provenance)
    return case, difference_beyond_margins(failure.operation, case.arguments, case.expected, case.observed) or ""


def case_that(failure: Failure, observed: Observation, provenance: Provenance) -> Case:
    """Return the case of a failure of which something was observed; nothing but the reference is called."""
    arguments: Mapping[str, Any] = case_arguments(failure.operation, failure.case or {})
    return Case(
        operation=failure.operation,
        property_name=failure.property,
        arguments=dict(arguments),
        expected=observe(load("specsim.reference"), failure.operation, arguments),
        observed=observed,
        message=failure.message,
        provenance=provenance,
        law=failure.law,
    )
