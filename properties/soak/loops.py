"""The loop of the reference that a setup needs, on pools of any size."""

from typing import Any

from specsim.config import PoolSizes
from specsim.conformance.calls import CallsByName
from specsim.properties.soak.setups import Setup
from specsim.reference.models import load_model
from specsim.simulation.loops import loop_of
from specsim.simulation.models.padded import PaddedModel
from specsim.simulation.worker import Worker


def reference_loop(
    setup: Setup,
    sizes: PoolSizes | None = None,
    operations: CallsByName | None = None,
    is_padded: bool = False,
    **options: Any,
) -> Worker:
    """Return the loop of a setup's algorithm; the oracle computes unless others are given.

    ``is_padded`` says whether its forwards run on padded batches, which others may wait for.

    Raises
    ------
    Undefined
        The reference lacks the worker.
    """
    model: Any = load_model(setup.model, operations)
    if is_padded:
        pad = PaddedModel if operations is None else operations.host("PaddedModel")
        model = pad(model, **setup.widths)
        options |= {"has_dp_attention": True} if setup.drafter.extends and setup.is_v1 else {}
    options = {**options, **setup.rule}
    if operations is not None:
        options = {**options, "operations": operations}
    worker: Worker = loop_of(setup.worker_name)(setup.drafting, model, sizes or setup.sizes(), **options)
    return worker
