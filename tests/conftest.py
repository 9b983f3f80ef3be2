"""Settings of every test: Triton's mode is chosen before anything imports Triton, and no clock decides a verdict."""

import gc
import os

import pytest
from hypothesis import HealthCheck, settings

from specsim.cli.device import choose_device
from tests.parts import Part, in_other_parts

# NOTE: tensors are small, and threads that wait for each other's shares keep every core busy meanwhile.
os.environ.setdefault("OMP_NUM_THREADS", "1")
choose_device()
settings.register_profile("specsim", deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("specsim")

gc.set_threshold(50_000, 20, 20)
"""A heap of torch, of thousands of tests and of what was drawn is long to walk, and holds little garbage."""


def pytest_addoption(parser):
    """Add what ``make test PART=…`` hands on."""
    parser.addoption("--part", default="1/1", metavar="NUMBER/COUNT", help="run one of COUNT parts of what takes long")


@pytest.fixture(scope="session")
def part(request):
    """Return which part of what takes long is to run."""
    return Part.parse(request.config.getoption("--part"))


def pytest_collection_finish():
    """Leave what lives as long as the tests out of every walk."""
    gc.freeze()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config, items):
    """Leave out long tests of other parts, and let each process begin with its share of those that take longest.

    So none of them is left for the end: ``--dist worksteal`` gives each process a run of neighbours in this order.
    """
    left_out = set(in_other_parts(Part.parse(config.getoption("--part")), items))
    config.hook.pytest_deselected(items=list(left_out))
    items[:] = [item for item in items if item not in left_out]
    num_workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    long = [item for item in items if item.get_closest_marker("first")]
    if not long:
        return
    rest = [item for item in items if not item.get_closest_marker("first")]
    ends = [len(items) * (number + 1) // num_workers for number in range(num_workers)]
    items.clear()
    for number, end in enumerate(ends):
        items += long[number::num_workers]
        taken, rest = rest[: end - len(items)], rest[end - len(items) :]
        items += taken
