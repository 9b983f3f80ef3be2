from functools import partial

import pytest
import torch

from specsim.config import SpecConfig
from specsim.gpu.arrays import DEVICE
from specsim.gpu.models import load_model as load_on_device
from specsim.gpu.switches import debugging
from specsim.gpu.worker.carried import BatchRows
from specsim.gpu.worker.graphs import Kind, bucket_for, bucket_sizes
from specsim.gpu.worker.stages import WHOLE, Stages
from specsim.gpu.worker.v2 import GpuWorker
from specsim.reference.models import load_model
from specsim.reference.worker.v2 import ReferenceWorker
from specsim.rejection import Reason, SpecRejection
from specsim.simulation.comparing.lockstep import find_divergence
from specsim.simulation.engine import Engine
from specsim.simulation.models.hash_model import HashModel
from specsim.simulation.models.text_model import TextModel
from specsim.simulation.pools import sizes_for
from specsim.simulation.report import requests_from_text, simulate
from specsim.simulation.requests import Request

needs_gpu = pytest.mark.skipif(DEVICE.type != "cuda", reason="CUDA graphs exist on a GPU only")
TREE = SpecConfig(topk=2, num_steps=3, num_draft_tokens=6)
CHAIN = SpecConfig(topk=1, num_steps=3, num_draft_tokens=4)
TEXT = b"It is a truth universally acknowledged, that a truth is universally a truth. " * 4


def hash_requests(count, max_new_tokens):
    return [Request(number, [number % 60, 7, 3 + number % 5], max_new_tokens + number % 3) for number in range(count)]


def agree_in_every_phase(workers, requests, max_batch):
    for worker in workers[1:]:
        assert find_divergence(workers[0](), worker(), requests, max_batch=max_batch, shuffle_seed=5) is None


def reference(config, model, sizes):
    return partial(ReferenceWorker, config, load_model(model), sizes)


def ours(config, model, sizes, **options):
    return partial(GpuWorker, config, load_on_device(model), sizes, **options)


@pytest.mark.parametrize("config", [TREE, CHAIN], ids=["tree", "chain"])
@pytest.mark.parametrize("pads", [False, True], ids=["exact", "padded"])
def test_eager_worker_equals_the_reference_in_every_phase(config, pads):
    requests = hash_requests(5, 5)
    model = HashModel(64, 1, 0.7)
    sizes = sizes_for(config, requests, 5)
    workers = [
        reference(config, model, sizes),
        ours(config, model, sizes, use_graphs=False, pads=pads),
    ]
    agree_in_every_phase(workers, requests, 5)


def test_padding_reaches_the_bucket_and_leaves_the_padding_row_as_it_was():
    worker = GpuWorker(
        TREE, load_on_device(HashModel(64)), sizes_for(TREE, hash_requests(5, 20), 5), use_graphs=False, pads=True
    )
    engine = Engine(worker, 5)
    for request in hash_requests(3, 20):
        engine.submit(request)
    for _ in range(3):
        engine.step()
    assert worker._last[0].start.req_pool_indices.shape[0] == 4
    assert worker.state()["seq_lens"][0] == 1
    assert not worker.state()["req_to_token"][0].any()


def test_every_call_of_an_iteration_stays_inside_its_contract():
    requests = [Request(number, [number, 7, 3, 5][: number + 1], 3) for number in range(4)]
    worker = GpuWorker(TREE, load_on_device(HashModel(64)), sizes_for(TREE, requests, 4), use_graphs=False, pads=True)
    with debugging():
        assert simulate(worker, requests, max_batch=4).lossless


def test_text_model_equals_the_reference_in_every_phase():
    requests = requests_from_text(TEXT, 2, 8, 8)
    model = TextModel.from_text(TEXT, num_buckets=512)
    sizes = sizes_for(TREE, requests, 2)
    agree_in_every_phase([reference(TREE, model, sizes), ours(TREE, model, sizes)], requests, 2)


def test_rows_that_change_owners_carry_nothing_over():
    requests = hash_requests(4, 3)
    model = HashModel(64, 2, 0.9)
    sizes = sizes_for(TREE, requests, 2)
    agree_in_every_phase([reference(TREE, model, sizes), ours(TREE, model, sizes)], requests, 2)


