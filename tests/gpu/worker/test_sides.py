"""Drafts of EAGLE3 and STANDALONE on the device: the same as the reference in every phase."""

from dataclasses import replace

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
from specsim.simulation.models.description import DraftSource
from specsim.simulation.models.hash_model import HashModel
from specsim.simulation.models.pool_kinds import PoolKind
from specsim.simulation.pools import sizes_for
from specsim.simulation.requests import Request
from specsim.simulation.schedule import Schedule

needs_gpu = pytest.mark.skipif(DEVICE.type != "cuda", reason="CUDA graphs exist on a GPU only")
TREE, CHAIN = SpecConfig(2, 2, 5), SpecConfig(1, 2, 3)
HOT = np.random.default_rng(3).permutation(32)[:28]
EAGLE3 = HashModel(32, 5, 0.8, reads_all_layers=True, hot_token_id=HOT, num_target_layers=3)
STANDALONE = HashModel(32, 5, 0.8, draft_source=DraftSource.TOKENS)
LOOPS = {"v2": (ReferenceWorker, GpuWorker), "v1": (ReferenceWorkerV1, GpuWorkerV1)}
MODELS = pytest.mark.parametrize("model", [EAGLE3, STANDALONE], ids=["eagle3", "standalone"])


def diverge(loop, config, model, max_new_tokens, page_size=1, **options):
    requests = [Request(number, [9, 4, 2, 7, 5][number:], max_new_tokens) for number in range(2)]
    schedule = Schedule(prefill_chunk=max(3, page_size))
    sizes = sizes_for(config, requests, 2, page_size, 0, schedule)
    of_reference, on_device = LOOPS[loop]
    believed = of_reference(config, load_model(model), sizes)
    ours = on_device(config, load_on_device(model), sizes, **options)
    return find_divergence(believed, ours, requests, max_batch=2, shuffle_seed=5, schedule=schedule)


@MODELS
@pytest.mark.parametrize(("loop", "config"), [("v2", TREE), ("v1", CHAIN)], ids=["v2-tree", "v1-chain"])
def test_workers_agree(loop, config, model):
    assert diverge(loop, config, model, 5, use_graphs=False) is None


@needs_gpu
@MODELS
@pytest.mark.parametrize("page_size", [1, 4])
@pytest.mark.parametrize("config", [TREE, CHAIN], ids=["tree", "chain"])
@pytest.mark.parametrize("loop", LOOPS)
def test_captured_workers_agree(loop, config, page_size, model):
    for kind in (PoolKind.MHA, PoolKind.MLA):
        assert diverge(loop, config, replace(model, draft_pool=kind), 40, page_size, use_graphs=True) is None
