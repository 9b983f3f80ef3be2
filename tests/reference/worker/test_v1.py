from collections import Counter

import numpy as np
import pytest

from specsim import Reason, SpecRejection
from specsim.config import SpecConfig
from specsim.conformance.backend import load
from specsim.phases import Batch, DraftInput, ForwardMode
from specsim.reference.models import load_model
from specsim.reference.worker.v1 import ReferenceWorkerV1
from specsim.reference.worker.v2 import ReferenceWorker
from specsim.simulation.comparing.history import first_divergence_of_v1
from specsim.simulation.comparing.lockstep import find_divergence
from specsim.simulation.draft_sides.extended import prepare_extend_after_decode
from specsim.simulation.engine import Engine
from specsim.simulation.models.hash_model import HashModel
from specsim.simulation.models.text_model import TextModel, default_text
from specsim.simulation.pools import sizes_for
from specsim.simulation.report import requests_from_text, simulate
from specsim.simulation.requests import Request

TREE, CHAIN = SpecConfig(2, 3, 6), SpecConfig(1, 3, 4)
SHAPES = [SpecConfig(1, 5, 6), SpecConfig(4, 5, 16), SpecConfig(16, 5, 16)]


def requests(count, max_new_tokens=9, eos_token=None):
    return [Request(number, [number, 7, 3], max_new_tokens + number, eos_token) for number in range(count)]


def engine_of(config, asked, model, max_batch=3, **options):
    model = load_model(model, options.get("operations"))
    worker = ReferenceWorkerV1(config, model, sizes_for(config, asked, max_batch), **options)
    engine = Engine(worker, max_batch, shuffle_seed=5)
    for request in asked:
        engine.submit(request)
    return engine, worker


@pytest.mark.parametrize("config", SHAPES, ids=str)
def test_text_is_decoded_without_loss_and_as_v2_decodes_it(config):
    text = default_text()[:8000]
    model = load_model(TextModel.from_text(text))
    reports = []
    for kind in (ReferenceWorker, ReferenceWorkerV1):
        asked = requests_from_text(text, 6, 24, 24)
        reports.append(simulate(kind(config, model, sizes_for(config, asked, 4)), asked, max_batch=4))
    assert reports[1].lossless
    for figure in ("output_tokens", "spec_verify_ct", "num_accepted_drafts", "histogram", "meta_info"):
        assert getattr(reports[1], figure) == getattr(reports[0], figure)


@pytest.mark.parametrize("config", [TREE, CHAIN], ids=["tree", "chain"])
def test_every_phase_is_that_of_v2(config):
    asked, model = requests(5, eos_token=11), load_model(HashModel(32, 3, 0.7))
    sizes = sizes_for(config, asked, 3)
    workers = [kind(config, model, sizes) for kind in (ReferenceWorker, ReferenceWorkerV1)]
    divergence = find_divergence(*workers, asked, max_batch=3, shuffle_seed=5, compare=first_divergence_of_v1)
    assert divergence is None


def test_exactly_the_committed_positions_are_owned_between_iterations():
    engine, _ = engine_of(TREE, requests(4), HashModel(32, 3, 0.7))
    while engine.has_work:
        engine.step()
        engine.scheduler.check_ledger()
        owned = sum(request.num_committed for request in engine.scheduler.running)
        assert engine.scheduler.slots.num_free == engine.scheduler.sizes.num_slots - 1 - owned


def test_positions_allocated_ahead_are_reported():
    engine, _ = engine_of(TREE, requests(1), HashModel(32, 3, 0.7))
    engine.step()
    holding = engine.scheduler.running[0].holding
    holding.slots.extend(engine.scheduler.slots.allocate(1))
    holding.books = holding.books.allocate(len(holding.slots))
    with pytest.raises(AssertionError, match="positions allocated ahead = 1, but should be 0, as V1 has none"):
        engine.scheduler.check_ledger()


