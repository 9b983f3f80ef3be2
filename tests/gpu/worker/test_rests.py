"""The device's workers draft nothing for a while, beside the reference's: every phase and carried value agrees."""

import numpy as np
import pytest

from specsim.config import SpecConfig
from specsim.gpu.arrays import DEVICE
from specsim.gpu.models import load_model as load_on_device
from specsim.gpu.worker.v1 import GpuWorkerV1
from specsim.gpu.worker.v2 import GpuWorker
from specsim.reference.models import load_model
from specsim.reference.worker.v1 import ReferenceWorkerV1
from specsim.reference.worker.v2 import ReferenceWorker
from specsim.simulation.comparing.history import first_divergence
from specsim.simulation.engine import Engine
from specsim.simulation.pools import sizes_for
from tests.reference.worker.test_rests import MODEL, ReadOnce, requests

CHAIN = SpecConfig(topk=1, num_steps=2, num_draft_tokens=3)
LOOPS = {"v1": (ReferenceWorkerV1, GpuWorkerV1), "v2": (ReferenceWorker, GpuWorker)}


def beside_the_reference(loops, config, steps, **options):
    """Run both to the end; raise where they differ. The entries of padding, row 0 and slot 0, are no one's."""
    asked = requests(2 * config.num_draft_tokens + 2)
    sizes = sizes_for(config, asked, 3)
    believed, tried = loops
    workers = [believed(config, load_model(MODEL), sizes), tried(config, load_on_device(MODEL), sizes, **options)]
    engines = [Engine(worker, 3, adaptive=steps and ReadOnce(*steps)) for worker in workers]
    for engine in engines:
        for request in asked:
            engine.submit(request.fresh())
    while engines[0].has_work:
        ran = [engine.step() is not None for engine in engines]
        assert ran[0] == ran[1]
        if ran[0]:
            phases = [worker.phases() for worker in workers]
            divergence = first_divergence(engines[0].num_iterations, *phases)
            assert divergence is None, str(divergence)
        expected, got = (worker.state() for worker in workers)
        for name in ("seq_lens", "bonus_tokens", "topk_p", "topk_index", "hidden_states"):
            np.testing.assert_array_equal(got[name][1:], expected[name][1:], err_msg=name)
        for one, other in zip(got["draft_kv"], expected["draft_kv"], strict=True):
            np.testing.assert_array_equal(one[1:], other[1:])
    for one, other in zip(*(engine.scheduler.finished for engine in engines), strict=True):
        assert (one.output, one.counters) == (other.output, other.counters)


@pytest.mark.parametrize("loops", LOOPS.values(), ids=LOOPS)
def test_drafts_rest_and_go_on(loops):
    beside_the_reference(loops, CHAIN, (2, 0, 0, 2), use_graphs=False, pads=True)


def test_a_worker_may_never_draft():
    beside_the_reference(LOOPS["v2"], SpecConfig(1, 0, 1), None, use_graphs=False)


@pytest.mark.skipif(DEVICE.type != "cuda", reason="CUDA graphs exist on a GPU only")
@pytest.mark.parametrize("loops", LOOPS.values(), ids=LOOPS)
@pytest.mark.parametrize(("config", "steps"), [(CHAIN, (2, 0, 0, 2, 1, 0)), (SpecConfig(1, 0, 1), None)], ids=str)
def test_graphs_are_captured_for_rests_too(loops, config, steps):
    beside_the_reference(loops, config, steps, use_graphs=True)
