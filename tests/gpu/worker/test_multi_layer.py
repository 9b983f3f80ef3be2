"""Multi-layer drafts on the device: every phase equals the reference's, eagerly, padded and in captured graphs."""

import numpy as np
import pytest

from specsim.config import SpecConfig
from specsim.gpu.arrays import DEVICE
from specsim.gpu.models import load_model as load_on_device
from specsim.gpu.switches import debugging
from specsim.reference.models import load_model
from specsim.simulation.comparing.lockstep import find_divergence
from specsim.simulation.loops import loop_of
from specsim.simulation.models.description import DraftSource
from specsim.simulation.models.hash_model import HashModel
from specsim.simulation.pools import sizes_for
from specsim.simulation.requests import Request
from specsim.simulation.schedule import IN_TURN, Schedule

needs_gpu = pytest.mark.skipif(DEVICE.type != "cuda", reason="CUDA graphs exist on a GPU only")
LOOPS = {
    "v1": (loop_of("multi_layer_eagle_v1"), loop_of("multi_layer_eagle_v1", "gpu")),
    "v2": (loop_of("multi_layer_eagle_v2"), loop_of("multi_layer_eagle_v2", "gpu")),
}
BUSY = Schedule(prefill_chunk=4, has_prefix_cache=True)


def asked(lengths, max_new_tokens):
    return [Request(number, [7, 3, 9, 11, 2, 8][:length], max_new_tokens) for number, length in enumerate(lengths)]


def diverges(name, num_layers, requests, schedule=IN_TURN, page_size=1, **options):
    """Return where the two layers diverge, the hidden states that wait included."""
    model = HashModel(40, 6, 0.7, num_draft_layers=num_layers, draft_source=DraftSource.LAYERS)
    config = SpecConfig(1, num_layers, num_layers + 1)
    sizes = sizes_for(config, requests, 2, page_size, 0, schedule)
    expected, got = LOOPS[name]
    workers = expected(config, load_model(model), sizes), got(config, load_on_device(model), sizes, **options)
    divergence = find_divergence(*workers, requests, max_batch=2, shuffle_seed=5, schedule=schedule)
    pools = [worker.state()["hidden_states_pool"][1:] for worker in workers]
    np.testing.assert_array_equal(*pools)
    return divergence


@pytest.mark.parametrize("name", LOOPS)
def test_every_phase_equals_that_of_the_reference(name):
    assert diverges(name, 3, asked((2, 6), 4), BUSY, 2, use_graphs=False, pads=True) is None


@pytest.mark.parametrize("name", LOOPS)
def test_every_call_stays_inside_its_contract(name):
    with debugging():
        assert diverges(name, 2, asked((1,), 3), use_graphs=False) is None


@needs_gpu
@pytest.mark.parametrize("use_graphs", [False, True], ids=["eager", "graphs"])
@pytest.mark.parametrize("num_layers", [1, 2, 3, 4])
@pytest.mark.parametrize("name", LOOPS)
def test_graphs_equal_the_reference_in_every_phase(name, num_layers, use_graphs):
    for page_size, schedule in ((1, IN_TURN), (1, BUSY), (2, BUSY), (1, Schedule(prefill_chunk=3))):
        requests = asked((1, 6, 3, 5, 2), 24)
        assert diverges(name, num_layers, requests, schedule, page_size, use_graphs=use_graphs, pads=True) is None
