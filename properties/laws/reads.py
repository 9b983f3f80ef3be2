"""Laws of what a worker keeps of its pools: whatever is written is read again."""

from specsim.conformance.backend import Backend, load
from specsim.conformance.calls import CallsByName
from specsim.conformance.completed import Completed
from specsim.properties.laws.support.checks import require, state_of_runs
from specsim.properties.laws.support.histories import Scenario, play, start, tree_scenarios
from specsim.reference.models import load_model
from specsim.reference.worker.v2 import ReferenceWorker
from specsim.simulation.history import first_divergence
from specsim.simulation.models.kv_pool import Reads
from specsim.simulation.pools import sizes_for
from specsim.simulation.worker import Worker


def _keeping_worker(backend: Backend, scenario: Scenario, operations: CallsByName) -> Worker:
    """Return a worker that keeps what it has read; an implementation's own, on NumPy arrays, takes its place."""
    sizes = sizes_for(scenario.config, scenario.requests(), scenario.max_batch)
    if backend.worker is not None and backend.arrays.KIND == "numpy":
        own: Worker = backend.worker(scenario.config, load_model(scenario.model), sizes)
        return own
    return ReferenceWorker(scenario.config, load_model(scenario.model), sizes, operations, Reads.KEPT)


def kept_reads_are_full_reads(backend: Backend, scenario: Scenario) -> None:
    """A worker that reads only what was written since hands over, phase by phase, what one does that reads all."""
    operations = Completed(backend, load("specsim.reference"))
    sizes = sizes_for(scenario.config, scenario.requests(), scenario.max_batch)
    full = start(ReferenceWorker(scenario.config, load_model(scenario.model), sizes, operations), scenario)
    kept = start(_keeping_worker(backend, scenario, operations), scenario)
    for number, (expected, got) in enumerate(play([full, kept], scenario)):
        require((expected is None) == (got is None), f"iteration {number}", got, expected)
        if expected is not None:
            divergence = first_divergence(number, full.worker.phases(), kept.worker.phases())
            require(divergence is None, "first difference", divergence, "none")


PROPERTIES = (state_of_runs("reads", kept_reads_are_full_reads, tree_scenarios, ("move_kv_cache",), plays=()),)
