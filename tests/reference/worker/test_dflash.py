"""A block that is drafted at once changes no greedy token and no law, whatever ends requests or brings them back."""

from dataclasses import replace
from fractions import Fraction
from functools import partial

import numpy as np
import pytest

from specsim import Reason, SpecRejection
from specsim.config import PoolSizes
from specsim.conformance.backend import load
from specsim.host.dflash import DflashParameters
from specsim.properties.distribution import autoregressive, require_same_law
from specsim.properties.runs.sampling.sampled_law import HALVING, NUM_TOKENS, check_sampled_law, law_of
from specsim.reference.models import load_model
from specsim.reference.worker.sides.dflash import DflashSide
from specsim.reference.worker.v1 import ReferenceWorkerV1
from specsim.simulation.engine import Engine
from specsim.simulation.loops import loop_of
from specsim.simulation.models.description import DraftSource
from specsim.simulation.models.ground_truth import greedy_decode
from specsim.simulation.models.hash_model import HashModel
from specsim.simulation.models.kv_pool import Reads
from specsim.simulation.models.pool_kinds import DRAFT_KINDS, PoolKind
from specsim.simulation.models.text_model import TextModel, default_text
from specsim.simulation.pools import sizes_for
from specsim.simulation.report import requests_from_text, simulate
from specsim.simulation.requests import Request
from specsim.simulation.sampled import next_shares
from specsim.simulation.schedule import Schedule
from specsim.simulation.worker import is_telling

ORACLE = load("specsim.reference")
MODEL = HashModel(64, 3, 0.8)


def asked_of(count=4, length=14):
    return [Request(number, list(range(5, 14 + number)), length) for number in range(count)]


def worker_of(parameters, model, asked, page_size=1, schedule=None, **reported):
    schedule = Schedule() if schedule is None else schedule
    sizes = sizes_for(parameters.config, asked, 3, page_size, schedule=schedule)
    return loop_of("dflash")(parameters, load_model(model), sizes, **reported)


def played(worker, asked, schedule=None):
    engine = Engine(worker, 3, shuffle_seed=5, schedule=schedule or Schedule())
    for request in asked:
        engine.submit(request)
    while engine.has_work:
        engine.step()
        engine.scheduler.check_ledger()
    return engine


@pytest.mark.parametrize("block_size", [2, 3, 8, 16])
@pytest.mark.parametrize("page_size", [1, 4])
@pytest.mark.parametrize(
    "schedule",
    [Schedule(), Schedule(prefill_chunk=8), Schedule(has_prefix_cache=True)],
    ids=["plain", "chunks", "hits"],
)
def test_greedy_output_is_that_of_plain_decoding(block_size, page_size, schedule):
    asked = asked_of()
    worker = worker_of(DflashParameters(block_size), MODEL, asked, page_size, schedule)
    report = simulate(worker, asked, max_batch=3, schedule=schedule)
    assert report.lossless
    assert report.num_accepted_drafts > 0


@pytest.mark.parametrize("page_size", [1, 4])
@pytest.mark.parametrize("has_prefix_cache", [False, True])
def test_overlapped_iterations_draft_as_those_in_turn(page_size, has_prefix_cache):
    asked, parameters = asked_of(), DflashParameters(5)
    reports = []
    for is_overlapped in (False, True):
        schedule = Schedule(is_overlapped, 8, stream_seed=3, has_prefix_cache=has_prefix_cache)
        sizes = sizes_for(parameters.config, asked, 3, page_size, schedule=schedule)
        worker = loop_of("dflash_v2")(parameters, load_model(MODEL), sizes)
        reports.append(simulate(worker, asked, max_batch=3, schedule=schedule))
    assert [report.lossless for report in reports] == [True, True]
    assert reports[0].num_accepted_drafts == reports[1].num_accepted_drafts > 0


def test_a_perfect_draft_is_accepted_whole_and_a_hostile_one_never():
    for model, expected in ((HashModel(64, 3, 1.0), 3), (HashModel(64, 3, num_right=0), 0)):
        asked = asked_of(2, 13)
        played(worker_of(DflashParameters(4), model, asked), asked)
        assert [request.counters.num_accepted_drafts for request in asked] == [3 * expected] * 2


