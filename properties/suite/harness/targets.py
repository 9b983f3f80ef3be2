"""A property as a function of bytes, which a fuzzer calls."""

from collections.abc import Callable
from pathlib import Path

from specsim.conformance.backend import Backend
from specsim.conformance.raised import Undefined
from specsim.properties.property import Property
from specsim.properties.quietly import shrinking_what_is_fed
from specsim.properties.suite.conformance.selection import is_runnable
from specsim.properties.suite.harness.finding import find_property, loaded
from specsim.properties.suite.harness.judging import test_of
from specsim.properties.suite.harness.saving import Found, save_smallest

MOST_BYTES = 1 << 16
"""Zeros that follow every input, so that none is too short; a case draws fewer bytes."""

Target = Callable[[bytes], bytes | None]


def target(
    property_or_operation: str,
    implementation: str | Backend,
    *,
    cases: str | Path | None = None,
    is_entry_wise: bool = True,
) -> Target:
    """Return a function of bytes that draws one case from them and judges the implementation by it.

    Parameters
    ----------
    property_or_operation : str
        A property of `specsim list properties`, or an operation, which stands for its agreement with the reference.
    implementation : str or Backend
        The module, as in an import, or what ``specsim.load`` returns.
    cases : str, Path or None
        A folder for the smallest case of a failure, where a case is a call of one operation; a note of the exception
        names the file, which ``specsim replay`` runs again.
    is_entry_wise : bool
        Whether each entry of an array is drawn from bytes of its own, so that one that changes moves an entry and not
        an array.

    Returns
    -------
    fuzz : callable
        Takes bytes of any length and returns those that the case was drawn from, without zeros after them, or None
        where they make no case. It raises what breaks: ``AssertionError`` of a law, or whatever the implementation
        raises.

    Raises
    ------
    SpecRejection
        UNKNOWN_NAME: nothing is called so.
    Undefined
        The implementation lacks an operation that the property needs.
    BackendUnavailable
        The module does not import.
    """
    one, backend = find_property(property_or_operation), loaded(implementation)
    require_runnable(one, backend)
    found: list[Found] = []
    how, keep = shrinking_what_is_fed(), lambda *failed: found.append(failed)
    test = test_of(one, backend, how, is_entry_wise, keep)
    run = test.hypothesis.fuzz_one_input

    def fuzz(data: bytes) -> bytes | None:
        found.clear()
        try:
            drawn: bytes | None = run(bytes(data) + bytes(MOST_BYTES))
        except Exception as error:
            error.add_note(f"{one.name} of {backend.name}")
            if cases is not None:
                error.add_note(save_smallest(one, backend, found, Path(cases), shrink=test))
            raise
        return None if drawn is None else drawn.rstrip(b"\0")

    return fuzz


def require_runnable(one: Property, backend: Backend) -> None:
    """Raise Undefined unless the implementation has what a property needs."""
    lacking = [name for name in one.operations if not backend.has(name)]
    if not is_runnable(one, backend):
        raise Undefined(f"{backend.name} does not define {', '.join(lacking)}, which {one.name} needs")
