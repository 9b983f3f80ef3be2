import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from specsim.conformance.backend import load
from specsim.properties.machine import engine_machine


@pytest.mark.parametrize(
    ("implementation", "is_v1", "examples", "steps"),
    [("specsim.reference", False, 60, 25), ("specsim.reference", True, 40, 25), ("specsim.gpu", False, 3, 6)],
)
def test_engine_survives_any_order_of_events(implementation, is_v1, examples, steps):
    run_state_machine_as_test(
        engine_machine(load(implementation), is_v1),
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            deadline=None,
            database=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