@pytest.mark.parametrize("depth", [1, 2])
@pytest.mark.parametrize("config", [TREE, CHAIN], ids=["tree", "chain"])
def test_nan_drafts_cost_acceptance_but_no_token(config, depth):
    requests = hash_requests(2, 4)
    model = HashModel(64, 4, 1.0, broken_depth=depth)
    report = simulate(GpuWorker(config, load_on_device(model), sizes_for(config, requests, 2)), requests, max_batch=2)
    assert report.lossless
    assert report.num_accepted_drafts <= (depth - 1) * report.spec_verify_ct + report.spec_verify_ct // 4


def test_empty_batch_decodes_nothing():
    requests = hash_requests(1, 3)
    worker = GpuWorker(TREE, load_on_device(HashModel(64)), sizes_for(TREE, requests, 1))
    iteration = worker.decode([])
    assert iteration.tokens.shape == (0, 6)
    assert iteration.num_accepted_tokens.shape == (0,)


@pytest.mark.parametrize(("live", "size"), [(1, 1), (2, 2), (3, 4), (5, 8), (9, 16), (70, 96), (100, 100)])
def test_bucket_is_the_smallest_that_holds_the_batch(live, size):
    assert bucket_for(live, bucket_sizes(100)) == size


def test_batch_above_the_largest_bucket_is_refused():
    with pytest.raises(SpecRejection) as caught:
        bucket_for(9, bucket_sizes(8))
    assert caught.value.reason is Reason.SCALAR_OUT_OF_RANGE


def test_padding_is_row_zero():
    worker = GpuWorker(TREE, load_on_device(HashModel(64)), sizes_for(TREE, hash_requests(4, 3), 4), use_graphs=False)
    rows = BatchRows(torch.tensor([3, 5]))
    stages = Stages(worker._shared, Kind(TREE.num_steps, False), WHOLE, rows, 4, is_v1=False)
    stages.load(BatchRows(torch.tensor([9, 8, 7, 6])))
    stages.load(rows)
    assert stages._batch.req_pool_indices.tolist() == [3, 5, 0, 0]


@needs_gpu
@pytest.mark.parametrize("config", [CHAIN, TREE, SpecConfig(4, 5, 16), SpecConfig(16, 5, 64)], ids=str)
def test_graphs_equal_eager_and_reference_in_every_phase(config):
    requests = hash_requests(7, 9)
    model = HashModel(64, 3, 0.8)
    sizes = sizes_for(config, requests, 5)
    workers = [
        reference(config, model, sizes),
        ours(config, model, sizes, use_graphs=False),
        ours(config, model, sizes, use_graphs=False, pads=True),
        ours(config, model, sizes, use_graphs=True),
    ]
    agree_in_every_phase(workers, requests, 5)


@needs_gpu
@pytest.mark.parametrize("batch", [1, 2, 3, 8, 17, 64, 129, 256])
def test_graphs_equal_eager_and_reference_at_every_batch_size(batch):
    config, model = SpecConfig(4, 3, 8), HashModel(64, batch, 0.8)
    requests = hash_requests(batch, 6)
    sizes = sizes_for(config, requests, batch)
    workers = [
        reference(config, model, sizes),
        ours(config, model, sizes, use_graphs=False),
        ours(config, model, sizes, use_graphs=True),
    ]
    agree_in_every_phase(workers, requests, batch)


@needs_gpu
def test_replay_does_not_depend_on_what_was_replayed_before():
    requests = hash_requests(16, 10)
    model = HashModel(64, 9, 0.8)
    sizes = sizes_for(TREE, requests, 8)
    assert simulate(GpuWorker(TREE, load_on_device(model), sizes), requests, max_batch=8).lossless


@needs_gpu
def test_iteration_never_synchronises():
    requests = hash_requests(5, 9)
    worker = GpuWorker(TREE, load_on_device(HashModel(64)), sizes_for(TREE, requests, 5), use_graphs=False, pads=True)
    engine = Engine(worker, 5)
    for request in requests:
        engine.submit(request)
    engine.step()
    rows = [request.row for request in engine.scheduler.running]
    torch.cuda.set_sync_debug_mode("error")
    try:
        worker.launch(rows)
    finally:
        torch.cuda.set_sync_debug_mode("default")
