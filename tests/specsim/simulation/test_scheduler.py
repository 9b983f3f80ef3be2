import pytest

from specsim import Reason, SpecRejection
from specsim.config import PoolSizes, SpecConfig
from specsim.host.stopping import FinishReason
from specsim.simulation.engine import OWN_DECISIONS
from specsim.simulation.requests import Request
from specsim.simulation.scheduler import Scheduler

CONFIG = SpecConfig(topk=2, num_steps=3, num_draft_tokens=6)


def scheduler(num_slots=100, num_rows=3, row_width=40, max_batch=2):
    return Scheduler(CONFIG, PoolSizes(num_slots, num_rows, row_width), max_batch, OWN_DECISIONS)


def admit(plan):
    """Run whole prompts and forget that their first tokens are out."""
    batch = plan.next_prefill()
    plan.answered(batch.requests)
    return batch


def test_reserve_is_two_iterations():
    assert CONFIG.reserve == 12


def test_admission_allocates_the_prompt_and_keeps_order():
    plan = scheduler()
    for number in range(3):
        plan.submit(Request(number, [1, 2, 3], 4))
    batch = plan.next_prefill()
    assert [request.request_id for request in batch.joining] == [0, 1]
    assert [(given.start, given.end) for given in batch.ranges] == [(0, 3), (0, 3)]
    assert [request.request_id for request in plan.waiting] == [2]


def test_decode_allocates_up_to_the_reserve_and_never_shrinks():
    plan = scheduler()
    plan.submit(Request(0, [1, 2, 3], 4))
    (request,) = admit(plan).requests
    (given,) = plan.prepare_for_decode()
    assert (given.start, given.end) == (3, 15)
    request.holding.books = request.holding.books.commit(1)
    (given,) = plan.prepare_for_decode()
    assert (given.start, given.end) == (15, 16)
    assert plan.prepare_for_decode() == []


def test_nothing_is_admitted_that_could_run_out_of_slots():
    plan = scheduler(num_slots=2 * 19 + 1)
    for number in range(2):
        plan.submit(Request(number, [1, 2, 3], 4))
    assert plan.demand(plan.waiting[0]) == 19
    assert len(plan.next_prefill().joining) == 2
    tight = scheduler(num_slots=2 * 19)
    for number in range(2):
        tight.submit(Request(number, [1, 2, 3], 4))
    assert len(tight.next_prefill().joining) == 1


def test_finishing_returns_slots_and_row():
    plan = scheduler()
    plan.submit(Request(0, [1, 2, 3], 1))
    (request,) = admit(plan).requests
    request.append([9])
    assert plan.finish() == [request]
    assert (request.finish_reason, plan.slots.num_free, plan.rows.num_free) == (FinishReason.LENGTH, 99, 2)


@pytest.mark.parametrize(
    ("tokens", "output", "reason"),
    [
        ([5, 7, 6], [5, 7], FinishReason.EOS),
        ([5, 6, 8, 9], [5, 6, 8], FinishReason.LENGTH),
        ([5, 6, 7, 9], [5, 6, 7], FinishReason.EOS),
        ([5], [5], None),
    ],
)
def test_output_is_cut_at_eos_and_at_the_limit(tokens, output, reason):
    request = Request(0, [1], 3, eos_token=7)
    request.append(tokens)
    assert (request.output, request.finish_reason) == (output, reason)


@pytest.mark.parametrize(
    ("request_", "reason"),
    [
        (Request(0, [], 4), Reason.COUNT_OUT_OF_RANGE),
        (Request(0, [1], 0), Reason.COUNT_OUT_OF_RANGE),
        (Request(0, [1] * 30, 4), Reason.ROW_TOO_SHORT),
    ],
)
def test_requests_that_can_never_run_are_refused(request_, reason):
    plan = scheduler()
    with pytest.raises(SpecRejection) as caught:
        plan.submit(request_)
    assert caught.value.reason is reason
    assert not plan.waiting


def test_a_pool_too_small_for_one_request_is_refused():
    with pytest.raises(SpecRejection) as caught:
        scheduler(num_slots=10).submit(Request(0, [1, 2, 3], 4))
    assert caught.value.reason is Reason.OUT_OF_SLOTS


def test_ledger_names_a_slot_with_two_owners():
    plan = scheduler()
    for number in range(2):
        plan.submit(Request(number, [1, 2, 3], 4))
    first, second = admit(plan).requests
    for request in (first, second):
        request.append([9])
    plan.check_ledger()
    second.slots[0] = first.slots[0]
    with pytest.raises(AssertionError, match=r"owners of slot 1 = ..request 0., .request 1.., but should be one"):
        plan.check_ledger()


def test_k11_synchronous_ledger():
    plan = scheduler(num_slots=200, row_width=60)
    plan.submit(Request(0, [1] * 7, 20))
    (request,) = admit(plan).requests
    request.append([9])
    ledger = []
    for num_tokens in (3, 1, 4):
        before = len(request.slots)
        plan.prepare_for_decode()
        request.holding.books = request.holding.books.commit(num_tokens)
        request.append([9] * num_tokens)
        plan.check_ledger()
        ledger.append((len(request.slots), len(request.slots) - before, request.num_committed))
    assert ledger == [(19, 12, 10), (22, 3, 11), (23, 1, 15)]
