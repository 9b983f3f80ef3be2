"""Workers of every acceptance rule: what they refuse, and what they output."""

import numpy as np
import pytest

from specsim.config import SpecConfig
from specsim.conformance.backend import load
from specsim.host.acceptance import Acceptance
from specsim.host.choice import TokenChoice
from specsim.host.ngram import NgramParameters
from specsim.host.sampling import SamplingParameters
from specsim.reference.models import load_model
from specsim.reference.worker.choices import ChoiceRows
from specsim.reference.worker.sampling import Links, first_tokens, verify_sampled
from specsim.reference.worker.v1 import ReferenceWorkerV1
from specsim.reference.worker.v2 import ReferenceWorker
from specsim.rejection import Reason, SpecRejection, WorkerRefusal
from specsim.simulation.engine import Engine
from specsim.simulation.loops import loop_of
from specsim.simulation.models.batches import TargetOutput
from specsim.simulation.models.ground_truth import greedy_decode
from specsim.simulation.models.hash_model import HashModel
from specsim.simulation.pools import sizes_for
from specsim.simulation.requests import Request

ORACLE = load("specsim.reference")
CHAIN, TREE = SpecConfig(1, 3, 4), SpecConfig(2, 2, 5)
MODEL = HashModel(8, 1, 0.9)
LOOPS = (ReferenceWorkerV1, ReferenceWorker)
KINDS = (SamplingParameters(1.5, seed=5), SamplingParameters(1.0, top_k=3, top_p=0.95, seed=9), None)


def requests_of(count=6, sampling=KINDS):
    return [Request(number, [number % 7, 2, 3], 9, sampling=sampling[number % 3]) for number in range(count)]


def outputs_of(make, config, acceptance, count=6):
    requests = requests_of(count)
    engine = Engine(make(config, load_model(MODEL), sizes_for(config, requests, 3), acceptance=acceptance), 3, 1)
    for request in requests:
        engine.submit(request)
    return [request.output for request in engine.run()], engine


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("acceptance", [Acceptance.BLOCK, Acceptance.TARGET_DRAW])
def test_greedy_requests_beside_sampled_ones_are_decoded_plainly(acceptance, loop):
    _, engine = outputs_of(loop, CHAIN, acceptance)
    for request in engine.scheduler.finished:
        if request.sampling is None:
            assert request.output == greedy_decode(MODEL, request.prompt, 9)
    assert engine.counters.total_accepted_drafts > 0


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("config", [CHAIN, TREE], ids=["chain", "tree"])
def test_what_the_target_draws_is_output_with_any_drafts(config, loop):
    without_drafts, _ = outputs_of(ReferenceWorker, SpecConfig(1, 0, 1), "target-draw")
    outputs, engine = outputs_of(loop, config, "target-draw")
    assert outputs == without_drafts
    assert engine.counters.total_accepted_drafts > 0


@pytest.mark.parametrize("loop", LOOPS)
def test_trees_are_not_judged_as_blocks(loop):
    with pytest.raises(SpecRejection) as caught:
        outputs_of(loop, TREE, "block")
    assert caught.value.reason is Reason.BAD_CONFIGURATION


def test_drafts_of_any_form_are_not_judged_as_blocks():
    parameters = NgramParameters(max_depth=2, max_breadth=1, num_draft_tokens=3)
    sizes = sizes_for(parameters.config, requests_of(), 3)
    with pytest.raises(SpecRejection) as caught:
        loop_of("ngram")(parameters, load_model(MODEL), sizes, acceptance="block")
    assert caught.value.reason is Reason.BAD_CONFIGURATION


@pytest.mark.parametrize("loop", LOOPS)
def test_thresholds_are_refused_where_no_coin_of_a_token_is_asked(loop):
    lossy = (SamplingParameters(threshold_single=0.3),) * 3
    engine = Engine(loop(CHAIN, load_model(MODEL), sizes_for(CHAIN, requests_of(), 3), acceptance="block"), 3)
    with pytest.raises(WorkerRefusal) as caught:
        engine.submit(requests_of(1, lossy)[0])
    assert caught.value.reason is Reason.BAD_CONFIGURATION


@pytest.mark.parametrize("loop", LOOPS)
def test_a_worker_of_other_sizes_has_the_same_rule(loop):
    worker = loop(CHAIN, load_model(MODEL), sizes_for(CHAIN, requests_of(), 3), acceptance="block")
    with pytest.raises(SpecRejection):
        worker.resized(TREE)
    assert worker.resized(SpecConfig(1, 1, 2)).config.num_steps == 1


def output_of(rows):
    logits = np.array(rows, dtype=np.float32)
    return TargetOutput(logits, None), np.argmax(logits, axis=1)


def rows_with(acceptance, seed=3, temperature=1.0):
    rows = ChoiceRows(3, acceptance=acceptance)
    rows.assign([1], [TokenChoice(SamplingParameters(temperature, seed=seed))])
    return rows


def chain_of(tokens, last=None):
    count = len(tokens)
    following = [*range(1, count), -1]
    if last is not None:
        following[last] = -1
    alone = np.full((1, count), -1, dtype=np.int64)
    return Links(np.array([tokens]), np.arange(count)[None], np.array([following]), alone)


def judged(links, rows, acceptance, operations=ORACLE):
    output, chosen = output_of(rows)
    count = len(rows)
    lengths = np.array([5], dtype=np.int64)
    return verify_sampled(
        np.array([1]),
        links,
        lengths[:, None] + np.arange(count),
        lengths,
        output,
        chosen,
        count - 1,
        rows_with(acceptance),
        operations,
    )


SURE = np.log(np.eye(4, dtype=np.float32) + np.float32(1e-30))


@pytest.mark.parametrize("acceptance", [Acceptance.BLOCK, Acceptance.TARGET_DRAW])
@pytest.mark.parametrize(("drafts", "tokens"), [((1, 2), [1, 2, 3]), ((1, 0), [1, 2]), ((0, 2), [1])])
def test_a_target_that_is_sure_accepts_what_it_chooses(drafts, tokens, acceptance):
    accepted = judged(chain_of([0, *drafts]), SURE[[1, 2, 3]], acceptance)
    assert accepted.predict[: len(tokens)].tolist() == tokens
    assert accepted.num_accepted_drafts.tolist() == [len(tokens) - 1]
    assert accepted.accept_index.tolist() == [[*range(len(tokens)), *[-1] * (3 - len(tokens))]]
    assert (accepted.predict.dtype, accepted.accept_index.dtype) == (np.int32, np.int32)


@pytest.mark.parametrize("acceptance", [Acceptance.BLOCK, Acceptance.TARGET_DRAW])
def test_a_draft_after_the_cut_is_none(acceptance):
    accepted = judged(chain_of([0, 1, 2], last=1), SURE[[1, 2, 3]], acceptance)
    assert accepted.num_accepted_drafts.tolist() == [1]
    assert accepted.predict[:2].tolist() == [1, 2]


def test_the_token_after_a_prompt_has_the_noise_of_its_own_position():
    asked = []

    def watched(logits, temperature, top_k, top_p, min_p, seeds, positions):
        asked.append((seeds.tolist(), positions.tolist()))
        return ORACLE.functions["sample_target_predict"](logits, temperature, top_k, top_p, min_p, seeds, positions)

    operations = ORACLE.with_function("sample_target_predict", watched, "watched")
    output, chosen = output_of(SURE[[2]])
    first = first_tokens(
        np.array([1]), np.array([6], dtype=np.int32), output, chosen, rows_with(Acceptance.TARGET_DRAW), operations
    )
    assert asked == [([3], [[5]])]
    assert first.tolist() == [2]