def test_real_text_is_decoded_without_loss():
    text = default_text()[:8000]
    asked = requests_from_text(text, 4, 24, 24)
    report = simulate(worker_of(DflashParameters(8), TextModel.from_text(text), asked), asked, max_batch=3)
    assert report.lossless
    assert report.num_accepted_drafts > 24


@pytest.mark.parametrize("kind", [*DRAFT_KINDS, PoolKind.SWA, PoolKind.HYBRID])
def test_every_kind_of_pool_drafts_alike(kind):
    asked, plain = asked_of(3), asked_of(3)
    model = replace(MODEL, draft_pool=kind) if kind in DRAFT_KINDS else replace(MODEL, target_pool=kind)
    sizes = sizes_for(DflashParameters(5).config, asked, 3, 4, window=model.window)
    played(loop_of("dflash")(DflashParameters(5), load_model(model), sizes), asked)
    played(worker_of(DflashParameters(5), MODEL, plain), plain)
    assert [(one.output, one.counters) for one in asked] == [(one.output, one.counters) for one in plain]


def test_what_is_kept_of_digests_drafts_alike():
    asked, plain = asked_of(), asked_of()
    played(worker_of(DflashParameters(5), MODEL, asked, reads=Reads.KEPT), asked)
    played(worker_of(DflashParameters(5), MODEL, plain), plain)
    assert [one.counters for one in asked] == [one.counters for one in plain]


