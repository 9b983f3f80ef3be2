"""Lockstep compares every iteration, in turn and overlapped, and overlapped runs are overlapped."""

from dataclasses import replace

import pytest

from specsim.config import SpecConfig
from specsim.properties.runs.reports.faults_reported import MUTANTS
from specsim.reference.models import load_model
from specsim.reference.worker.v2 import ReferenceWorker
from specsim.rejection import Reason, SpecRejection
from specsim.simulation.comparing.lockstep import RecordingWorker, find_divergence
from specsim.simulation.models.hash_model import HashModel
from specsim.simulation.pools import sizes_for
from specsim.simulation.requests import Request
from specsim.simulation.schedule import Schedule
from specsim.simulation.worker import MapReader
from tests.properties.changing_workers import FixedWorker

CONFIG, MODEL = SpecConfig(2, 2, 4), HashModel(32, 5, 0.7)
TELLERS = {mutant.id: mutant.worker for mutant in MUTANTS}
REQUESTS = [Request(number, (number, 3), 4 + number) for number in range(3)]
SCHEDULES = [Schedule(), *(Schedule(is_overlapped=True, stream_seed=seed) for seed in range(3))]


def worker():
    return ReferenceWorker(CONFIG, load_model(MODEL), sizes_for(CONFIG, REQUESTS, 2))


class Noting(ReferenceWorker):
    """Notes the rows of each iteration."""

    def __init__(self):
        super().__init__(CONFIG, load_model(MODEL), sizes_for(CONFIG, REQUESTS, 2))
        self.batches = []

    def decode(self, rows, num_steps=None):
        self.batches.append(tuple(rows))
        return super().decode(rows, num_steps)


class WrongAt(ReferenceWorker):
    """Hands over other tokens in one iteration, and decodes as it should."""

    def __init__(self, number):
        super().__init__(CONFIG, load_model(MODEL), sizes_for(CONFIG, REQUESTS, 2))
        self.number, self.num_run = number, 0

    def phases(self):
        draft_input, verify_input, *others = super().phases()
        if self.num_run == self.number + 1:
            verify_input = replace(verify_input, draft_token=verify_input.draft_token + 1)
        return (draft_input, verify_input, *others)

    def decode_from(self, read, rows, num_steps=None):
        self.num_run += 1
        return super().decode_from(read, rows, num_steps)


@pytest.mark.parametrize("schedule", SCHEDULES, ids=["in turn", "overlapped", "overlapped", "overlapped"])
def test_equal_workers_do_not_diverge(schedule):
    assert find_divergence(worker(), worker(), REQUESTS, max_batch=2, schedule=schedule) is None


@pytest.mark.parametrize("schedule", SCHEDULES, ids=["in turn", "overlapped", "overlapped", "overlapped"])
@pytest.mark.parametrize("number", [0, 1, 3])
def test_a_difference_is_found_in_its_iteration(schedule, number):
    found = find_divergence(worker(), WrongAt(number), REQUESTS, max_batch=2, schedule=schedule)
    assert (found.iteration, found.phase, found.field) == (number, "VerifyInput", "draft_token")


def test_overlapped_runs_decode_zombies_too():
    in_turn, overlapped = Noting(), Noting()
    assert find_divergence(worker(), in_turn, REQUESTS, max_batch=2) is None
    assert find_divergence(worker(), overlapped, REQUESTS, max_batch=2, schedule=SCHEDULES[1]) is None
    assert len(overlapped.batches) > len(in_turn.batches)


def test_a_recording_reads_the_map_where_it_runs_and_gives_each_iteration_once():
    recording = RecordingWorker(worker())
    assert not isinstance(recording, MapReader)
    assert recording.take() == []
    assert find_divergence(worker(), worker(), [], max_batch=2, schedule=SCHEDULES[1]) is None
    recording.decode([])
    (handed_over,) = recording.take()
    assert len(handed_over) == 4
    assert recording.take() == []


def telling(kind, is_asked=True):
    """Compare what a worker tells with what the reference's tells, in turn and overlapped."""
    asked = (1, 2) if is_asked else (None, None)
    requests = [Request(number, (number, 3), 7 + number, top_logprobs=one) for number, one in enumerate(asked)]
    sizes = sizes_for(CONFIG, requests, 2)
    for schedule in SCHEDULES[:2]:
        workers = (loop(CONFIG, load_model(MODEL), sizes) for loop in (ReferenceWorker, kind))
        yield find_divergence(*workers, requests, max_batch=2, schedule=schedule)


@pytest.mark.parametrize("fault", ["OWN-1391", "OWN-1392", "OWN-1395", "OWN-1396", "OWN-1397"])
def test_reports_to_users_are_compared_where_they_ask(fault):
    for found in telling(TELLERS[fault]):
        assert (found.phase, found.field) == ("Request", "logprobs")
    assert list(telling(TELLERS[fault], is_asked=False)) == [None, None]


@pytest.mark.parametrize("schedule", SCHEDULES[:2], ids=["in turn", "overlapped"])
def test_a_worker_that_tells_nothing_is_refused_where_somebody_asks(schedule):
    silent = FixedWorker(CONFIG, load_model(MODEL), sizes_for(CONFIG, REQUESTS, 2))
    asking = [replace(request, top_logprobs=1) for request in REQUESTS]
    with pytest.raises(SpecRejection) as refused:
        find_divergence(worker(), silent, asking, max_batch=2, schedule=schedule)
    assert refused.value.reason is Reason.BAD_CONFIGURATION
