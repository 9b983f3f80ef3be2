"""Two loops a layer run every draft side, also one's own, and on the device in graphs that only replay."""

from dataclasses import replace

import pytest

from specsim import gpu
from specsim.algorithms import WORKERS
from specsim.config import SpecConfig
from specsim.conformance.backend import load
from specsim.gpu.models import load_model as load_on_device
from specsim.gpu.worker.graphs import bucket_sizes
from specsim.gpu.worker.sides.ngram import NgramSide
from specsim.gpu.worker.v1 import GpuWorkerV1
from specsim.gpu.worker.v2 import GpuWorker
from specsim.host.ngram import NgramParameters
from specsim.host.sampling import SamplingParameters
from specsim.properties.runs.choices import Shifted
from specsim.properties.runs.drafted import drafted_by
from specsim.properties.runs.play import loop_on
from specsim.properties.runs.ranks.padded_runs import waiting_of
from specsim.properties.runs.scenario import Arrival, scenario_of
from specsim.reference.models import load_model
from specsim.simulation.comparing.lockstep import find_divergence
from specsim.simulation.loops import loop_of
from specsim.simulation.models.hash_model import HashModel
from specsim.simulation.models.pool_kinds import PoolKind
from specsim.simulation.pools import sizes_for
from specsim.simulation.report import simulate
from specsim.simulation.requests import Request
from tests.worker_sides import suffix_side

OWN = load("specsim.gpu").workers
LARGEST = (Arrival((1, 2, 1), 9, None, 0),) * 3


def run_named(name, pool=PoolKind.MHA):
    """Return a run of a worker, on a chain or a tree."""
    config = SpecConfig(2, 2, 5) if name in ("eagle_v1", "standalone_v2") else SpecConfig(1, 2, 3)
    return drafted_by(name, scenario_of(config, HashModel(32, 3, 0.8), LARGEST, 3, 0), target_pool=pool)


def test_every_worker_of_both_layers_is_one_of_four_loops():
    decodes = set()
    for name in WORKERS:
        run = run_named(name)
        model = load_on_device(run.model)
        for worker in (
            loop_on(run, **waiting_of(run)),
            OWN[name](run.drafting.sizes, model, run.sizes(), use_graphs=False),
        ):
            decodes.add(type(worker).decode)
    assert gpu.WORKERS.keys() == WORKERS.keys()
    assert len(decodes) == 4


@pytest.mark.parametrize("options", [{}, {"pads": True}], ids=["exact", "padded"])
@pytest.mark.parametrize("build", [GpuWorkerV1, GpuWorker], ids=["V1", "V2"])
def test_a_side_of_ones_own_runs_in_both_loops(build, options):
    asked = [Request(number, [1, 2, 3] * 3, 6 + number) for number in range(3)]
    parameters = NgramParameters(num_draft_tokens=4)
    sizes = sizes_for(parameters.config, asked, 3, 3)
    model, side = load_on_device(HashModel(4, 3, 0.7)), suffix_side(NgramSide)
    worker = build(parameters, model, sizes, use_graphs=False, make_side=side, **options)
    report = simulate(worker, asked, max_batch=3)
    assert report.lossless
    assert report.num_accepted_drafts > 0


def asked_of(run):
    """Return requests of which some are sampled, processed or reported on, as far as the worker serves them."""
    vocab_size, is_block = run.model.vocab_size, run.drafter.cuts_by_company
    plain = [Request(one, [token % vocab_size for token in (one, 7, 3)[: 1 + one]], 3 + 2 * one) for one in range(3)]
    return plain, [
        replace(plain[0].fresh(), sampling=SamplingParameters(1.2, seed=3), top_logprobs=None if is_block else 2),
        replace(plain[1].fresh(), processor=Shifted(1)),
        plain[2].fresh(),
    ]


@pytest.mark.filterwarnings("ignore:.*recurrent state:UserWarning")
@pytest.mark.parametrize("name", [name for name in WORKERS if not name.startswith("standalone")])
def test_replays_over_memory_that_stays_in_place_are_the_reference(name):
    """Batches of one, two and three requests in the buckets of four, one kind of batch after another."""
    run = run_named(name, PoolKind.HYBRID if name == "eagle_v2" else PoolKind.MHA)
    model, sizes = run.model, replace(run.sizes(), num_rows=5)
    believed = loop_of(name)(run.drafting.sizes, load_model(model), sizes)
    worker = OWN[name](run.drafting.sizes, load_on_device(model), sizes, use_graphs=True)
    assert len(worker._batches.captured) == len(bucket_sizes(4))
    for requests in asked_of(run):
        assert find_divergence(believed, worker, requests, max_batch=3, shuffle_seed=5) is None
