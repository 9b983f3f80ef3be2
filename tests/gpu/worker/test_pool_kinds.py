"""Captured iterations on every kind of pool agree with the reference: every phase, and every row of a slot."""

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
from specsim.simulation.comparing.lockstep import find_divergence
from specsim.simulation.models.hash_model import HashModel
from specsim.simulation.models.pool_kinds import DRAFT_KINDS, PoolKind
from specsim.simulation.models.toys import window_of
from specsim.simulation.pools import sizes_for
from specsim.simulation.requests import Request

needs_gpu = pytest.mark.skipif(DEVICE.type != "cuda", reason="CUDA graphs exist on a GPU only")
TREE, CHAIN = SpecConfig(3, 3, 9), SpecConfig(1, 3, 4)
LOOPS = {"v2": (ReferenceWorker, GpuWorker), "v1": (ReferenceWorkerV1, GpuWorkerV1)}
PAIRS = [(kind, PoolKind.MHA) for kind in PoolKind] + [(PoolKind.HYBRID, kind) for kind in DRAFT_KINDS]


def asked():
    return [Request(number, [(7 * number + place) % 32 for place in range(1 + 3 * number)], 30) for number in range(5)]


@needs_gpu
@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("page_size", [1, 4])
@pytest.mark.parametrize(("target", "draft"), PAIRS, ids=["-".join(pair) for pair in PAIRS])
def test_graphs_agree_with_the_reference_on_every_kind(loop, page_size, target, draft):
    config = CHAIN if PoolKind.OTHER in (target, draft) else TREE
    model = HashModel(32, 5, 0.8, target_pool=target, draft_pool=draft)
    sizes = sizes_for(config, asked(), 3, page_size, window_of(model))
    of_reference, on_device = LOOPS[loop]
    believed, tried = of_reference(config, load_model(model), sizes), on_device(config, load_on_device(model), sizes)
    assert tried.use_graphs
    assert find_divergence(believed, tried, asked(), max_batch=3, shuffle_seed=2) is None
    one, other = believed.state(), tried.state()
    for name in ("target_kv", "draft_kv"):
        for expected, got in zip(one[name], other[name], strict=True):
            # NOTE: slot 0, or the first row of the dump's page, takes what padding writes.
            if len(expected) == sizes.num_slots and PoolKind.OTHER not in (target, draft):
                assert np.array_equal(got[page_size:], expected[page_size:])
    for expected, got in zip(one["states"], other["states"], strict=True):
        assert np.array_equal(got[1:], expected[1:])
