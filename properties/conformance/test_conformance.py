"""One test a property, against the implementation of ``--specsim-impl``."""

from pathlib import Path

import pytest

from specsim.conformance.backend import BackendUnavailable, load
from specsim.properties.property import Property
from specsim.properties.suite.catalogue import all_properties
from specsim.properties.suite.conformance.explained import explain_here
from specsim.properties.suite.conformance.running import run_property
from specsim.properties.suite.conformance.selection import examples_of, is_selected


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Parametrise by property."""
    try:
        backend = load(metafunc.config.getoption("--specsim-impl"))
    except BackendUnavailable as error:
        raise pytest.UsageError(str(error)) from error
    with_models = metafunc.config.getoption("--specsim-models")
    chosen = [one for one in all_properties() if is_selected(one, backend, with_models=with_models)]
    metafunc.parametrize("one", chosen, ids=[one.name for one in chosen])


def test_property(one: Property, request: pytest.FixtureRequest) -> None:
    """The property holds, or the implementation lacks one of its operations."""
    options = request.config
    backend = load(options.getoption("--specsim-impl"))
    examples = examples_of(one, options.getoption("--specsim-examples"))
    report, failure = run_property(one, backend, options.getoption("--specsim-seed"), examples)
    if report.missing:
        lacking = [name for name in one.operations if not backend.has(name)]
        pytest.skip(f"{backend.name} does not define {', '.join(lacking)}")
    if failure is not None:
        seed, folder = options.getoption("--specsim-seed"), Path(options.getoption("--specsim-cases"))
        pytest.fail(explain_here(failure, backend, seed, folder), pytrace=False)
