"""An implementation's workers by the names of algorithms: what plays whole runs of those that are not EAGLE's."""

from typing import Any

from specsim.config import PoolSizes
from specsim.conformance.backend import Backend, load
from specsim.conformance.completed import Completed
from specsim.properties.laws.support.histories import model_for
from specsim.reference.models import load_model
from specsim.simulation.loops import loop_of
from specsim.simulation.models.hash_model import HashModel


def worker_named(name: str, backend: Backend, parameters: Any, model: HashModel, sizes: PoolSizes) -> Any:
    """Return the implementation's own worker of a name, or the reference's loop on its operations if it has none.

    ``parameters`` are what workers of that name take first; the oracle supplies operations that are lacking.
    """
    if name in backend.other_workers:
        return backend.build_worker(name, parameters, model_for(backend, model), sizes)
    operations = Completed(backend, load("specsim.reference"))
    return loop_of(name)(parameters, load_model(model, operations), sizes, operations=operations)
