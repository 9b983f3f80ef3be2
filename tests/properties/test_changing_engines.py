"""Engines of other sizes go on in the pools of whichever worker runs, and what one of them gets wrong is found."""

from dataclasses import replace

import pytest

from specsim.config import SpecConfig
from specsim.properties.runs.histories import VOCABULARY
from specsim.properties.runs.scenario import Arrival
from specsim.properties.soak.history import replay
from specsim.properties.soak.machine import Machine
from specsim.properties.soak.rules import Action
from specsim.properties.soak.setups import setup_of
from specsim.properties.soak.subject import REFERENCE, Subject
from specsim.reference.models import load_model
from specsim.reference.worker.v2 import ReferenceWorker
from specsim.rejection import Reason, SpecRejection
from specsim.simulation.models.hash_model import HashModel
from specsim.simulation.models.kv_pool import KVPool, Reads
from specsim.simulation.schedule import Schedule
from tests.properties.changing_workers import FAULTY, FixedWorker, OwnWorker, OwnWorkerV1

MODEL = HashModel(VOCABULARY, 5)
NARROW, WIDE = SpecConfig(1, 2, 3), SpecConfig(3, 2, 6)
IN_TURN, OVERLAPPED = Schedule(has_prefix_cache=True), Schedule(is_overlapped=True, has_prefix_cache=True)


def changing_setup(schedule=IN_TURN, is_v1=False):
    return setup_of(
        NARROW,
        MODEL,
        2,
        schedule,
        is_v1=is_v1,
        others=(WIDE,),
        num_spare_slots=60,
        longest_prompt=12,
        longest_output=24,
    )


def there_and_back():
    prompts = (3, 1, 4, 1, 5, 9, 2, 6, 5), (3, 1, 4, 1, 5, 8)
    turns = (Action("step"), Action("step"), Action("change engine", 1), Action("step"), Action("change engine", 0))
    return [*(Action("admit", Arrival(prompt, 24)) for prompt in prompts), *turns, *turns]


def with_worker(worker, worker_v1=None):
    return Subject(replace(REFERENCE, worker=worker, worker_v1=worker_v1))


class CountingApart(ReferenceWorker):
    """Shares buffers with the workers before and after it, while each of them counts its own writes alone."""

    def __init__(self, config, model, sizes, **named):
        super().__init__(config, load_model(MODEL), sizes, **{"reads": Reads.KEPT, **named})

    def resized(self, config):
        pools, num_slots = self._pools, self.sizes.num_slots
        kv = {side: KVPool(dict(pool), num_slots, True) for side, pool in pools.kv.items()}
        return type(self)(config, None, self.sizes, make_pools=lambda *_: replace(pools, kv=kv))


class OnlyChainsOnPages(OwnWorker):
    """Refuses trees when it is resized."""

    def resized(self, config):
        if config.topk > 1:
            raise SpecRejection(
                Reason.BAD_CONFIGURATION, what="topk", got=config.topk, expected="1", because="pages hold no trees"
            )
        return super().resized(config)


@pytest.mark.parametrize("schedule", [IN_TURN, OVERLAPPED], ids=["in turn", "overlapped"])
@pytest.mark.parametrize("worker", [None, OwnWorker], ids=["the reference's", "somebody's"])
def test_engines_of_several_widths_take_turns_on_the_same_pools(worker, schedule):
    assert replay(with_worker(worker), changing_setup(schedule), there_and_back()) is None


@pytest.mark.parametrize("worker", [None, OwnWorkerV1], ids=["the reference's", "somebody's"])
def test_workers_of_v1_take_turns_too(worker):
    assert replay(with_worker(None, worker), changing_setup(is_v1=True), there_and_back()) is None


@pytest.mark.parametrize("is_v1", [False, True], ids=["V2", "V1"])
def test_both_sides_of_a_lockstep_change(is_v1):
    machine = Machine(with_worker(OwnWorker, OwnWorkerV1), changing_setup(is_v1=is_v1))
    assert machine.sides.draftings == (NARROW, WIDE)
    machine.change_engine(WIDE)
    assert [engine.worker.config for engine in machine.sides.engines] == [WIDE, WIDE]


@pytest.mark.parametrize("worker", FAULTY, ids=lambda worker: worker.__name__)
def test_what_goes_wrong_between_two_workers_is_found(worker):
    failure = replay(with_worker(worker), changing_setup(), there_and_back())
    assert failure is not None
    assert failure.kind == "AssertionError"


def test_what_an_engine_knows_of_before_another_one_wrote_is_found_out():
    failure = replay(with_worker(CountingApart), changing_setup(OVERLAPPED), there_and_back())
    assert failure is not None
    assert failure.error.startswith(("output of request", "target_kv", "draft_kv"))


def test_a_worker_that_stays_as_it_is_says_so():
    machine = Machine(with_worker(FixedWorker), changing_setup())
    assert (machine.sides.draftings, machine.sides.untried) == ((NARROW,), "FixedWorker has no resized(config)")


def test_sizes_that_are_refused_on_pages_are_left_out():
    on_pages = changing_setup().having(page_size=2)
    machine = Machine(with_worker(OnlyChainsOnPages), on_pages)
    machine.change_engine(WIDE)
    assert (machine.sides.drafting, machine.sides.draftings) == (NARROW, (NARROW,))
    assert machine.sides.untried is not None
    assert machine.sides.untried.startswith("OnlyChainsOnPages refuses to be resized: BAD_CONFIGURATION")
    with pytest.raises(SpecRejection):
        Machine(with_worker(OnlyChainsOnPages), changing_setup()).change_engine(WIDE)
