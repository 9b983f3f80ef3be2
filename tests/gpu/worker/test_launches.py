"""How many launches an iteration has beside the forwards of its model."""

from dataclasses import fields

import pytest

from specsim.config import SpecConfig
from specsim.gpu.arrays import DEVICE
from specsim.gpu.bench.decode import StillModel
from specsim.gpu.models import load_model
from specsim.gpu.worker.graphs import Kind
from specsim.gpu.worker.stages import WHOLE, Stages
from specsim.gpu.worker.v2 import GpuWorker
from specsim.simulation.models.hash_model import HashModel
from specsim.simulation.pools import sizes_for
from specsim.simulation.requests import Request

CHAIN, TREE = SpecConfig(1, 3, 4), SpecConfig(4, 5, 16)
SIZE = 2


def captured(config):
    """Return the stages of greedy requests as one graph, in which the forwards of a still model launch nothing."""
    model = StillModel(load_model(HashModel(256)))
    worker = GpuWorker(config, model, sizes_for(config, [Request(0, [7], 8)], SIZE), use_graphs=False)
    stages = Stages(worker._shared, Kind(config.num_steps, False), WHOLE, worker._waiting.take([]), SIZE, False)
    stages.run("settle")
    model.is_still = True
    stages.capture(None)
    return stages


@pytest.mark.skipif(DEVICE.type == "cuda", reason="a simulated graph is counted")
@pytest.mark.parametrize(("config", "num_launches"), [(CHAIN, 14), (TREE, 16)], ids=["chain", "tree"])
def test_an_iteration_has_so_many_launches_around_its_forwards(config, num_launches):
    """What a batch is loaded from is one tensor, so that its copy is the only launch outside of the graph."""
    stages = captured(config)
    assert stages._graphs["settle"].num_launches == num_launches
    assert [field.name for field in fields(stages._batch)] == ["req_pool_indices"]
