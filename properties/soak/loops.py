"""The loop of the reference that a setup needs, on pools of any size."""

from typing import Any

from specsim.config import PoolSizes
from specsim.conformance.calls import CallsByName
from specsim.properties.soak.setups import Setup
from specsim.reference.models import load_model
from specsim.reference.worker.by_name import loop_of
from specsim.simulation.worker import Worker


def reference_loop(
    setup: Setup, sizes: PoolSizes | None = None, operations: CallsByName | None = None, **options: Any
) -> Worker:
    """Return the loop of a setup's algorithm; the oracle computes unless others are given.

    Raises
    ------
    NotImplementedError
        The reference lacks the worker.
    """
    model = load_model(setup.model, operations)
    if operations is not None:
        options = {**options, "operations": operations}
    worker: Worker = loop_of(setup.worker_name)(setup.drafting, model, sizes or setup.sizes(), **options)
    return worker
