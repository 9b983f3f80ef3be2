import random
from dataclasses import replace

import pytest

from specsim.config import SpecConfig
from specsim.conformance.backend import load
from specsim.reference.models import load_model
from specsim.reference.worker.pools import Pools
from specsim.reference.worker.v1 import ReferenceWorkerV1
from specsim.reference.worker.v2 import ReferenceWorker
from specsim.simulation.comparing.history import first_divergence
from specsim.simulation.engine import Engine
from specsim.simulation.models.hash_model import HashModel
from specsim.simulation.models.kv_pool import Reads
from specsim.simulation.pools import sizes_for
from specsim.simulation.requests import Request

MODEL = HashModel(32, 3, 0.7)
TREE, CHAIN = SpecConfig(3, 3, 8), SpecConfig(1, 2, 3)


def requests():
    return [Request(number, [number, 1, 2][: 1 + number % 3], 6 + number) for number in range(5)]


def engine_of(kind, config, reads, **options):
    asked = requests()
    worker = kind(config, load_model(MODEL), sizes_for(config, asked, 2), reads=reads, **options)
    engine = Engine(worker, 2, shuffle_seed=0)
    for request in asked:
        engine.submit(request)
    return engine


@pytest.mark.parametrize("reads", [Reads.KEPT, Reads.DRAWN])
@pytest.mark.parametrize("config", [TREE, CHAIN], ids=["tree", "chain"])
@pytest.mark.parametrize("kind", [ReferenceWorker, ReferenceWorkerV1])
def test_phases_do_not_depend_on_what_is_kept(kind, config, reads):
    full, other = (engine_of(kind, config, one) for one in (Reads.FULL, reads))
    while full.scheduler.waiting or full.scheduler.running:
        assert (full.step() is None) == (other.step() is None)
        assert first_divergence(full.num_iterations, full.worker.phases(), other.worker.phases()) is None
    assert full.num_iterations > 5
    assert [one.output for one in full.scheduler.finished] == [one.output for one in other.scheduler.finished]


def test_a_drawn_tenth_of_the_iterations_reads_everything_and_finds_what_no_one_counted():
    def without_a_door(description, sizes, reads):
        pools = Pools.of(description, sizes, reads, door=lambda versions, slots: None)
        return replace(pools, drawn=random.Random(1))

    engine = engine_of(ReferenceWorker, TREE, Reads.DRAWN, make_pools=without_a_door)
    with pytest.raises(AssertionError, match="written past the door, but should be as it was read last"):
        engine.run()

    pools, kept = Pools.of(load_model(MODEL).description, engine.worker.sizes, Reads.DRAWN), []
    for _ in range(1000):
        pools.start_iteration()
        kept.append({pool.is_kept for pool in pools.kv.values()})
    assert 50 < kept.count({False}) < 150
    assert kept.count({True}) + kept.count({False}) == 1000


def test_a_model_on_operations_of_others_reads_everything():
    calls, reference = [], load("specsim.reference")

    def counted(**arguments):
        calls.append(len(arguments["input_ids"]))
        return reference.functions["target_forward"](**arguments)

    operations = reference.with_function("target_forward", counted, "counted")
    asked = requests()[:1]
    sizes = sizes_for(TREE, asked, 1)
    engine = Engine(ReferenceWorker(TREE, load_model(MODEL, operations), sizes, operations, Reads.KEPT), 1)
    engine.submit(asked[0])
    engine.run()
    assert len(calls) == 1 + engine.num_iterations
