"""The suite runs with entries checked, and the path of production beside it."""

from functools import partial

import pytest
from hypothesis import strategies as st

from specsim.conformance.backend import load
from specsim.gpu.switches import checks_values
from specsim.properties.property import Property
from specsim.properties.suite.catalogue import property_named
from specsim.properties.suite.conformance.running import run_property

GPU = load("specsim.gpu")
OPERATION = "fill_bonus_tokens"


def watched():
    """Return the GPU layer, and whether entries are checked at each call of one operation."""
    seen = []

    def call(correct, *, accept_tokens, num_accepted_tokens):
        seen.append(checks_values())
        return correct(accept_tokens, num_accepted_tokens)

    return GPU.with_function(OPERATION, partial(call, GPU.functions[OPERATION]), "watched"), seen


def test_a_law_runs_with_entries_checked():
    seen = []
    law = Property("law", "", (OPERATION,), lambda: st.just(0), lambda backend, case: seen.append(checks_values()))
    run_property(law, GPU, 0, 1)
    assert seen == [True]
    assert checks_values() is False


@pytest.mark.parametrize("group", ["agreement", "strided", "poison"])
def test_one_of_two_calls_is_as_in_production(group):
    backend, seen = watched()
    one = property_named(f"{group}.{OPERATION}")
    _, failure = run_property(one, backend, 0, 2)
    assert failure is None
    assert sorted(seen) == [False, False, True, True]
