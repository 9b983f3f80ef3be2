"""A property against an implementation as one Hypothesis test, which draws and judges a case at a time."""

import re
import warnings
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

from hypothesis import given, reject, settings
from hypothesis.strategies import DrawFn

from specsim.conformance.backend import Backend
from specsim.conformance.outside import OutsideLimits
from specsim.properties.composite import composite
from specsim.properties.laws.frequencies import Inconclusive
from specsim.properties.property import Property
from specsim.properties.reach.sizes import is_interpreted
from specsim.properties.strategies.limits import drawing_within
from specsim.properties.strategies.numbers import drawing_entries
from specsim.properties.strategies.scale import drawing_for_interpreter
from specsim.properties.suite.conformance.running import call_law

OnFailure = Callable[[Any, Exception], None]


def ignore(case: Any, error: Exception) -> None:
    """Keep nothing of a case that fails."""


def test_of(
    one: Property, backend: Backend, how: settings, is_entry_wise: bool = True, on_failure: OnFailure = ignore
) -> Any:
    """Return the test of a property; Hypothesis raises what its law or the implementation raises.

    Parameters
    ----------
    how : settings
        Examples, phases and database.
    is_entry_wise : bool
        Whether each entry of an array is drawn on its own.
    on_failure : callable
        Is shown each case that fails, and why.
    """

    def test(case: Any) -> None:
        try:
            with ExitStack() as stack:
                _enter(stack, one, backend, is_entry_wise)
                stack.enter_context(backend.arrays.debugging())
                call_law(one, backend, case)
        except OutsideLimits:
            reject()
        except Inconclusive:
            return
        except Exception as error:  # NOTE: an implementation under test may raise anything at all.
            on_failure(case, error)
            raise

    # NOTE: Hypothesis keeps what it finds under the name of the test.
    test.__name__ = test.__qualname__ = name_of_test(one)
    test.__doc__ = f"``{one.name}`` holds of {backend.name}."
    return how(given(_cases(one, backend, is_entry_wise))(test))


def name_of_test(one: Property) -> str:
    """Return the name of the test of a property: ``test_agreement_build_tree``."""
    return "test_" + re.sub(r"\W", "_", one.name)


@composite
def _cases(draw: DrawFn, one: Property, backend: Backend, is_entry_wise: bool) -> Any:
    with ExitStack() as stack:
        _enter(stack, one, backend, is_entry_wise)
        return draw(one.strategy())


def _enter(stack: ExitStack, one: Property, backend: Backend, is_entry_wise: bool) -> None:
    stack.enter_context(warnings.catch_warnings())
    warnings.simplefilter("ignore")
    stack.enter_context(drawing_entries(is_entry_wise))
    stack.enter_context(drawing_for_interpreter(is_interpreted(backend)))
    stack.enter_context(drawing_within(backend.limits, one.operations))
