"""Workers that are asked for graphs capture them here, simulated where there is no GPU."""

import pytest

from specsim.gpu.switches import simulating_graphs


@pytest.fixture(autouse=True)
def _graphs():
    with simulating_graphs():
        yield
