"""Valid calls that are the same every time."""

from hypothesis import HealthCheck, Phase, given, seed, settings

from specsim.properties import strategies


def valid_calls(operation, count):
    """Return valid calls of an operation, drawn from a fixed seed."""
    drawn = []

    @seed(0)
    @settings(max_examples=count, database=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
    @given(strategies.for_operation(operation))
    def draw(arguments):
        drawn.append(arguments)

    draw()
    return drawn