@pytest.mark.parametrize("page_size", [1, 4])
def test_requests_that_were_retracted_come_back(page_size):
    asked = asked_of(4, 20)
    parameters, schedule = DflashParameters(4), Schedule(promised=Fraction(0))
    sizes = sizes_for(parameters.config, asked, 3, page_size)
    tight = replace(sizes, num_slots=page_size * (60 // page_size))
    engine = played(loop_of("dflash")(parameters, load_model(MODEL), tight), asked, schedule)
    assert sum(request.num_retractions for request in engine.scheduler.finished) > 0
    assert [one.output for one in asked] == [greedy_decode(MODEL, one.prompt, 20) for one in asked]


def test_every_end_cuts_the_commit():
    truth = greedy_decode(MODEL, list(range(5, 14)), 12)
    ends = [
        {"eos_token": truth[3]},
        {"stop_tokens": truth[5:6]},
        {"stop_strings": (chr(truth[6]) + chr(truth[7]),)},
        {"context_limit": 9 + 5},
        {"max_new_tokens": 1},
    ]
    asked = [Request(number, list(range(5, 14)), **{"max_new_tokens": 12, **end}) for number, end in enumerate(ends)]
    engine = played(worker_of(DflashParameters(16), HashModel(64, 3, 1.0), asked, 4), asked)
    assert [one.output for one in asked] == [truth[:4], truth[:6], truth[:8], truth[:5], truth[:1]]
    assert engine.scheduler.slots.num_free == engine.scheduler.sizes.num_slots - 4


def test_an_aborted_request_outputs_one_token_of_its_verify():
    asked = asked_of(1)
    engine = Engine(worker_of(DflashParameters(8), HashModel(64, 3, 1.0), asked), 1)
    engine.submit(asked[0])
    engine.step()
    before = len(asked[0].output)
    engine.abort(0)
    engine.step()
    assert (len(asked[0].output) - before, asked[0].finish_reason.name) == (1, "ABORT")


class NotesStarts(ReferenceWorkerV1):
    """Notes where chunks of prompts start."""

    starts = ()

    def prefill(self, rows, chunks):
        self.starts = (*self.starts, *(chunk.start for chunk in chunks))
        return super().prefill(rows, chunks)


def test_tokens_are_keys_of_the_prefix_cache():
    asked = [Request(number, list(range(10)), 1) for number in range(2)]
    schedule, parameters = Schedule(has_prefix_cache=True), DflashParameters(2)
    sizes = sizes_for(parameters.config, asked, 3, schedule=schedule)
    worker = NotesStarts(parameters, load_model(MODEL), sizes, make_side=DflashSide)
    engine = Engine(worker, 1, schedule=schedule)
    for request in asked:
        engine.submit(request)
    engine.run()
    assert worker.starts == (0, 9)


def test_a_window_sees_less_and_loses_nothing():
    lossless = []
    for window in (None, 4, 7):
        asked = asked_of()
        report = simulate(worker_of(DflashParameters(4, 0, window), MODEL, asked, 4), asked, max_batch=3)
        lossless.append((report.lossless, report.num_accepted_drafts))
    assert all(one for one, _ in lossless)
    assert len({drafts for _, drafts in lossless}) > 1


@pytest.mark.parametrize("name", ["grammar", "top_logprobs"])
def test_what_is_not_served_is_refused_by_name_and_the_rest_goes_on(name):
    asked = asked_of(2)
    engine = Engine(worker_of(DflashParameters(4), MODEL, asked), 2)
    engine.submit(asked[0])
    engine.step()
    reported = {"grammar": lambda: None, "top_logprobs": 2}
    with pytest.raises(SpecRejection) as caught:
        engine.submit(replace(asked[1], **{name: reported[name]}))
    assert (caught.value.reason, caught.value.what) == (Reason.BAD_CONFIGURATION, f"{name} of request 1")
    engine.run()
    assert asked[0].output == greedy_decode(MODEL, asked[0].prompt, 14)


@pytest.mark.parametrize(
    ("reported", "what"),
    [
        ({"block_size": 1}, "block_size"),
        ({"block_size": 1025}, "block_size"),
        ({"mask_token": -1}, "mask_token"),
        ({"draft_window": 15}, "draft_window"),
    ],
)
def test_parameters_that_contradict_themselves_are_refused(reported, what):
    with pytest.raises(SpecRejection) as caught:
        DflashParameters(**reported)
    assert (caught.value.reason, caught.value.what) == (Reason.BAD_CONFIGURATION, what)


def test_models_that_draft_no_blocks_are_refused():
    asked = asked_of(1)
    sizes = sizes_for(DflashParameters(4).config, asked, 1)
    model = load_model(MODEL)
    model.description = replace(model.description, draft_source=DraftSource.TOKENS)
    with pytest.raises(SpecRejection) as caught:
        loop_of("dflash")(DflashParameters(4), model, sizes)
    assert caught.value.what == "description.draft_source"
    with pytest.raises(SpecRejection) as caught:
        loop_of("dflash")(DflashParameters(4), object(), sizes)
    assert caught.value.what == "model"


@pytest.mark.parametrize(
    ("prompt", "block_size", "loop"),
    [((1, 2), 3, loop_of("dflash")), ((0, 1, 0, 1), 2, loop_of("dflash_v2"))],
    ids=["v1", "v2"],
)
def test_sampled_requests_have_the_law_of_decoding_token_by_token(prompt, block_size, loop):
    parameters = DflashParameters(block_size)
    check_sampled_law(partial(loop, parameters), parameters.config, HashModel(3, 11, 0.9), prompt)


def test_after_the_first_token_top_k_keeps_no_ties():
    """The second and the third token are as probable as each other: of a top-k of 2 only the prefill keeps both."""
    model, prompt, parameters = HashModel(3, 11, 0.9), (1, 2), DflashParameters(3)
    make_worker = partial(loop_of("dflash"), parameters)
    law = law_of(make_worker, parameters.config, model, prompt, replace(HALVING, top_k=2))

    def shares(tokens):
        every = np.array(next_shares(model, [*prompt, *tokens]), dtype=object)
        if tokens:
            best_first = sorted(range(3), key=lambda token: (-every[token], token))
            every[best_first[2]] = 0
        return every / sum(every)

    require_same_law(f"law of {prompt}", law, autoregressive(shares, NUM_TOKENS))


def test_a_worker_of_blocks_tells_nothing():
    workers = [
        loop_of(name)(DflashParameters(4), load_model(MODEL), PoolSizes(9, 2, 8)) for name in ("dflash", "dflash_v2")
    ]
    assert [is_telling(worker) for worker in workers] == [False, False]
    asked = replace(asked_of(1)[0], returns_hidden_states=True)
    with pytest.raises(SpecRejection):
        Engine(workers[0], 1).submit(asked)
