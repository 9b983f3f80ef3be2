"""Settings of every test: Triton's mode is chosen before anything imports Triton, and no clock decides a verdict."""

import gc
import os

from hypothesis import HealthCheck, settings

from specsim.cli.device import choose_device

# NOTE: tensors are small, and threads that wait for each other's shares keep every core busy meanwhile.
os.environ.setdefault("OMP_NUM_THREADS", "1")
choose_device()
settings.register_profile("specsim", deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("specsim")

gc.set_threshold(50_000, 20, 20)
"""A heap of torch, of thousands of tests and of what was drawn is long to walk, and holds little garbage."""


def pytest_collection_finish():
    """Leave what lives as long as the tests out of every walk."""
    gc.freeze()