def test_batch_counts_end_with_the_request_and_its_own_do_not():
    """A perfect draft is accepted whole; the limit of 3 tokens leaves two of its four."""
    engine, _ = engine_of(CHAIN, [Request(0, [1, 2], 3)], HashModel(64, 3, 1.0))
    iteration = engine.step()
    assert iteration.num_accepted_drafts.tolist() == [1]
    assert engine.scheduler.finished[0].counters.num_accepted_drafts == 3
    assert (engine.counters.num_batches, len(engine.scheduler.finished[0].output)) == (1, 3)


def test_requests_join_and_leave_what_is_carried():
    engine, worker = engine_of(TREE, [Request(0, [1], 4), Request(1, [2], 30)], HashModel(32, 3, 1.0), max_batch=2)
    engine.step()
    assert worker.batch.req_pool_indices.tolist() == [1, 2]
    assert worker.batch.info.req_pool_indices.tolist() == [2]
    assert worker.batch.seq_lens.tolist() == [4, 5]
    engine.submit(Request(2, [3], 1))
    engine.submit(Request(3, [3], 30))
    engine.step()
    assert [request.request_id for request in engine.scheduler.running] == [1]
    engine.step()
    assert worker.batch.info.req_pool_indices.tolist() == [request.row for request in engine.scheduler.running]
    assert [request.request_id for request in engine.scheduler.running] == [1, 3]


def test_without_survivors_an_idle_draft_input_is_carried():
    engine, worker = engine_of(TREE, requests(2, 3), HashModel(32, 3, 1.0))
    while engine.has_work:
        engine.step()
    assert isinstance(worker.batch.info, DraftInput)
    assert worker.batch.info.topk_index.shape == (0, 2)
    assert worker.batch.info.hidden_states.shape == (0, 3)
    engine.submit(Request(9, [4], 6))
    engine.step()
    assert worker.batch.info.req_pool_indices.shape == (1,)


@pytest.mark.parametrize(("has_dp_attention", "num_forwards"), [(False, 1), (True, 2)])
def test_an_idle_extend_runs_where_other_ranks_wait_for_it(has_dp_attention, num_forwards):
    calls = Counter()
    reference = load("specsim.reference")

    def counted(**arguments):
        calls["draft_extend_forward"] += 1
        return reference.functions["draft_extend_forward"](**arguments)

    operations = reference.with_function("draft_extend_forward", counted, "counted")
    asked = [Request(0, [1, 2], 3)]
    engine, worker = engine_of(
        CHAIN, asked, HashModel(64, 3, 1.0), operations=operations, has_dp_attention=has_dp_attention
    )
    engine.step()
    assert asked[0].finish is not None
    assert calls["draft_extend_forward"] == num_forwards
    assert worker.batch.info.num_requests == 0


def test_the_prepared_batch_is_a_view_and_the_batch_stays():
    engine, worker = engine_of(TREE, [Request(0, [1], 4), Request(1, [2], 30)], HashModel(32, 3, 1.0))
    engine.step()
    extend_input = worker.phases()[3]
    batch = Batch(ForwardMode.DECODE, np.array([1, 2]), np.array([4, 5]), extend_input)
    prepared = prepare_extend_after_decode(batch, 3, load("specsim.reference"))
    assert (prepared.mode, prepared.req_pool_indices.tolist()) == (ForwardMode.DRAFT_EXTEND, [2])
    assert prepared.info.num_tokens_per_req == 4
    assert prepared.info.positions.tolist() == [1, 2, 3, 4]
    assert batch.info is extend_input
    assert (extend_input.positions, batch.req_pool_indices.tolist()) == (None, [1, 2])


def test_only_an_extend_input_is_prepared():
    idle = DraftInput.create_idle_input(2, 3)
    batch = Batch(ForwardMode.DECODE, idle.req_pool_indices, idle.seq_lens, idle)
    with pytest.raises(SpecRejection) as caught:
        prepare_extend_after_decode(batch, 3, load("specsim.reference"))
    assert caught.value.reason is Reason.WRONG_PHASE
