"""Rejections: a call outside the domain is refused for the reference's reason, and nothing is written."""

from hypothesis.strategies import SearchStrategy

from specsim.conformance.backend import Backend
from specsim.conformance.outside import require_inside
from specsim.conformance.plain_text import words_of
from specsim.operations import RECORDS
from specsim.properties.operations.generated.agreement import of_operations, reference, require_unchanged
from specsim.properties.property import Property
from specsim.properties.strategies.malformed import faults as malformed
from specsim.properties.strategies.malformed.arguments import Arguments
from specsim.rejection import Reason, SpecRejection
from specsim.validation.checking import check_call


def reason_of(operation: str, arguments: Arguments) -> Reason | None:
    """Return why the contract refuses a call, or None if it does not."""
    try:
        check_call(operation, reference().carry(operation, arguments))
    except SpecRejection as rejection:
        return rejection.reason
    return None


def bad_calls(operation: str) -> SearchStrategy[Arguments]:
    """Return a strategy of calls that the contract refuses: a valid call with one thing wrong."""
    return malformed.calls(operation).filter(lambda arguments: reason_of(operation, arguments) is not None)


def bad_input_is_refused(operation: str, backend: Backend, case: Arguments) -> None:
    """The implementation raises SpecRejection with the reference's reason and leaves every argument as it is."""
    require_inside(backend.limits, RECORDS[operation], case)
    expected = reason_of(operation, case)
    wanted = "no rejection" if expected is None else f"a rejection, {expected.name}"
    carried = backend.carry(operation, case)
    try:
        with backend.arrays.debugging():
            backend.functions[operation](**carried)
    except SpecRejection as rejection:
        if rejection.reason is not expected:
            raise AssertionError(f"{operation} = a rejection, {rejection}, but should be {wanted}") from rejection
    except Exception as error:  # NOTE: an implementation under test may raise anything at all.
        got = f"{type(error).__name__}: {words_of(error)}"
        raise AssertionError(f"{operation} = {got}, but should be {wanted}") from error
    else:
        if expected is not None:
            raise AssertionError(f"{operation} = no rejection, but should be {wanted}")
    names = {spec.name: spec for spec in RECORDS[operation].contract.arrays}
    require_unchanged(operation, names, case, backend.fetch(operation, carried))


def rejection_properties() -> tuple[Property, ...]:
    """Return the rejection property of every operation of the table."""
    return of_operations("rejection", RECORDS, bad_calls, bad_input_is_refused)
