import numpy as np
import pytest

from specsim import Reason, SpecRejection
from specsim.config import SpecConfig
from specsim.conformance.backend import load
from specsim.phases import DraftInput, PhaseTag, expect_phase
from specsim.reference.models import load_model
from specsim.reference.worker.v2 import ReferenceWorker
from specsim.simulation.comparing.history import first_divergence
from specsim.simulation.engine import Engine
from specsim.simulation.models.ground_truth import greedy_decode
from specsim.simulation.models.hash_model import HashModel
from specsim.simulation.models.text_model import TextModel, default_text
from specsim.simulation.pools import sizes_for
from specsim.simulation.report import requests_from_text, simulate
from specsim.simulation.requests import PromptChunk, Request

SHAPES = [SpecConfig(1, 5, 6), SpecConfig(4, 5, 16), SpecConfig(16, 5, 16)]


@pytest.mark.parametrize("config", SHAPES, ids=str)
def test_text_is_decoded_without_loss_and_with_accepted_drafts(config):
    text = default_text()[:8000]
    requests = requests_from_text(text, 8, 24, 32)
    worker = ReferenceWorker(config, load_model(TextModel.from_text(text)), sizes_for(config, requests, 8))
    report = simulate(worker, requests, max_batch=8)
    assert report.lossless
    assert report.accept_rate > 0.1
    assert report.num_accepted_drafts + report.spec_verify_ct >= report.output_tokens - report.requests


@pytest.mark.parametrize("config", SHAPES, ids=str)
@pytest.mark.parametrize(("agreement", "expected"), [(1.0, 5), (None, 0)])
def test_perfect_drafts_are_accepted_whole_and_hostile_ones_never(config, agreement, expected):
    model = HashModel(64, 3, 1.0) if agreement else HashModel(64, 3, num_right=0)
    requests = [Request(number, [number, 2, 3], 13) for number in range(3)]
    engine = Engine(ReferenceWorker(config, load_model(model), sizes_for(config, requests, 3)), 3)
    for request in requests:
        engine.submit(request)
    iteration = engine.step()
    assert iteration.num_accepted_drafts.tolist() == [expected] * 3
    assert iteration.num_accepted_tokens.tolist() == [expected + 1] * 3


def test_reduced_draft_vocabulary_stays_lossless():
    hot = np.arange(3, 64, 3)
    model = HashModel(64, 7, 1.0, hot_token_id=hot)
    requests = [Request(0, [1, 2], 20)]
    config = SpecConfig(2, 3, 6)
    worker = ReferenceWorker(config, load_model(model), sizes_for(config, requests, 1))
    assert simulate(worker, requests, max_batch=1).lossless
    assert requests[0].output == greedy_decode(model, [1, 2], 20)
    proposed = worker.phases()[1].draft_token.reshape(-1, 6)[:, 1:]
    assert set(proposed.reshape(-1).tolist()) <= set(hot.tolist())


@pytest.mark.parametrize("depth", [1, 2])
def test_nan_drafts_are_refused_before_anything_is_carried_over(depth):
    config, model = SpecConfig(2, 3, 6), HashModel(64, 3, 1.0, broken_depth=depth)
    requests = [Request(0, [1, 2], 20)]
    worker = ReferenceWorker(config, load_model(model), sizes_for(config, requests, 1))
    engine = Engine(worker, 1)
    engine.submit(requests[0])
    before = {}
    with pytest.raises(SpecRejection) as caught:
        worker.assign_slots(engine.scheduler.next_prefill().ranges)
        worker.prefill([1], [PromptChunk.whole([1, 2])])
        worker.assign_slots(engine.scheduler.prepare_for_decode())
        before = {name: np.copy(worker.state()[name]) for name in ("seq_lens", "topk_p", "target_kv", "req_to_token")}
        worker.decode([1])
    assert caught.value.reason is Reason.NAN_SCORE
    assert all(np.array_equal(worker.state()[name], saved) for name, saved in before.items())


def test_lockstep_names_the_first_difference():
    config, model = SpecConfig(2, 2, 4), HashModel(32, 1, 1.0)
    reference = load("specsim.reference")

    def swapped_siblings(**arguments):
        outputs = list(reference.functions["build_tree"](**arguments))
        outputs[0] = outputs[0].copy()
        outputs[0][2] += 1
        return tuple(outputs)

    faulty = reference.with_function("build_tree", swapped_siblings, "faulty")
    engines = []
    for operations in (reference, faulty):
        requests = [Request(0, [1, 2, 3], 9)]
        engine = Engine(ReferenceWorker(config, load_model(model), sizes_for(config, requests, 1), operations), 1)
        engine.submit(requests[0])
        engine.step()
        engines.append(engine)
    divergence = first_divergence(0, engines[0].worker.phases(), engines[1].worker.phases())
    assert (divergence.phase, divergence.field, divergence.index) == ("VerifyInput", "draft_token", (2,))
    assert divergence.got == divergence.expected + 1
    assert "iteration 0, VerifyInput.draft_token[2] = " in str(divergence)


def test_phases_are_checked_frozen_and_tagged():
    whole = {
        "req_pool_indices": np.array([1]),
        "seq_lens": np.array([3]),
        "topk_p": np.zeros((1, 2), np.float32),
        "topk_index": np.zeros((1, 2), np.int64),
        "hidden_states": np.zeros((1, 3), np.int64),
        "bonus_tokens": np.zeros(1, np.int32),
    }
    phase = DraftInput(**whole)
    with pytest.raises(AttributeError):
        phase.seq_lens = None
    with pytest.raises(SpecRejection) as caught:
        DraftInput(**{**whole, "hidden_states": np.zeros((2, 3), np.int64)})
    assert caught.value.reason is Reason.WRONG_SHAPE
    with pytest.raises(SpecRejection) as caught:
        expect_phase(phase, PhaseTag.EAGLE_VERIFY)
    assert caught.value.reason is Reason.WRONG_PHASE
