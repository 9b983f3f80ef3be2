"""What a soak tries: an implementation, whose worker, operations, parts and scheduler take the place of ours."""

from dataclasses import dataclass, replace

from specsim.conformance.backend import Backend, Completed, load
from specsim.properties.laws.support.histories import build_worker
from specsim.properties.soak.setups import Setup
from specsim.reference.models import load_model
from specsim.reference.worker.v1 import ReferenceWorkerV1
from specsim.reference.worker.v2 import ReferenceWorker
from specsim.simulation.models.kv_pool import Reads
from specsim.simulation.worker import Worker

REFERENCE = load("specsim.reference")


@dataclass(frozen=True)
class Subject:
    """What is tried.

    Its own worker takes the place of the reference's, if it has one of that kind; otherwise its operations do. Its
    scheduler takes the place of ours.
    """

    backend: Backend

    def has_own_worker(self, is_v1: bool) -> bool:
        """Whether the implementation brings a loop of this kind."""
        return self.backend.own_worker(is_v1) is not None

    @property
    def is_reference(self) -> bool:
        """Whether the functions of the reference are tried, as they are."""
        return replace(self.backend, name=REFERENCE.name, scheduler=None) == REFERENCE

    def worker(self, setup: Setup) -> Worker:
        """Return the worker that is tried."""
        config, sizes = setup.config, setup.sizes()
        if self.has_own_worker(setup.is_v1):
            return build_worker(self.backend, config, setup.model, sizes, setup.is_v1)
        loop = ReferenceWorkerV1 if setup.is_v1 else ReferenceWorker
        if self.is_reference:
            return loop(config, load_model(setup.model), sizes, reads=Reads.DRAWN)
        operations = Completed(self.backend, REFERENCE)
        model = load_model(setup.model, operations)
        return loop(config, model, sizes, operations=operations)
