"""Layers with a sliding window on the device: the same as the reference in every phase, and where KV has to lie."""

import numpy as np
import pytest
import torch

from specsim.config import SpecConfig
from specsim.gpu.arrays import DEVICE
from specsim.gpu.models import load_model as load_on_device
from specsim.gpu.models.window import disturb as disturb_on_device
from specsim.gpu.worker.v1 import GpuWorkerV1
from specsim.gpu.worker.v2 import GpuWorker
from specsim.reference.models import load_model
from specsim.reference.models.window import disturb
from specsim.reference.worker.v1 import ReferenceWorkerV1
from specsim.reference.worker.v2 import ReferenceWorker
from specsim.simulation.comparing.lockstep import find_divergence
from specsim.simulation.models.batches import PagedKeys, TargetBatch, WindowKeys
from specsim.simulation.models.hash_model import HashModel
from specsim.simulation.models.pool_kinds import SWA_KEYS, SWA_VALUES, PoolKind
from specsim.simulation.pools import sizes_for
from specsim.simulation.requests import Request
from specsim.simulation.schedule import Schedule

needs_gpu = pytest.mark.skipif(DEVICE.type != "cuda", reason="CUDA graphs exist on a GPU only")
TREE, CHAIN = SpecConfig(2, 2, 5), SpecConfig(1, 2, 3)
MODEL = HashModel(32, 5, 0.8, target_pool=PoolKind.SWA, window=3)


def diverge(loops, config, max_new_tokens, **options):
    requests = [Request(number, [9, 4, 2, 7, 5][number:], max_new_tokens) for number in range(2)]
    schedule = Schedule(prefill_chunk=3)
    sizes = sizes_for(config, requests, 2, 1, MODEL.window, schedule)
    believed = loops[0](config, load_model(MODEL), sizes)
    ours = loops[1](config, load_on_device(MODEL), sizes, **options)
    return find_divergence(believed, ours, requests, max_batch=2, shuffle_seed=5, schedule=schedule), believed, ours


@pytest.mark.parametrize(
    ("loops", "config"),
    [((ReferenceWorker, GpuWorker), TREE), ((ReferenceWorkerV1, GpuWorkerV1), CHAIN)],
    ids=["v2-tree", "v1-chain"],
)
def test_workers_agree_and_keep_the_same_before_their_windows(loops, config):
    divergence, believed, ours = diverge(loops, config, 5, use_graphs=False, pads=True)
    assert divergence is None
    state, other = believed.state(), ours.state()
    assert np.array_equal(state["full_to_swa"], other["full_to_swa"])
    for one, two in zip(state["swa_kv"], other["swa_kv"], strict=True):
        assert np.array_equal(one[1:], two[1:])


@needs_gpu
@pytest.mark.parametrize("config", [TREE, CHAIN], ids=["tree", "chain"])
@pytest.mark.parametrize("loops", [(ReferenceWorker, GpuWorker), (ReferenceWorkerV1, GpuWorkerV1)], ids=["v2", "v1"])
def test_captured_workers_agree(loops, config):
    assert diverge(loops, config, 40, use_graphs=True)[0] is None


@pytest.mark.parametrize("is_tree", [True, False], ids=["tree", "chunk"])
@pytest.mark.parametrize("window", [1, 2, 5])
def test_what_differs_in_a_window_is_the_same_word_on_the_device(is_tree, window):
    source = np.random.default_rng(window)
    prefixes, width, num_slots = [6, 1], 4, 40
    table = source.permutation(np.arange(1, num_slots))[:24].reshape(2, 12).astype(np.int32)
    depth = np.array([0, 1, 1, 2]) if is_tree else np.arange(4)
    sees = np.array([[1, 0, 0, 0], [1, 1, 0, 0], [1, 0, 1, 0], [1, 1, 0, 1]], dtype=np.bool_)
    full_to_swa = source.integers(0, 9, num_slots)
    out_cache_loc = np.concatenate([table[0, 6:10], table[1, 1:5]]).astype(np.int64)
    full_to_swa[out_cache_loc] = np.arange(9, 17)
    arrays = {
        "req_pool_indices": np.array([1, 2]),
        "input_ids": source.integers(0, 32, 8),
        "positions": np.concatenate([prefix + depth for prefix in prefixes]),
        "out_cache_loc": out_cache_loc,
        "prefix_lens": np.array(prefixes),
    }
    keys = (table, np.array(prefixes, dtype=np.int32) + width, np.array([0, 4, 8], dtype=np.int32))
    lowest, hidden = (source.integers(0, 1 << 32, (count, 4)) for count in (num_slots, 8))
    buffers = [source.integers(0, 1 << 32, (17, 4)) for _ in range(2)]
    words = []
    for to, function in ((np.array, disturb), (lambda one: torch.tensor(one, device=DEVICE), disturb_on_device)):
        kv = {name: [to(buffer)] for name, buffer in zip((SWA_KEYS, SWA_VALUES), buffers, strict=True)}
        batch = TargetBatch(
            **{name: to(array) for name, array in arrays.items()},
            keys=PagedKeys(*map(to, keys), 1),
            tree_mask=to(np.tile(sees.reshape(-1), 2)) if is_tree else None,
            parents=None,
            select=None,
            hidden_layers=(),
            is_sampled=False,
            window_keys=WindowKeys(kv, to(full_to_swa[out_cache_loc]), to(full_to_swa[table]), window),
        )
        words.append((function(to(hidden), batch, [to(lowest)]), kv))
    (one, kv), (two, kv_there) = words
    assert np.array_equal(one, two.cpu().numpy())
    assert not np.array_equal(one, hidden)
    for name in kv:
        assert np.array_equal(kv[name][0], kv_there[name][0].cpu().numpy())
