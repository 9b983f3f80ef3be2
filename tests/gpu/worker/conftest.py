"""Workers that are asked for graphs capture them here, simulated where there is no GPU; what they load is guarded."""

import pytest

from specsim.gpu.switches import guarding_buffers, simulating_graphs


@pytest.fixture(autouse=True)
def _graphs():
    with simulating_graphs(), guarding_buffers():
        yield


@pytest.fixture
def unguarded():
    """Leave the guards of buffers out, which wait for the device when they are looked at."""
    with guarding_buffers(False):
        yield
