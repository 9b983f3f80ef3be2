"""Drafts over the target's KV change no token, on any pool, and leave nothing over."""

import warnings
from dataclasses import replace
from functools import partial

import pytest

from specsim.config import SpecConfig
from specsim.conformance.backend import load
from specsim.phases import FrozenKVMTPDraftExtendInput, FrozenKVMTPDraftInput, FrozenKVMTPVerifyInput
from specsim.properties.runs.sampling.sampled_law import check_sampled_law
from specsim.reference.models import load_model
from specsim.reference.worker.v1 import ReferenceWorkerV1
from specsim.rejection import Reason, SpecRejection
from specsim.simulation.engine import Engine
from specsim.simulation.loops import loop_of
from specsim.simulation.models.frozen import UnreadState, require_frozen_model
from specsim.simulation.models.hash_model import HashModel
from specsim.simulation.models.pool_kinds import PoolKind
from specsim.simulation.models.text_model import TextModel, default_text
from specsim.simulation.models.toys import window_of
from specsim.simulation.pools import sizes_for
from specsim.simulation.report import requests_from_text, simulate
from specsim.simulation.requests import Request
from specsim.simulation.schedule import Schedule

ORACLE = load("specsim.reference")
TREE, CHAIN = SpecConfig(2, 3, 6), SpecConfig(1, 3, 4)
PERFECT = HashModel(32, 3, 1.0, kv_sharing=(1, 0))
WITH_KV = [kind for kind in PoolKind if kind not in (PoolKind.ZERO_LAYER, PoolKind.NO_KV)]


def worker_of(config, model, asked, page_size=1, **options):
    sizes = sizes_for(config, asked, 3, page_size, window_of(model))
    return loop_of("frozen_kv_mtp")(config, load_model(model), sizes, **options)


def engine_of(config, model, asked, **options):
    engine = Engine(worker_of(config, model, asked, **options), 3, shuffle_seed=1)
    for request in asked:
        engine.submit(request)
    return engine


@pytest.mark.filterwarnings("ignore:.*recurrent state:UserWarning")
@pytest.mark.parametrize("page_size", [1, 4])
@pytest.mark.parametrize("kind", WITH_KV)
def test_a_perfect_draft_is_accepted_whole_whatever_kv_is_stored_in(kind, page_size):
    asked = [Request(number, [number, 7, 3][: 1 + number % 3], 9 + number) for number in range(3)]
    config = CHAIN if kind is PoolKind.OTHER and page_size > 1 else TREE
    engine = engine_of(config, replace(PERFECT, target_pool=kind), asked, page_size=page_size)
    for request in engine.run():
        assert request.counters.num_accepted_drafts == 3 * request.counters.num_verifies


@pytest.mark.parametrize("config", [TREE, CHAIN], ids=["tree", "chain"])
def test_real_text_is_decoded_without_loss_and_drafts_are_accepted(config):
    text = default_text()[:8000]
    asked = requests_from_text(text, 4, 24, 24)
    model = replace(TextModel.from_text(text), kv_sharing=(1,))
    report = simulate(worker_of(config, model, asked), asked, max_batch=3)
    assert report.lossless
    assert report.num_accepted_drafts > 0


@pytest.mark.parametrize("page_size", [1, 4])
@pytest.mark.parametrize("config", [TREE, CHAIN], ids=["tree", "chain"])
def test_v2_decodes_ahead_without_loss_and_accepts_a_perfect_draft_whole(config, page_size):
    asked = [Request(number, [5, 7, 3, 9][: 2 + number % 3], 9 + number) for number in range(4)]
    schedule = Schedule(is_overlapped=True, prefill_chunk=4, has_prefix_cache=True)
    sizes = sizes_for(config, asked, 2, page_size, schedule=schedule)
    worker = loop_of("frozen_kv_mtp_v2")(config, load_model(PERFECT), sizes)
    report = simulate(worker, asked, max_batch=2, schedule=schedule)
    assert report.lossless
    assert report.histogram[:3] == (0, 0, 0) and report.histogram[3] > 0
    assert worker.resized(CHAIN).state()["req_to_token"] is worker.state()["req_to_token"]


@pytest.mark.parametrize("loop", [loop_of("frozen_kv_mtp"), loop_of("frozen_kv_mtp_v2")], ids=["v1", "v2"])
@pytest.mark.parametrize("config", [SpecConfig(2, 2, 5), SpecConfig(1, 2, 3)], ids=["tree", "chain"])
def test_sampled_requests_have_the_law_of_decoding_token_by_token(config, loop):
    check_sampled_law(partial(loop, config), config, HashModel(3, 11, 0.9, kv_sharing=(0,)), (0, 1))


