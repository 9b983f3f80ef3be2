"""A scheduler that is tried drives its own engine alone: its faults show beside ours, its choices do not."""

from collections import deque
from dataclasses import replace
from fractions import Fraction

import pytest

from specsim.config import PoolSizes, SpecConfig
from specsim.properties.runs.schedules.faults_loops import MUTANTS
from specsim.reference.models import load_model
from specsim.reference.worker.v1 import ReferenceWorkerV1
from specsim.reference.worker.v2 import ReferenceWorker
from specsim.rejection import Reason, SpecRejection
from specsim.simulation.comparing.lockstep import find_divergence
from specsim.simulation.comparing.request_pairs import MOST_IDLE_TURNS
from specsim.simulation.engine import Engine
from specsim.simulation.models.hash_model import HashModel
from specsim.simulation.requests import Request
from specsim.simulation.schedule import Schedule
from specsim.simulation.scheduler import Scheduler
from specsim.simulation.scheduler_protocol import MEMBERS

CONFIG, MODEL = SpecConfig(2, 2, 4), HashModel(32, 5, 0.7)
REQUESTS = [Request(number, (number, 3, *range(2 * number)), 9 + number) for number in range(4)]
SIZES = PoolSizes(num_slots=33, num_rows=4, row_width=40)
TIGHT = Schedule(promised=Fraction(0), prefill_chunk=3)
FAULTY = {mutant.id: mutant.scheduler for mutant in MUTANTS}
SCHEDULES = {
    "in turn": TIGHT,
    "overlapped": replace(TIGHT, is_overlapped=True, stream_seed=2),
    "with a prefix cache": replace(TIGHT, has_prefix_cache=True),
}


class LastFirst(Scheduler):
    """Admits the request that came last: a scheduler may."""

    def next_prefill(self):
        self.waiting = deque(reversed(self.waiting))
        batch = super().next_prefill()
        self.waiting = deque(reversed(self.waiting))
        return batch


class Starving(Scheduler):
    """Admits no request whose number is 3."""

    def _next_waiting(self):
        request = super()._next_waiting()
        return None if request is not None and request.request_id == 3 else request


class Dropping(Scheduler):
    """Forgets a request that it retracts."""

    def retract(self, request):
        super().retract(request)
        self.waiting.remove(request)


class Circling(Scheduler):
    """Retracts a prompt between its chunks, again and again."""

    def next_prefill(self):
        if self.mid_prompt is not None:
            self.retract(self.mid_prompt)
        return super().next_prefill()


class Leaking(Scheduler):
    """Gives all but the last slot back."""

    def finish(self):
        for request in self.running:
            if request.finish is not None:
                request.holding.slots.pop()
                request.holding.books = replace(request.holding.books, num_allocated=len(request.slots))
        return super().finish()


class Sharing(Scheduler):
    """Hands the worker the first slot of a turn for the second prompt, too."""

    def next_prefill(self):
        batch = super().next_prefill()
        if batch is None or len(batch.ranges) < 2:
            return batch
        one, other, *rest = batch.ranges
        shared = replace(other, slots=(one.slots[0], *other.slots[1:]))
        return replace(batch, ranges=(one, shared, *rest))


class Crediting(Scheduler):
    """Takes a request that goes on for ended, an output token early."""

    def finish(self):
        for request in self.running:
            if len(request.output) == request.max_new_tokens - 1:
                request.abort()
        return super().finish()


class Forgetful(Scheduler):
    """Allocates ahead for the first of the batch alone, so that the others write where they may not."""

    def prepare_for_decode(self):
        running, self.running = self.running, self.running[:1]
        ranges = super().prepare_for_decode()
        self.running = running
        return ranges


def found(make_scheduler, schedule=TIGHT, loop=ReferenceWorker, requests=REQUESTS):
    workers = [loop(CONFIG, load_model(MODEL), SIZES) for _ in range(2)]
    return find_divergence(*workers, requests, max_batch=3, schedule=schedule, make_scheduler=make_scheduler)


@pytest.mark.parametrize("loop", [ReferenceWorker, ReferenceWorkerV1])
@pytest.mark.parametrize("make_scheduler", [Scheduler, LastFirst])
def test_what_a_scheduler_may_choose_is_no_divergence(make_scheduler, loop):
    assert found(make_scheduler, loop=loop) is None


@pytest.mark.parametrize("name", SCHEDULES)
def test_another_order_of_admission_is_none_in_any_schedule(name):
    assert found(LastFirst, SCHEDULES[name]) is None


def test_the_runs_retract_so_that_schedules_do_differ():
    workers = [ReferenceWorker(CONFIG, load_model(MODEL), SIZES) for _ in range(2)]
    ends = []
    for worker, make in zip(workers, (Scheduler, LastFirst), strict=True):
        engine = Engine(worker, 3, 0, schedule=TIGHT, make_scheduler=make)
        for request in REQUESTS:
            engine.submit(request.fresh())
        done = engine.run()
        assert any(request.num_retractions for request in done)
        ends.append([request.request_id for request in engine.scheduler.finished])
    assert ends[0] != ends[1]


@pytest.mark.parametrize(
    ("make_scheduler", "phase", "field"),
    [
        (Starving, "Engine", "turns without progress"),
        (Dropping, "Request", "finish"),
        (Circling, "Engine", "turns"),
        (Leaking, "Memory", "free slots"),
        (Crediting, "Request", "output"),
        (Sharing, "Request", "output"),
        (FAULTY["OWN-1191"], "Request", "output"),
        (FAULTY["OWN-1193"], "Request", "output"),
    ],
)
def test_what_a_scheduler_does_wrong_diverges_in_lockstep(make_scheduler, phase, field):
    divergence = found(make_scheduler)
    assert (divergence.phase, divergence.field) == (phase, field)


def test_a_divergence_names_request_and_place():
    assert str(found(Crediting)) == "iteration 4, Request.output[0, 8] = nothing, but should be 21"


def test_a_turn_without_progress_says_who_waits():
    field, most = "Engine.turns without progress[]", MOST_IDLE_TURNS
    shown = f"{field} = {most + 1} while [3, 1] wait, but should be at most {most}"
    assert str(found(Starving)) == f"iteration 11, {shown}"


def test_what_is_never_allocated_is_an_error():
    with pytest.raises((SpecRejection, AssertionError)):
        assert found(Forgetful) is None


def test_without_a_scheduler_of_its_own_phases_are_compared():
    workers = [ReferenceWorker(CONFIG, load_model(MODEL), SIZES) for _ in range(2)]
    seen = []
    find_divergence(
        *workers, REQUESTS, max_batch=3, schedule=TIGHT, compare=lambda number, *phases: seen.append(len(phases[0]))
    )
    assert set(seen) == {4}


def test_a_scheduler_that_lacks_something_is_refused_by_name():
    class Half:
        def __init__(self, *arguments, **named):
            self.sizes = SIZES

    with pytest.raises(SpecRejection) as caught:
        found(Half)
    assert caught.value.reason is Reason.BAD_CONFIGURATION
    assert "what Half lacks of a scheduler" in str(caught.value)
    assert set(MEMBERS) - {"sizes"} <= set(str(caught.value).replace(",", "").split())
