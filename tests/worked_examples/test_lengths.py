"""K.11: how far V2 allocates ahead, in step and under overlap, and what becomes of a result that comes too late."""

from collections.abc import Iterator

import numpy as np
import pytest

from specsim.config import PoolSizes, SpecConfig
from specsim.counts import count_drafts
from specsim.simulation.engine import OWN_DECISIONS, Engine
from specsim.simulation.memory import release_finished
from specsim.simulation.requests import Request
from specsim.simulation.schedule import Schedule
from specsim.simulation.worker import Iteration
from tests.worked_examples.numbers import i32
from tests.worked_examples.scripted import ScriptedModel

CONFIG = SpecConfig(topk=2, num_steps=3, num_draft_tokens=6)
SIZES = PoolSizes(num_slots=60, num_rows=2, row_width=50)
PROMPT, ACCEPTED = list(range(7)), (3, 1, 4, 1)


class CountingWorker:
    """A worker of one request that accepts as many tokens as it is given."""

    name, device, config, sizes, model = "counting", "cpu", CONFIG, SIZES, ScriptedModel()

    def __init__(self, num_accepted_tokens: Iterator[int]):
        self._num_accepted_tokens = num_accepted_tokens
        self.windows = []

    def assign_slots(self, ranges):
        self.windows += [(given.start, given.end) for given in ranges]

    def assign_choices(self, rows, choices):
        """Take whatever is chosen."""

    def prefill(self, rows, chunks):
        return [50]

    def decode(self, rows, num_steps=None):
        num_tokens = i32([next(self._num_accepted_tokens)])
        return Iteration(np.full((1, 6), 50, dtype=np.int32), count_drafts(num_tokens), num_tokens)

    def phases(self):
        return ()

    def state(self):
        return {}


def started(is_overlapped, max_new_tokens=30, operations=OWN_DECISIONS):
    """Return an engine, its worker, and its request, which is not admitted yet."""
    worker = CountingWorker(iter(ACCEPTED))
    engine = Engine(worker, 1, schedule=Schedule(is_overlapped=is_overlapped), operations=operations)
    request = Request(0, PROMPT, max_new_tokens)
    engine.submit(request)
    return engine, worker, request


def lengths_by_step(engine, request, num_steps):
    """Return what is allocated and what is committed after each step."""
    seen = []
    for _ in range(num_steps):
        engine.step()
        engine.scheduler.check_ledger()
        seen.append((len(request.slots), request.num_committed))
    return seen


def test_k11_in_step():
    """A step prepares and resolves: 12, 3 and 1 slots are new."""
    assert CONFIG.reserve == 12
    engine, worker, request = started(is_overlapped=False)
    assert lengths_by_step(engine, request, 3) == [(19, 10), (22, 11), (23, 15)]
    assert worker.windows == [(0, 7), (7, 19), (19, 22), (22, 23)]


def test_k11_under_overlap():
    """Step k prepares and launches iteration k, and resolves the one before it."""
    engine, worker, request = started(is_overlapped=True)
    assert lengths_by_step(engine, request, 4) == [(19, 7), (19, 10), (22, 11), (23, 15)]
    assert worker.windows[:3] == [(0, 7), (7, 19), (19, 22)]
    for start, end in zip((7, 10, 11), (19, 19, 22), strict=True):
        assert start + CONFIG.reserve // 2 <= end


@pytest.mark.parametrize("is_overlapped", [False, True], ids=["in step", "overlapped"])
def test_k11_a_result_after_the_end_changes_nothing(is_overlapped):
    """Its fifth token ends the request with result 1, while iteration 2 is launched under overlap."""
    released = []

    def recording(memory, holding, text, num_owned):
        released.append((holding.books.num_committed, num_owned))
        release_finished(memory, holding, text, num_owned)

    operations = OWN_DECISIONS.with_function("release_finished", recording, "recording")
    engine, _, request = started(is_overlapped, 5, operations)
    engine.run()
    assert (released, request.output) == ([(11, 11)], [50] * 5)
    assert (request.counters.num_verifies, request.counters.num_accepted_drafts) == (2, 2)
    assert engine.counters.total_verifies == (3 if is_overlapped else 2)
    assert engine.scheduler.slots.num_free == SIZES.num_slots - 1
