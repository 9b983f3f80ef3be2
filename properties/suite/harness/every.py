"""Every property as a Hypothesis test of its own, for pytest and for tools that collect such tests."""

import functools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, settings

from specsim.conformance.backend import Backend
from specsim.conformance.catalogue import find_entry
from specsim.properties.property import Property
from specsim.properties.strategies.limits import leaves_out
from specsim.properties.suite.catalogue import all_properties
from specsim.properties.suite.conformance.explained import CASES, explain_here
from specsim.properties.suite.conformance.running import failure_of
from specsim.properties.suite.conformance.selection import examples_of, is_runnable, is_selected
from specsim.properties.suite.harness.finding import loaded
from specsim.properties.suite.harness.judging import name_of_test, test_of

EXAMPLES = 40
"""Examples of each agreement; other properties get a share of them."""


def tests(
    implementation: str | Backend,
    operations: Sequence[str] | None = None,
    *,
    examples: int = EXAMPLES,
    whole_runs: bool = True,
    is_entry_wise: bool = True,
    how: settings | None = None,
    cases: str | Path = CASES,
) -> dict[str, Any]:
    """Return a ``@given`` test of every property that the implementation can be tried by, by the names of the tests.

    A test module says ``globals().update(harness.tests("mypackage.my_kernels"))``, and pytest finds them.

    Parameters
    ----------
    implementation : str or Backend
        The module, as in an import, or what ``specsim.load`` returns.
    operations : sequence of str or None
        Only properties that name one of these.
    examples : int
        Examples of each agreement property in a run of pytest; other properties get the share that ``specsim check``
        gives them.
    whole_runs : bool
        Whether properties that run a whole engine are among them; one example of these takes as long as hundreds.
    is_entry_wise : bool
        Whether each entry of an array is drawn on its own, so that what a fuzzer finds is what the test replays.
    how : settings or None
        Hypothesis's settings that the tests begin with, its database for one; by default those of the profile.
    cases : str or Path
        The folder that the case of a failure is written to; it is drawn and named in a note of the exception.

    Returns
    -------
    tests : dict of str to function
        ``test_agreement_build_tree`` and so on; each has ``hypothesis.fuzz_one_input``.

    Raises
    ------
    SpecRejection
        UNKNOWN_NAME: one of ``operations`` is none.
    BackendUnavailable
        The module does not import.
    """
    for name in operations or ():
        find_entry(name)
    backend = loaded(implementation)
    found = {}
    for one in all_properties():
        is_tried = is_selected(one, backend, operations) and is_runnable(one, backend)
        share = examples_of(one, examples) if whole_runs or not one.is_slow else 0
        if share and is_tried and not leaves_out(one.name, backend.limits):
            begun = settings(how, max_examples=share, deadline=None, suppress_health_check=list(HealthCheck))
            found[name_of_test(one)] = _explained(one, backend, begun, is_entry_wise, Path(cases))
    return found


def _explained(one: Property, backend: Backend, how: settings, is_entry_wise: bool, folder: Path) -> Any:
    """Return the test of a property; what it raises has a note that explains the failure as the command line does."""
    last: list[tuple[Any, Exception]] = []

    def keep(case: Any, error: Exception) -> None:
        last[:] = [(case, error)]

    test = test_of(one, backend, how, is_entry_wise, keep)

    @functools.wraps(test)
    def explained() -> None:
        last.clear()
        try:
            test()
        except Exception as raised:  # NOTE: an implementation under test may raise anything at all.
            if last:
                # NOTE: what Hypothesis found last is what it has shrunk to.
                case, error = last[0]
                raised.add_note(explain_here(failure_of(one, backend, error, case), backend, 0, folder))
            raise

    return explained
