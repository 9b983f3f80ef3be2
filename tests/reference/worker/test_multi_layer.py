"""Multi-layer drafts on the reference: no token is lost, and caches equal those of a fresh prefill."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from specsim import Reason, SpecRejection
from specsim.config import PoolSizes, SpecConfig
from specsim.host.sampling import SamplingParameters
from specsim.properties.runs.sampling.sampled_law import check_sampled_law
from specsim.reference.models import load_model
from specsim.reference.worker.v2 import ReferenceWorker
from specsim.simulation.engine import Engine
from specsim.simulation.loops import loop_of
from specsim.simulation.memory import SlotRange
from specsim.simulation.models.description import DraftSource
from specsim.simulation.models.ground_truth import greedy_decode
from specsim.simulation.models.hash_model import HashModel
from specsim.simulation.models.pool_kinds import PoolKind
from specsim.simulation.pools import sizes_for
from specsim.simulation.requests import PromptChunk, Request
from specsim.simulation.schedule import IN_TURN, Schedule

LOOPS = {"v1": loop_of("multi_layer_eagle_v1"), "v2": loop_of("multi_layer_eagle_v2")}
CHUNKS = Schedule(prefill_chunk=3)
CACHE = Schedule(prefill_chunk=4, has_prefix_cache=True)


def model_of(num_layers, agreement=0.7, **options):
    return HashModel(40, 6, agreement, num_draft_layers=num_layers, draft_source=DraftSource.LAYERS, **options)


def config_of(model):
    return SpecConfig(1, model.num_draft_layers, model.num_draft_layers + 1)


def engine_of(loop, model, requests, schedule=IN_TURN, page_size=1, max_batch=2):
    config = config_of(model)
    worker = loop(config, load_model(model), sizes_for(config, requests, max_batch, page_size, 0, schedule))
    engine = Engine(worker, max_batch, schedule=schedule)
    for request in requests:
        engine.submit(request)
    return engine


def asked(lengths, max_new_tokens=14):
    return [
        Request(number, [7, 3, 9, 11, 2, 8, 30, 31 + number, *range(12)][-length:], max_new_tokens)
        for number, length in enumerate(lengths)
    ]


def run(engine):
    while engine.has_work:
        engine.step()
        engine.scheduler.check_ledger()
    return sorted(engine.scheduler.finished, key=lambda request: request.request_id)


def after_fresh_prefill(model, text):
    """Return the state of a worker that prefilled one text, and the slots of its positions."""
    length = len(text)
    worker = loop_of("multi_layer_eagle_v2")(config_of(model), load_model(model), PoolSizes(length + 1, 2, length))
    worker.assign_slots([SlotRange(1, 0, length, tuple(range(1, length + 1)))])
    worker.prefill([1], [PromptChunk.whole(list(text))])
    return worker.state(), np.arange(1, length + 1)


@pytest.mark.parametrize("num_layers", [1, 2, 3, 4])
@pytest.mark.parametrize("loop", LOOPS.values(), ids=LOOPS)
def test_a_perfect_draft_is_accepted_whole(loop, num_layers):
    model = model_of(num_layers, agreement=1.0)
    (request,) = run(engine_of(loop, model, [Request(0, [5, 6, 7, 8, 9], 3 * num_layers + 4)]))
    assert request.counters.num_verifies == 3
    assert request.counters.num_accepted_drafts == 3 * num_layers


@pytest.mark.parametrize("schedule", [IN_TURN, CHUNKS, CACHE], ids=["whole", "chunks", "cache"])
@pytest.mark.parametrize("num_layers", [2, 4])
@pytest.mark.parametrize("loop", LOOPS.values(), ids=LOOPS)
def test_every_layer_and_the_pool_hold_what_a_fresh_prefill_leaves(loop, num_layers, schedule):
    model = model_of(num_layers)
    engine = engine_of(loop, model, asked((8, 9, 5)), schedule)
    num_compared = 0
    while engine.has_work:
        engine.step()
        worker, state = engine.worker, engine.worker.state()
        for request in engine.scheduler.running if not engine.scheduler.mid_prompt else ():
            text = request.fill[: request.num_committed]
            fresh, slots = after_fresh_prefill(model, text)
            own = worker.state()["req_to_token"][request.row, : len(text)]
            for name in ("topk_index", "hidden_states_pool", "bonus_tokens"):
                np.testing.assert_array_equal(state[name][request.row], fresh[name][1], err_msg=name)
            for layer, (got, expected) in enumerate(zip(state["draft_kv"], fresh["draft_kv"], strict=True)):
                np.testing.assert_array_equal(got[own], expected[slots], err_msg=f"buffer {layer} of {text}")
            num_compared += 1
    assert num_compared >= 6


@pytest.mark.parametrize("length", [1, 2, 3])
@pytest.mark.parametrize("loop", LOOPS.values(), ids=LOOPS)
def test_texts_shorter_than_there_are_layers_are_decoded(loop, length):
    model = model_of(4)
    for request in run(engine_of(loop, model, asked((length, 1), 9), CHUNKS)):
        assert request.output == greedy_decode(model, request.prompt, 9)


@pytest.mark.parametrize("pool", [PoolKind.MLA, PoolKind.DSA], ids=lambda kind: kind.value)
@pytest.mark.parametrize("loop", LOOPS.values(), ids=LOOPS)
def test_layers_store_their_kv_in_any_form(loop, pool):
    model = model_of(3, draft_pool=pool, target_pool=pool)
    plain = run(engine_of(loop, replace(model, draft_pool=PoolKind.MHA, target_pool=PoolKind.MHA), asked((8, 3))))
    for request, other in zip(run(engine_of(loop, model, asked((8, 3)), page_size=4)), plain, strict=True):
        assert (request.output, request.counters) == (other.output, other.counters)


def test_hot_tokens_are_mapped_before_the_next_layer_sees_them():
    model = model_of(3, agreement=1.0, hot_token_id=np.arange(39, 9, -1))
    for request in run(engine_of(loop_of("multi_layer_eagle_v2"), model, asked((8, 9)))):
        assert request.output == greedy_decode(model, request.prompt, 14)
        assert request.counters.num_accepted_drafts > 3


def test_both_workers_sample_alike():
    outputs = []
    for loop in LOOPS.values():
        requests = asked((8, 4), 10)
        for request in requests:
            request.sampling = SamplingParameters(temperature=0.8, seed=3 + request.request_id)
        outputs.append([request.output for request in run(engine_of(loop, model_of(3), requests, CHUNKS))])
    assert outputs[0] == outputs[1]


@pytest.mark.parametrize("num_layers", [1, 2])
@pytest.mark.parametrize("loop", LOOPS.values(), ids=LOOPS)
def test_sampled_requests_have_the_law_of_decoding_token_by_token(loop, num_layers):
    model = HashModel(3, 11, 0.9, num_draft_layers=num_layers, draft_source=DraftSource.LAYERS)
    check_sampled_law(partial(loop, config_of(model)), config_of(model), model, (0, 1, 2))


@pytest.mark.parametrize(
    ("model", "config", "what"),
    [
        (HashModel(40), SpecConfig(1, 1, 2), "draft_source is HIDDEN"),
        (model_of(3), SpecConfig(1, 2, 3), "is 3, but should be 2"),
        (model_of(3), SpecConfig(2, 3, 4), "topk is 2"),
    ],
)
def test_a_model_without_such_layers_is_refused(model, config, what):
    with pytest.raises(SpecRejection, match=what) as caught:
        loop_of("multi_layer_eagle_v2")(config, load_model(model), PoolSizes(40, 3, 40))
    assert caught.value.reason is Reason.BAD_CONFIGURATION


def test_other_loops_refuse_such_layers():
    with pytest.raises(SpecRejection, match=r"draft_source is LAYERS"):
        ReferenceWorker(SpecConfig(1, 3, 4), load_model(model_of(3)), PoolSizes(40, 3, 40))