def test_as_many_forwards_run_as_steps_and_none_after_a_prompt_or_a_verify(monkeypatch):
    asked = [Request(0, [1, 2], 9), Request(1, [4], 5)]
    engine = engine_of(TREE, PERFECT, asked)
    model, seen = engine.worker.model, []
    original = model.draft_frozen

    def draft_frozen(batch, kv):
        seen.append((batch.depth, batch.positions.tolist()))
        return original(batch, kv)

    monkeypatch.setattr(model, "draft_frozen", draft_frozen)
    for name in ("draft_step", "draft_extend"):
        monkeypatch.setattr(model, name, None)
    engine.step()
    assert seen == [(1, [1, 1, 0, 0]), (2, [1, 1, 0, 0]), (3, [1, 1, 0, 0])]
    draft_input, verify_input, _, extend_input = engine.worker.phases()
    kinds = (FrozenKVMTPDraftInput, FrozenKVMTPVerifyInput, FrozenKVMTPDraftExtendInput)
    assert tuple(map(type, (draft_input, verify_input, extend_input))) == kinds
    assert not draft_input.topk_p.any() and not draft_input.topk_index.any()
    assert engine.worker.state()["draft_kv"] == []


def test_when_all_have_ended_an_idle_input_is_installed_that_others_can_join():
    asked = [Request(0, [1, 2], 3)]
    engine = engine_of(CHAIN, PERFECT, asked)
    engine.run()
    info = engine.worker.batch.info
    assert isinstance(info, FrozenKVMTPDraftInput)
    assert (info.num_requests, info.hidden_states.shape, info.topk_p.shape) == (0, (0, 3), (0, 1))
    engine.submit(asked[0].fresh())
    assert len(engine.run()[-1].output) == 3


def test_an_iteration_at_rest_drafts_nothing():
    """Nothing runs but the target, and the seed of the next draft is that of its last row."""
    engine = engine_of(CHAIN, PERFECT, [Request(0, [1, 2], 20)])
    engine.step()
    rows = [request.row for request in engine.scheduler.running]
    iteration = engine.worker.decode(rows, 0)
    assert iteration.num_accepted_tokens.tolist() == [1]
    assert engine.worker.decode(rows).num_accepted_drafts.tolist() == [3]


def test_a_worker_of_other_sizes_goes_on_in_the_same_pools():
    worker = worker_of(CHAIN, PERFECT, [Request(0, [1, 2], 9)])
    other = worker.resized(TREE)
    assert other.config == TREE
    assert other.state()["req_to_token"] is worker.state()["req_to_token"]
    assert other.state()["topk_p"].shape[1] == 2


def test_a_target_with_recurrent_state_is_warned_of():
    asked = [Request(0, [1, 2], 3)]
    with pytest.warns(UnreadState, match="recurrent state") as reported:
        worker_of(CHAIN, replace(PERFECT, target_pool=PoolKind.HYBRID), asked)
    assert [one.filename for one in reported] == [__file__]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        worker_of(CHAIN, PERFECT, asked)


def lacking(**changed):
    model = load_model(PERFECT)
    model.description = replace(model.description, **changed)
    return model


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (lacking(target_layer_of={0: 1}), "target layer of draft layer 1 is none"),
        (lacking(target_layer_of={0: 1, 1: 2}), "target layer of draft layer 1 is 2"),
        (lacking(num_assistant_layers=0), "num_assistant_layers is 0"),
        (lacking(draft_hidden_width=7), "draft_hidden_width is 7"),
        (load_model(replace(PERFECT, target_pool=PoolKind.NO_KV)), "a target with KV"),
        (load_model(HashModel()), "draft_source is HIDDEN"),
    ],
)
def test_a_model_that_does_not_say_what_its_draft_reads_is_refused_by_name(model, message):
    with pytest.raises(SpecRejection, match=message) as caught:
        require_frozen_model(model, "numpy", 1)
    assert caught.value.reason is Reason.BAD_CONFIGURATION


def test_beams_where_other_ranks_wait_are_refused():
    asked = [Request(0, [1, 2], 3)]
    with pytest.raises(SpecRejection, match="topk is 2"):
        worker_of(TREE, PERFECT, asked, has_dp_attention=True)
    worker_of(CHAIN, PERFECT, asked, has_dp_attention=True)


def test_the_eagle_worker_refuses_a_draft_without_kv():
    with pytest.raises(SpecRejection, match="draft_source is TARGET_KV"):
        ReferenceWorkerV1(CHAIN, load_model(PERFECT), sizes_for(CHAIN, [Request(0, [1], 1)], 1))
