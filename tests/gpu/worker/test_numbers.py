"""The device's workers draft other numbers of steps for each request, beside the reference's: every phase agrees."""

from dataclasses import replace

import pytest

from specsim.config import SpecConfig
from specsim.conformance.backend import load
from specsim.gpu.arrays import DEVICE
from specsim.gpu.models import load_model as load_on_device
from specsim.host.sampling import SamplingParameters
from specsim.properties.runs.choices import Shifted
from specsim.properties.runs.drafted import ALL_WORKERS, drafted_by
from specsim.properties.runs.play import loop_on
from specsim.properties.runs.ranks.padded_runs import waiting_of
from specsim.properties.runs.scenario import Arrival, scenario_of
from specsim.properties.runs.steps.numbered_runs import MOST, PatternNumbers
from specsim.simulation.comparing.history import first_divergence
from specsim.simulation.comparing.lockstep import find_divergence
from specsim.simulation.engine import Engine
from specsim.simulation.models.hash_model import HashModel
from specsim.simulation.schedule import Schedule

OWN = load("specsim.gpu").workers
CHAIN, TREE = SpecConfig(1, 2, 3), SpecConfig(2, 2, 5)
ARRIVALS = tuple(Arrival((number, 7), 6, None, 0) for number in range(3))
NUMBERS = PatternNumbers((0, 1, MOST))
SCHEDULE = Schedule(num_drafts=NUMBERS)
IN_GRAPHS = pytest.mark.skipif(DEVICE.type != "cuda", reason="CUDA graphs exist on a GPU only")
NAMES = pytest.mark.parametrize("name", [name for name in ALL_WORKERS if not name.startswith("eagle3")])


def run_named(name, config, page_size=1):
    return drafted_by(name, scenario_of(config, HashModel(32, 3, 0.9), ARRIVALS, 3, 0, page_size=page_size))


def workers_of(run, **options):
    """Return the reference's worker and the device's."""
    model = load_on_device(run.model)
    return loop_on(run, **waiting_of(run)), OWN[run.worker_name](
        run.drafting.sizes, model, run.sizes(), **waiting_of(run), **options
    )


def asked_of(run):
    """Return requests that are greedy, and such of which one is sampled and another one has a processor."""
    plain = run.requests()
    sampled = replace(plain[0].fresh(), sampling=SamplingParameters(1.2, seed=3))
    return plain, [sampled, replace(plain[1].fresh(), processor=Shifted(1)), plain[2].fresh()]


@NAMES
def test_numbers_of_requests_are_those_of_the_reference(name):
    """Chains on the second loop, trees on the first, where a drafter has both."""
    run = run_named(name, CHAIN if name.endswith("v2") else TREE, page_size=4)
    believed, worker = workers_of(run, use_graphs=False, pads=True)
    assert find_divergence(believed, worker, asked_of(run)[1], max_batch=3, schedule=SCHEDULE) is None


@pytest.mark.parametrize("name", ["eagle_v1", "eagle_v2", "ngram_v2"])
def test_what_was_proposed_is_counted_alike(name):
    run = run_named(name, TREE)
    engines = [Engine(worker, 3, schedule=SCHEDULE) for worker in workers_of(run, use_graphs=False)]
    for engine in engines:
        for request in run.requests():
            engine.submit(request)
    while engines[0].has_work:
        iterations = [engine.step() for engine in engines]
        assert (iterations[0] is None) == (iterations[1] is None)
        if iterations[0] is not None:
            one, other = iterations
            assert one.proposals == other.proposals
            divergence = first_divergence(engines[0].num_iterations, *(engine.worker.phases() for engine in engines))
            assert divergence is None, str(divergence)
    assert engines[0].positions == engines[1].positions


@pytest.mark.parametrize("name", ["eagle_v1", "eagle_v2", "ngram_v2"])
def test_numbers_are_read_where_they_lie_in_a_replay(name):
    """One graph a bucket serves all numbers that are cut to fewer than its own."""
    run = run_named(name, TREE)
    believed, worker = workers_of(run, use_graphs=True)
    for pattern in ((0, 1, MOST), (MOST, 0, 0)):
        schedule = Schedule(num_drafts=PatternNumbers(pattern))
        assert find_divergence(believed, worker, run.requests(), max_batch=3, schedule=schedule) is None
    cut = [kind for _, kind, _ in worker._batches.captured if kind.is_cut]
    assert cut
    assert len(cut) == len({(size, kind) for size, kind, _ in worker._batches.captured if kind.is_cut})


@IN_GRAPHS
@pytest.mark.parametrize("config", [CHAIN, TREE], ids=["chain", "tree"])
@NAMES
def test_graphs_serve_every_mix_of_numbers(name, config):
    run = run_named(name, config)
    believed, worker = workers_of(run, use_graphs=True)
    for pattern in ((0, 1, MOST), (MOST, 0, 0)):
        for requests in asked_of(run):
            schedule = Schedule(num_drafts=PatternNumbers(pattern))
            assert find_divergence(believed, worker, requests, max_batch=3, schedule=schedule) is None
