"""Properties and implementations by their names."""

from specsim.conformance.backend import Backend, load
from specsim.operations import RECORDS
from specsim.operations.derived.signature import nearest
from specsim.properties.property import Property
from specsim.properties.suite.catalogue import all_properties
from specsim.rejection import Reason, SpecRejection


def find_property(name: str) -> Property:
    """Return a property by its name; an operation's name stands for its agreement with the reference.

    Raises
    ------
    SpecRejection
        UNKNOWN_NAME, with the names that are spelt nearly like it.
    """
    known = {one.name: one for one in all_properties()}
    wanted = f"agreement.{name}" if name in RECORDS else name
    if wanted in known:
        return known[wanted]
    expected = " or ".join(nearest(name, [*RECORDS, *known])) or "one of specsim list properties"
    because = "an operation or a property is fuzzed"
    raise SpecRejection(Reason.UNKNOWN_NAME, "name of the target", name, expected, because)


def loaded(implementation: str | Backend) -> Backend:
    """Return an implementation that is named as in an import, or that is loaded already.

    Raises
    ------
    BackendUnavailable
        The module does not import.
    """
    return load(implementation) if isinstance(implementation, str) else implementation
