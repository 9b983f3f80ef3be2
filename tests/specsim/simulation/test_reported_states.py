"""Users are handed the hidden state that each output token was chosen from, one layer wide, on every worker."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from specsim import Reason, SpecRejection
from specsim.checkpoints.in_numpy import InNumpy
from specsim.config import SpecConfig
from specsim.gpu.arrays import DEVICE
from specsim.gpu.models import load_model as load_on_device
from specsim.gpu.worker.v1 import GpuWorkerV1
from specsim.gpu.worker.v2 import GpuWorker
from specsim.host.choice import TokenChoice
from specsim.host.ngram import NgramParameters
from specsim.properties.runs.reports.reported import check_reported
from specsim.reference.models import load_model
from specsim.reference.worker.v1 import ReferenceWorkerV1
from specsim.reference.worker.v2 import ReferenceWorker
from specsim.simulation.engine import Engine
from specsim.simulation.events import Reach, Tag
from specsim.simulation.logprobs import check_reported as check_asked
from specsim.simulation.loops import loop_of
from specsim.simulation.models.batches import TargetOutput
from specsim.simulation.models.description import FINAL_LAYER, DraftSource
from specsim.simulation.models.hash_model import HashModel
from specsim.simulation.models.reported_states import layers_to_ask, part_states
from specsim.simulation.pools import sizes_for
from specsim.simulation.requests import Request
from specsim.simulation.schedule import Schedule
from tests.specsim.simulation.models.dense import target_hidden
from tests.specsim.simulation.models.examples import my_transformer
from tests.specsim.simulation.models.foreign_runs import CPU

MODEL = HashModel(32)
CHAIN, TREE = SpecConfig(1, 3, 4), SpecConfig(3, 3, 7)
WORKERS = {
    "v1": (ReferenceWorkerV1, load_model),
    "v2": (ReferenceWorker, load_model),
    "gpu v1": (GpuWorkerV1, load_on_device),
    "gpu v2": (GpuWorker, load_on_device),
}


def asked():
    """Return requests that ask for states, for scores, for both, and for nothing; they end by different causes."""
    return [
        Request(0, [1, 2, 3], 7, returns_hidden_states=True),
        Request(1, [4, 5], 6, top_logprobs=1, returns_hidden_states=True, token_ids_logprob=(3, 9)),
        Request(2, [6], 5),
        Request(3, [7, 8, 9, 1], 8, stop_tokens=range(0, 32, 3), top_logprobs=0),
        Request(4, [9, 8], 9, eos_token=11, context_limit=6, returns_hidden_states=True),
    ]


def ran(worker, requests, max_batch=3, **options):
    engine = Engine(worker, max_batch, **options)
    for request in requests:
        engine.submit(request.fresh())
    return engine.run()


@pytest.mark.parametrize("config", [CHAIN, TREE], ids=["chain", "tree"])
@pytest.mark.parametrize("name", ["v1", "v2"])
def test_each_token_comes_with_its_state(name, config):
    make, load = WORKERS[name]
    requests = asked()
    done = ran(make(config, load(MODEL), sizes_for(config, requests, 3)), requests)
    for request in done:
        check_reported(MODEL, request)
    assert [len(one.hidden_states) for one in done] == [7, 6, 0, 0, len(done[4].output)]
    silent = [replace(one, returns_hidden_states=False, top_logprobs=None, token_ids_logprob=()) for one in requests]
    again = ran(make(config, load(MODEL), sizes_for(config, requests, 3)), silent)
    assert [one.output for one in done] == [one.output for one in again]


@pytest.mark.parametrize("name", ["gpu v1", "gpu v2"])
def test_the_device_hands_them_over_alike(name):
    make, load = WORKERS[name]
    requests = [replace(request, max_new_tokens=2) for request in asked()[:2]]
    for request in ran(make(TREE, load(MODEL), sizes_for(TREE, requests, 2)), requests, 2):
        check_reported(MODEL, request)


@pytest.mark.parametrize("make", [loop_of("ngram"), loop_of("ngram_v2")])
def test_drafts_of_a_store_change_no_state(make):
    parameters, requests = NgramParameters(3, 3, num_draft_tokens=5), asked()
    for request in ran(make(parameters, load_model(MODEL), sizes_for(parameters.config, requests, 3)), requests):
        check_reported(MODEL, request)


def test_drafts_over_the_keys_of_the_target_change_no_state():
    model, requests = replace(MODEL, kv_sharing=(1, 0)), asked()
    for request in ran(loop_of("frozen_kv_mtp")(TREE, load_model(model), sizes_for(TREE, requests, 3)), requests):
        check_reported(MODEL, request)


@pytest.mark.parametrize(
    ("make", "drafting", "differs"),
    [
        (loop_of("ngram", "gpu"), NgramParameters(3, 3, num_draft_tokens=4), {}),
        (loop_of("ngram_v2", "gpu"), NgramParameters(3, 3, num_draft_tokens=4), {}),
        (loop_of("frozen_kv_mtp", "gpu"), SpecConfig(1, 1, 2), {"kv_sharing": (0,)}),
    ],
)
def test_workers_of_other_algorithms_hand_them_over_on_the_device(make, drafting, differs):
    requests = [replace(request, max_new_tokens=2) for request in asked()[:2]]
    config = drafting if isinstance(drafting, SpecConfig) else drafting.config
    worker = make(drafting, load_on_device(replace(MODEL, **differs)), sizes_for(config, requests, 2))
    for request in ran(worker, requests, 2):
        check_reported(MODEL, request)


def test_requests_that_lose_their_slots_keep_what_they_were_handed():
    requests = [Request(number, [number + 1] * 4, 20, returns_hidden_states=True) for number in range(6)]
    requests[2].stop_tokens = range(0, 32, 2)
    sizes = replace(sizes_for(CHAIN, requests, 4), num_slots=64)
    schedule = Schedule(True, stream_seed=2, prefill_chunk=3, promised=Fraction(0), has_prefix_cache=True)
    reach = Reach()
    for request in ran(
        ReferenceWorker(CHAIN, load_model(MODEL), sizes), requests, 4, schedule=schedule, observer=reach
    ):
        check_reported(MODEL, request)
    assert reach.counts[Tag.RETRACT] and reach.counts[Tag.LATE] and reach.counts[Tag.SIDE]


@pytest.mark.parametrize(
    ("source", "layers"),
    [(DraftSource.TOKENS, (FINAL_LAYER,)), (DraftSource.HIDDEN, (0,)), (DraftSource.HIDDEN, (FINAL_LAYER, 0))],
    ids=["a draft of tokens alone", "another layer", "the final layer first"],
)
@pytest.mark.parametrize("make", [ReferenceWorker, ReferenceWorkerV1])
def test_states_are_one_layer_wide_whatever_the_draft_consumes(make, source, layers):
    runs_of_one_layer_wide_states(make, source, layers)


def test_the_device_cuts_them_out_too():
    runs_of_one_layer_wide_states(GpuWorker, DraftSource.HIDDEN, (0,))


def runs_of_one_layer_wide_states(make, source, layers):
    model, on_device = (
        my_transformer.Transformer(my_transformer.Sizes(), 7, device, source, layers) for device in (CPU, DEVICE)
    )
    requests = [Request(0, [3], 4, returns_hidden_states=True), Request(1, [5, 1, 4], 4)]
    worker = make(CHAIN, on_device if make is GpuWorker else InNumpy(model), sizes_for(CHAIN, requests, 2))
    request, other = ran(worker, requests, 2)
    assert other.hidden_states == []
    expected = target_hidden(model, [*request.prompt, *request.output[:-1]])[len(request.prompt) - 1 :]
    np.testing.assert_allclose(request.hidden_states, expected, rtol=1e-9)


def test_a_model_that_returns_other_layers_is_named():
    description = load_model(MODEL).description
    assert layers_to_ask(replace(description, draft_layers=(0,)), wants_report=True) == (0, FINAL_LAYER)
    wrong = TargetOutput(np.zeros((1, 32)), np.zeros((1, 2), dtype=np.int64))
    assert part_states(description, wrong, wants_report=False) is wrong
    with pytest.raises(AssertionError, match="width of the hidden states of HashModel = 2, but should be 3"):
        part_states(description, wrong, wants_report=True)


@pytest.mark.parametrize(
    ("choice", "wants_report", "reason"),
    [
        (TokenChoice(returns_hidden_states=True), False, Reason.BAD_CONFIGURATION),
        (TokenChoice(top_logprobs=0, token_ids_logprob=(0, 32)), True, Reason.TOKEN_OUT_OF_RANGE),
        (TokenChoice(top_logprobs=0, token_ids_logprob=(-1,)), True, Reason.TOKEN_OUT_OF_RANGE),
        (TokenChoice(token_ids_logprob=(1,)), True, Reason.BAD_CONFIGURATION),
        (TokenChoice(has_original_logprobs=True), True, Reason.BAD_CONFIGURATION),
    ],
)
def test_what_cannot_be_reported_is_refused(choice, wants_report, reason):
    with pytest.raises(SpecRejection) as caught:
        check_asked(load_model(MODEL).description, wants_report, choice)
    assert caught.value.reason is reason
