"""The smallest case of a call of thousands that an implementation crashes or hangs on, each try in its own process."""

from collections.abc import Callable
from itertools import islice
from typing import Any

from specsim.conformance.isolation.trials import Death
from specsim.properties.suite.catalogue import property_named
from specsim.properties.suite.conformance.crashes import Search, Trials, plain_crash
from specsim.properties.suite.conformance.units import UnitLimits
from specsim.properties.suite.small_trees.every import FORMS
from specsim.properties.suite.small_trees.forms import Scope
from specsim.properties.suite.small_trees.trial import calls_of, smallest


def smallest_crash(
    implementation: str, name: str, search: Search, limits: UnitLimits, prepare: Callable[[str], object]
) -> dict[str, Any] | None:
    """Cut the call that crashed into smaller ones as long as there is time.

    Returns
    -------
    plain : dict or None
        The failure with its case as plain values; None where the call alone does not crash.
    """
    one = property_named(name)
    trials = Trials(implementation, one, search, limits, prepare)
    form = FORMS[one.operations[0]]
    calls = calls_of(form, search.declared, limits.nodes or 0, interpreted=search.is_interpreted)
    scope = next(islice(calls, search.first - 1, None))

    def death_by(cases: Scope) -> Death | None:
        return None if trials.is_time_up else trials.try_case(form.arguments(cases), trials.patience)

    found = trials.try_case(form.arguments(scope), search.call_seconds)
    if found is None:
        return None
    scope, death = smallest(scope, found, death_by)
    # NOTE: a smaller case was waited for less long.
    death = trials.try_case(form.arguments(scope), search.call_seconds) or death
    return plain_crash(implementation, name, death, limits)
