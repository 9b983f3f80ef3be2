"""Settings of Hypothesis where the suite explores by itself: nothing is printed, kept, timed or called unhealthy."""

from typing import Any

from hypothesis import HealthCheck, Phase, Verbosity, settings
from hypothesis.database import InMemoryExampleDatabase


def quietly(**how: Any) -> settings:
    """Return quiet settings; ``how`` says what else they are, or what they are instead."""
    quiet = {
        "database": None,
        "deadline": None,
        "print_blob": False,
        "report_multiple_bugs": False,
        "suppress_health_check": list(HealthCheck),
        "verbosity": Verbosity.quiet,
    }
    return settings(**{**quiet, **how})


def shrinking_what_is_fed() -> settings:
    """Return the settings of a test that is fed with bytes, and makes smaller what failed when it is called itself."""
    return quietly(database=InMemoryExampleDatabase(), phases=(Phase.reuse, Phase.shrink))
