"""Rules that follow the output in the device's workers: eager, padded, and in graphs, beside requests without any."""

import pytest

from specsim.config import SpecConfig
from specsim.gpu.arrays import DEVICE
from specsim.gpu.models import load_model as load_on_device
from specsim.gpu.worker.v1 import GpuWorkerV1
from specsim.gpu.worker.v2 import GpuWorker
from specsim.host.logit_rules import LogitRules
from specsim.host.ngram import NgramParameters
from specsim.host.sampling import SamplingParameters
from specsim.properties.runs.choices import Shifted
from specsim.reference.models import load_model
from specsim.reference.worker.v2 import ReferenceWorker
from specsim.simulation.comparing.autoregressive import ExactDecoder, decode_alone
from specsim.simulation.comparing.lockstep import find_divergence
from specsim.simulation.engine import Engine
from specsim.simulation.loops import loop_of
from specsim.simulation.models.ground_truth import Prefix
from specsim.simulation.models.hash_model import HashModel
from specsim.simulation.pools import sizes_for
from specsim.simulation.requests import Request
from specsim.simulation.schedule import IN_TURN, Schedule

needs_gpu = pytest.mark.skipif(DEVICE.type != "cuda", reason="CUDA graphs exist on a GPU only")
EITHER = pytest.mark.parametrize("use_graphs", [False, pytest.param(True, marks=needs_gpu)], ids=["eager", "graphs"])
TREE = SpecConfig(2, 2, 5)
MODEL = HashModel(8, 3, 0.9)
RULES = (
    LogitRules(frequency_penalty=1.5, repetition_penalty=1.3, bad_words=((2, 5), (1,))),
    None,
    LogitRules(presence_penalty=2.0, logit_bias=((4, 2.5),), min_tokens=4),
    LogitRules(bad_words=((6,), (3, 3)), min_tokens=3),
)


def ruled_requests(count, max_new_tokens, processor=None):
    return [
        Request(
            number,
            [number % 8, 2, 3][: 1 + number % 3],
            max_new_tokens,
            eos_token=number % 5 if number % 2 == 0 else None,
            stop_tokens=(7,) if number % 4 == 3 else (),
            logit_rules=RULES[number % 4],
            processor=processor if number % 4 == 0 else None,
        )
        for number in range(count)
    ]


def outputs_of(worker, requests, schedule=IN_TURN, retracted_after=0):
    engine = Engine(worker, 2, shuffle_seed=4, schedule=schedule)
    for request in requests:
        engine.submit(request)
    for _ in range(retracted_after):
        engine.step()
    for request in engine.scheduler.holders[:retracted_after]:
        engine.scheduler.retract(request)
    return {request.request_id: (request.output, request.finish) for request in engine.run()}


def decoded_plainly(requests):
    return {
        one.request_id: decode_alone(ExactDecoder(Prefix(MODEL), one.choice_alone()), one.prompt, one.rules)
        for one in requests
    }


@EITHER
@pytest.mark.parametrize("build", [GpuWorker, GpuWorkerV1])
def test_ruled_outputs_are_those_of_plain_decoding(build, use_graphs):
    requests = ruled_requests(4, 7, Shifted(1))
    worker = build(TREE, load_on_device(MODEL), sizes_for(TREE, requests, 2), use_graphs, pads=True)
    assert outputs_of(worker, requests, retracted_after=2) == decoded_plainly(requests)


@EITHER
def test_overlapped_outputs_are_those_of_plain_decoding(use_graphs):
    requests = ruled_requests(4, 6)
    worker = GpuWorker(TREE, load_on_device(MODEL), sizes_for(TREE, requests, 2), use_graphs)
    assert outputs_of(worker, requests, Schedule(is_overlapped=True, prefill_chunk=2)) == decoded_plainly(requests)


@EITHER
def test_drafts_from_a_store_obey_rules(use_graphs):
    requests, parameters = ruled_requests(3, 6), NgramParameters(num_draft_tokens=4)
    sizes = sizes_for(parameters.config, requests, 2)
    worker = loop_of("ngram", "gpu")(parameters, load_on_device(MODEL), sizes, use_graphs)
    assert outputs_of(worker, requests) == decoded_plainly(requests)


@EITHER
def test_sampled_requests_with_rules_equal_the_reference_in_every_phase(use_graphs):
    requests = ruled_requests(3, 5)
    for request in requests[:2]:
        request.sampling = SamplingParameters(1.2, seed=request.request_id)
        request.top_logprobs = 2
    sizes = sizes_for(TREE, requests, 3)
    believed, worker = (
        ReferenceWorker(TREE, load_model(MODEL), sizes),
        GpuWorker(TREE, load_on_device(MODEL), sizes, use_graphs),
    )
    assert find_divergence(believed, worker, requests, max_batch=3, shuffle_seed=5) is None


def test_a_batch_without_rules_allocates_nothing():
    requests = [Request(0, [1], 2)]
    worker = GpuWorker(TREE, load_on_device(MODEL), sizes_for(TREE, requests, 1), use_graphs=False)
    outputs_of(worker, requests)
    assert not worker._choices.rules.is_allocated
