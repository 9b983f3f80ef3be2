"""Processors, grammars and changing steps in the device's worker, eager and in graphs."""

import numpy as np
import pytest
import torch

from specsim.config import SpecConfig
from specsim.gpu.arrays import DEVICE
from specsim.gpu.models import load_model as load_on_device
from specsim.gpu.worker.constraints import allowed_tokens
from specsim.gpu.worker.v2 import GpuWorker
from specsim.host.adaptive import AdaptiveConfig, AdaptiveController, AdaptiveSlot
from specsim.host.sampling import SamplingParameters
from specsim.properties.runs.choices import Automaton, Shifted
from specsim.reference.models import load_model
from specsim.reference.worker.constraints import allowed_tokens as allowed_on_host
from specsim.reference.worker.v2 import ReferenceWorker
from specsim.rejection import Reason, SpecRejection
from specsim.simulation.comparing.lockstep import find_divergence
from specsim.simulation.engine import Engine
from specsim.simulation.models.hash_model import HashModel
from specsim.simulation.pools import sizes_for
from specsim.simulation.report import simulate
from specsim.simulation.requests import Request

needs_gpu = pytest.mark.skipif(DEVICE.type != "cuda", reason="CUDA graphs exist on a GPU only")
TREE, CHAIN = SpecConfig(2, 2, 5), SpecConfig(1, 3, 4)
MODEL = HashModel(32, 1, 0.9)
ADAPTIVE = AdaptiveConfig((AdaptiveSlot(1, (1, 2, 3)),), alpha=0.5, warmup=0, interval=1)


def constrained_requests(count, max_new_tokens):
    """Return requests with a grammar, a processor, both, or neither; every other pair of them is sampled."""
    kinds = [(None, Automaton(32, 3, 0.75, 12, 5)), (Shifted(2), None), (Shifted(1), Automaton(32, 2, 0.5, 99, 7))]
    requests = []
    for number in range(count):
        processor, grammar = [*kinds, (None, None)][number % 4]
        start = None if grammar is None else grammar.start
        sampling = SamplingParameters(1.2, seed=number) if number % 4 in (1, 2) and number > 3 else None
        prompt = [number % 7, 2, 3][: 1 + number % 3]
        requests.append(Request(number, prompt, max_new_tokens, processor=processor, grammar=start, sampling=sampling))
    return requests


def diverges(config, requests, max_batch, **options):
    sizes = sizes_for(config, requests, max_batch)
    believed = ReferenceWorker(config, load_model(MODEL), sizes)
    worker = GpuWorker(config, load_on_device(MODEL), sizes, **options)
    return find_divergence(believed, worker, requests, max_batch=max_batch, shuffle_seed=5)


@pytest.mark.parametrize("config", [TREE, CHAIN], ids=["tree", "chain"])
@pytest.mark.parametrize("pads", [False, True], ids=["exact", "padded"])
def test_constrained_requests_equal_the_reference_in_every_phase(config, pads):
    assert diverges(config, constrained_requests(4, 4), 3, use_graphs=False, pads=pads) is None


def test_sampled_and_constrained_requests_equal_the_reference_in_every_phase():
    assert diverges(TREE, constrained_requests(7, 3)[3:], 4, use_graphs=False) is None


@needs_gpu
@pytest.mark.parametrize("config", [TREE, CHAIN], ids=["tree", "chain"])
def test_graphs_of_constrained_batches_equal_the_reference_in_every_phase(config):
    assert diverges(config, constrained_requests(17, 16), 7, use_graphs=True) is None


@pytest.mark.parametrize("use_graphs", [False, pytest.param(True, marks=needs_gpu)], ids=["eager", "graphs"])
def test_changing_steps_lose_nothing_and_change(use_graphs):
    requests = [Request(number, [number, 2, 3], 10 if DEVICE.type == "cpu" else 40) for number in range(2)]
    worker = GpuWorker(CHAIN, load_on_device(HashModel(64, 4, 0.6)), sizes_for(CHAIN, requests, 2), use_graphs)
    engine = Engine(worker, 2, adaptive=AdaptiveController(1, ADAPTIVE))
    for request in requests:
        engine.submit(request.fresh())
    widths = set()
    while engine.has_work:
        if engine.step() is not None:
            widths.add(worker.phases()[1].num_draft_tokens)
    assert len(widths) > 1
    assert simulate(worker, requests, max_batch=2, adaptive=AdaptiveController(1, ADAPTIVE)).lossless


def test_no_controller_chooses_the_steps_of_trees():
    requests = [Request(0, [1], 2)]
    worker = GpuWorker(TREE, load_on_device(MODEL), sizes_for(TREE, requests, 1), use_graphs=False)
    with pytest.raises(SpecRejection) as caught:
        Engine(worker, 1, adaptive=AdaptiveController(1, ADAPTIVE))
    assert caught.value.reason is Reason.BAD_CONFIGURATION


@pytest.mark.parametrize("vocab_size", [1, 31, 32, 33, 70])
def test_masks_are_unpacked_as_on_the_host(vocab_size):
    words = np.random.default_rng(vocab_size).integers(-(2**31), 2**31, (3, -(-vocab_size // 32)), dtype=np.int32)
    got = allowed_tokens(torch.from_numpy(words), vocab_size).numpy()
    assert got.shape == (3, vocab_size)
    assert (got == allowed_on_host(words, vocab_size)).all()
    bits = [[bool((int(row[token // 32]) >> token % 32) & 1) for token in range(vocab_size)] for row in words]
    assert got.tolist() == bits
