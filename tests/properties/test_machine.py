from dataclasses import replace

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from specsim.conformance.backend import load
from specsim.properties.machine import engine_machine
from specsim.properties.soak.drawing import draw_setup
from specsim.properties.soak.subject import Subject


def small_setups(random):
    """Draw the smallest trees: interpreted kernels take their time."""
    setup = draw_setup(random)
    return replace(setup, longest_prompt=4, longest_output=6, max_batch=min(setup.max_batch, 2), has_sampling=False)


@pytest.mark.parametrize(
    ("implementation", "draw", "examples", "steps"),
    [("specsim.reference", draw_setup, 30, 25), ("specsim.gpu", small_setups, 2, 4)],
)
def test_engine_survives_any_order_of_events(implementation, draw, examples, steps):
    run_state_machine_as_test(
        engine_machine(Subject(load(implementation)), draw),
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            phases=(Phase.generate, Phase.shrink) if implementation == "specsim.reference" else (Phase.generate,),
            deadline=None,
            database=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
