"""Schedules by hand: what overlaps, who is a zombie, who gives way, what a chunk leaves over, who ends by abort."""

from dataclasses import replace
from fractions import Fraction
from itertools import pairwise

import pytest

from specsim import Reason, SpecRejection
from specsim.config import PoolSizes, SpecConfig
from specsim.host.stopping import FinishReason
from specsim.reference.models import load_model
from specsim.reference.worker.v1 import ReferenceWorkerV1
from specsim.reference.worker.v2 import ReferenceWorker
from specsim.simulation.engine import Engine
from specsim.simulation.events import Reach, Tag
from specsim.simulation.models.ground_truth import greedy_decode
from specsim.simulation.models.hash_model import HashModel
from specsim.simulation.models.pool_kinds import PoolKind
from specsim.simulation.pools import sizes_for
from specsim.simulation.requests import Request
from specsim.simulation.schedule import Schedule

CHAIN = SpecConfig(1, 2, 3)
TREE = SpecConfig(2, 3, 6)
MODEL = HashModel(32, 5, 1.0)
SHAKY = HashModel(32, 5, 0.6)
LOOPS = ((ReferenceWorkerV1, 0), (ReferenceWorker, 0), (ReferenceWorker, 1))


def engine(requests, schedule, *, loop=ReferenceWorker, num_slots=None, max_batch=2, observer=None):
    sizes = sizes_for(CHAIN, requests, max_batch)
    if num_slots is not None:
        sizes = PoolSizes(num_slots, sizes.num_rows, sizes.row_width)
    worker = loop(CHAIN, load_model(MODEL), sizes)
    started = Engine(worker, max_batch, 1, schedule=schedule, observer=observer or Reach())
    for request in requests:
        started.submit(request)
    return started


def plain(request):
    return greedy_decode(MODEL, request.prompt, request.max_new_tokens)


def test_a_result_comes_one_step_late():
    request = Request(0, [1, 2, 3], 6)
    run = engine([request], Schedule(is_overlapped=True))
    seen = []
    while run.has_work:
        iteration = run.step()
        seen.append((iteration is not None, len(request.output)))
    assert seen == [(False, 1), (True, 4), (True, 6), (True, 6)]
    assert request.output == plain(request)


def test_an_ended_request_is_a_zombie_of_the_iteration_in_flight():
    reach = Reach()
    request = Request(0, [1, 2, 3], 6)
    run = engine([request], Schedule(is_overlapped=True), observer=reach)
    run.run()
    assert (reach.counts[Tag.ZOMBIE], run.num_iterations, request.counters.num_verifies) == (1, 3, 2)
    assert run.counters.num_accepted_drafts != request.counters.num_accepted_drafts
    assert run.scheduler.slots.num_free == run.scheduler.sizes.num_slots - 1


def test_a_request_that_ends_in_its_prefill_decodes_in_vain():
    reach = Reach()
    request = Request(0, [1, 2, 3], 1)
    run = engine([request], Schedule(is_overlapped=True), observer=reach)
    assert run.run() == [request]
    assert (request.output, reach.counts[Tag.ZOMBIE], request.counters.num_verifies) == (plain(request), 1, 0)


def test_prompts_run_in_chunks_while_others_decode():
    first, second = Request(0, [1, 2], 9), Request(1, [3, 4, 5, 6, 7], 3)
    run = engine([first, second], Schedule(prefill_chunk=3))
    lengths = []
    while run.has_work:
        run.step()
        mid = run.scheduler.mid_prompt
        lengths.append((len(run.scheduler.running), mid and mid.num_committed))
        run.scheduler.check_ledger()
    assert lengths[:2] == [(1, 1), (1, 4)]
    assert [one.output for one in (first, second)] == [plain(first), plain(second)]


@pytest.mark.parametrize(
    ("loop", "is_overlapped"), [(ReferenceWorkerV1, 0), (ReferenceWorker, 0), (ReferenceWorker, 1)]
)
def test_a_pool_that_runs_out_costs_time_and_no_token(loop, is_overlapped):
    reach = Reach()
    requests = [Request(number, [number + 1, 2, 3], 16) for number in range(2)]
    schedule = Schedule(is_overlapped=bool(is_overlapped), promised=Fraction(0))
    run = engine(requests, schedule, loop=loop, num_slots=28, observer=reach)
    run.run()
    assert reach.counts[Tag.RETRACT] > 0
    assert requests[0].num_retractions == 0
    assert [one.output for one in requests] == [plain(one) for one in requests]


def test_a_retracted_request_drops_what_is_in_flight_and_keeps_its_output():
    reach = Reach()
    request = Request(0, [1, 2, 3], 16)
    run = engine([request], Schedule(is_overlapped=True), observer=reach)
    for _ in range(2):
        run.step()
    kept = list(request.output)
    run.scheduler.retract(request)
    assert (request.output, request.slots, request.num_committed, request.num_retractions) == (kept, [], 0, 1)
    run.run()
    assert (reach.counts[Tag.LATE], request.output) == (1, plain(request))


def test_a_waiting_request_is_dropped_at_once():
    requests = [Request(number, [number + 1], 9) for number in range(3)]
    run = engine(requests, Schedule())
    run.step()
    run.abort(2)
    assert [one.request_id for one in run.scheduler.finished] == [2]
    assert (requests[2].output, requests[2].finish_reason) == ([], FinishReason.ABORT)
    run.run()
    assert [one.output for one in requests[:2]] == [plain(one) for one in requests[:2]]


