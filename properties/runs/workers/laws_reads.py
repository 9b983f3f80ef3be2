"""Laws of what a worker keeps of its pools: whatever is written is read again."""

from specsim.conformance.backend import Backend
from specsim.properties.laws.checks import state_of_runs
from specsim.properties.runs.histories import tree_scenarios
from specsim.properties.runs.play import Play, parts_of, require_in_step
from specsim.properties.runs.scenario import Scenario
from specsim.reference.models import load_model
from specsim.reference.worker.v2 import ReferenceWorker
from specsim.simulation.models.kv_pool import Reads
from specsim.simulation.worker import Worker


def _keeping_worker(backend: Backend, scenario: Scenario) -> Worker:
    """Return a worker that keeps what it has read; an implementation's own, on NumPy arrays, takes its place."""
    model, sizes = load_model(scenario.model), scenario.sizes()
    if backend.worker is not None and backend.arrays.KIND == "numpy":
        own: Worker = backend.worker(scenario.config, model, sizes)
        return own
    return ReferenceWorker(scenario.config, model, sizes, parts_of(backend), Reads.KEPT)


def kept_reads_are_full_reads(backend: Backend, scenario: Scenario) -> None:
    """A worker that reads only what was written since hands over, phase by phase, what one does that reads all."""
    full = ReferenceWorker(scenario.config, load_model(scenario.model), scenario.sizes(), parts_of(backend))
    kept = _keeping_worker(backend, scenario)
    for _ in require_in_step(Play(scenario, worker=full), Play(scenario, worker=kept)):
        pass


PROPERTIES = (state_of_runs("reads", kept_reads_are_full_reads, tree_scenarios, ("move_kv_cache",), plays=()),)
