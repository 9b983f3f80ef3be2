"""The comparison of two answers to one call, as the properties ``agreement.*`` make it."""

from collections.abc import Mapping
from typing import Any

from specsim.conformance.backend import load
from specsim.conformance.limits import NO_LIMITS, Limits
from specsim.conformance.outcomes import Observation, first_difference
from specsim.operations import RECORDS
from specsim.operations.derived.signature import name_arguments, nearest
from specsim.properties.operations.generated.margin_cases import difference_beyond_margins
from specsim.properties.strategies.limits import drawing_within
from specsim.rejection import Reason, SpecRejection


def compare(
    operation: str, arguments: Mapping[str, Any], got: Any, expected: Any = None, *, limits: Limits = NO_LIMITS
) -> bool:
    """Raise AssertionError where an answer is not what it should be, entries without meaning apart.

    Shapes, element types, integers, masks and what was only moved have to be equal bit for bit; probabilities and their
    logarithms within the rounding bound of their vocabulary. Entries that the contract leaves undefined are not
    compared. Rows and requests in which a decision lies closer to its boundary than that bound may fall either way.

    Parameters
    ----------
    operation : str
        Its name.
    arguments : mapping
        The call by the names of its contract, as it was made: NumPy arrays of the shapes and element types there,
        lists of them, whole numbers and None. What the operation writes is given as it was before the call.
    got : mapping, array or tuple of arrays
        NumPy arrays by the names of the outputs and of the arguments that the operation writes, as they are after the
        call (``specsim.load(…).run(operation, arguments).outputs``); of an operation that writes none, what it
        returns.
    expected : mapping, array, tuple of arrays or None
        The same of what is believed; None asks ``specsim.reference``.
    limits : Limits
        What the implementation declares (``specsim.load(…).limits``): with ``TIES = "any"`` one choice is as right as
        the other.

    Returns
    -------
    is_equal : bool
        False where the answers differ, but only where a margin or a tie leaves that open.

    Raises
    ------
    AssertionError
        ``num_accepted_drafts[1] = 2, but should be 3``, after the operation's name.
    SpecRejection
        UNKNOWN_NAME: there is no such operation; UNKNOWN_ARGUMENT, MISSING_ARGUMENT: of the call or of an answer; and
        whatever the reference refuses.
    """
    if operation not in RECORDS:
        expected = " or ".join(nearest(operation, RECORDS)) or "one of specsim list operations"
        because = "answers are compared by its contract"
        raise SpecRejection(Reason.UNKNOWN_NAME, "name of the operation", operation, expected, because)
    call = name_arguments(RECORDS[operation], (), arguments)
    believed = load("specsim.reference").run(operation, call).outputs if expected is None else expected
    answers = Observation(_by_name(operation, believed)), Observation(_by_name(operation, got))
    with drawing_within(limits, (operation,)):
        difference = difference_beyond_margins(operation, call, *answers)
    if difference is not None:
        raise AssertionError(f"{operation}: {difference}")
    return first_difference(operation, call, *answers) is None


def _by_name(operation: str, answer: Any) -> dict[str, Any]:
    """Return an answer by the names of what the operation returns and writes."""
    contract = RECORDS[operation].contract
    names = [spec.name for spec in contract.outputs]
    known = [*names, *contract.writes]
    if not isinstance(answer, Mapping):
        values = answer if isinstance(answer, tuple) else (answer,) if len(names) == 1 else ()
        beyond = [f"output {place}" for place in range(len(names), len(values))]
        answer = dict(zip([*names, *beyond], values, strict=False))
    for name in known:
        if name not in answer:
            because = f"{operation} {'writes' if name in contract.writes else 'returns'} it"
            raise SpecRejection(Reason.MISSING_ARGUMENT, f"{name} of an answer", "missing", "given", because)
    for name in answer:
        if name not in known:
            what = "part of an answer"
            raise SpecRejection(Reason.UNKNOWN_ARGUMENT, what, name, f"one of {known}", "these are compared")
    return {name: answer[name] for name in known}