@pytest.mark.parametrize(("loop", "num_more"), [(ReferenceWorkerV1, 1), (ReferenceWorker, 3)])
def test_an_abort_leaves_one_token_in_v1_and_all_in_v2(loop, num_more):
    request = Request(0, [1, 2, 3], 16)
    run = engine([request], Schedule(), loop=loop)
    run.step()
    before = len(request.output)
    run.abort(0)
    run.step()
    assert (request.finish_reason, len(request.output)) == (FinishReason.ABORT, before + num_more)
    assert request.output == plain(request)[: before + num_more]
    assert not run.has_work
    assert run.scheduler.slots.num_free == run.scheduler.sizes.num_slots - 1


def test_an_abort_between_chunks_waits_for_the_last_one():
    request = Request(0, [1, 2, 3, 4, 5], 9)
    run = engine([request], Schedule(prefill_chunk=2))
    run.step()
    run.abort(0)
    run.step()
    assert run.scheduler.mid_prompt is request
    run.step()
    assert (request.finish_reason, request.output) == (FinishReason.ABORT, plain(request)[:1])


@pytest.mark.parametrize(("loop", "is_overlapped"), LOOPS)
def test_a_prompt_starts_after_what_is_cached_of_it(loop, is_overlapped):
    reach = Reach()
    requests = [Request(number, [1, 2, 3, 4, 5, 6, 7, number], 5) for number in range(3)]
    schedule = Schedule(is_overlapped=bool(is_overlapped), has_prefix_cache=True)
    run = engine(requests, schedule, loop=loop, max_batch=1, observer=reach)
    run.run()
    assert (reach.counts[Tag.PREFIX], [one.output for one in requests]) == (2, [plain(one) for one in requests])
    memory = run.scheduler.memory
    assert memory.allocator.num_free + memory.cache.num_cached == run.scheduler.sizes.num_slots - 1


def test_a_prompt_keeps_what_its_window_has_passed_until_it_is_cached():
    reach, model = Reach(), replace(MODEL, target_pool=PoolKind.SWA, window=2)
    requests = [Request(number, [1, 2, 3, 4, 5, 6, 7, 8, number], 9) for number in range(2)]
    schedule = Schedule(is_overlapped=True, has_prefix_cache=True)
    worker = ReferenceWorker(CHAIN, load_model(model), sizes_for(CHAIN, requests, 1, 1, model.window, schedule))
    run = Engine(worker, 1, 1, schedule=schedule, observer=reach)
    for request in requests:
        run.submit(request)
    run.run()
    assert (reach.counts[Tag.PREFIX], [one.output for one in requests]) == (1, [plain(one) for one in requests])
    memory = run.scheduler.memory
    front = memory.cache.match(list(pairwise(range(1, 9)))).slots
    assert [slot > 0 for slot in memory.swa.swa_slots(front)] == [True] * 7


@pytest.mark.parametrize("page_size", [2, 4, 16])
def test_pages_change_no_token(page_size):
    requests = [Request(number, [number + 1, 2, 3], 9) for number in range(3)]
    worker = ReferenceWorker(CHAIN, load_model(MODEL), sizes_for(CHAIN, requests, 2, page_size))
    reach = Reach()
    run = Engine(worker, 2, 1, schedule=Schedule(is_overlapped=True, has_prefix_cache=True), observer=reach)
    for request in requests:
        run.submit(request)
    while run.has_work:
        run.step()
        run.scheduler.check_ledger()
        assert all(len(one.slots) % page_size == 0 for one in run.scheduler.running)
    assert {Tag.PAGES, Tag.ROUNDS, Tag.OVERLAP} <= set(reach.counts)
    assert [one.output for one in requests] == [plain(one) for one in requests]


@pytest.mark.parametrize("page_size", [2, 4, 16])
@pytest.mark.parametrize(
    ("loop", "config"),
    [(ReferenceWorkerV1, CHAIN), (ReferenceWorker, CHAIN), (ReferenceWorkerV1, TREE), (ReferenceWorker, TREE)],
)
def test_pages_change_no_count(loop, config, page_size):
    """Whatever a page holds, a request ends alike and has accepted as much at every step of its way."""
    ended = []
    for size in (1, page_size):
        requests = [Request(number, [number + 1, 2, 3], 14) for number in range(3)]
        run = Engine(loop(config, load_model(SHAKY), sizes_for(config, requests, 2, size)), 2, 1)
        for request in requests:
            run.submit(request)
        run.run()
        ended.append([(one.output, one.finish, one.counters) for one in requests])
    assert ended[0] == ended[1]
    assert len({counters.num_verifies for _, _, counters in ended[0]}) > 1


def test_v1_does_not_overlap():
    with pytest.raises(SpecRejection) as caught:
        engine([Request(0, [1], 2)], Schedule(is_overlapped=True), loop=ReferenceWorkerV1)
    assert caught.value.reason is Reason.BAD_CONFIGURATION


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({"prefill_chunk": 0}, Reason.COUNT_OUT_OF_RANGE),
        ({"promised": Fraction(3, 2)}, Reason.PROBABILITY_OUT_OF_RANGE),
    ],
)
def test_schedules_that_cannot_be_are_refused(arguments, reason):
    with pytest.raises(SpecRejection) as caught:
        Schedule(**arguments)
    assert caught.value.reason is reason


def test_an_engine_takes_over_pools_of_its_size_before_it_has_requests():
    requests = [Request(number, [1, 2, 3], 6) for number in range(2)]
    before = engine(requests[:1], Schedule())
    for after, what in (
        (engine([], Schedule(), num_slots=9), "sizes of the pools"),
        (engine(requests[1:], Schedule()), "requests that have a row here"),
    ):
        after.step()
        with pytest.raises(SpecRejection) as caught:
            after.take_over(before)
        assert caught.value.reason is Reason.BAD_CONFIGURATION
        assert what in str(caught.value)
    before.run()
    assert requests[0].output == plain(requests[0])
