"""Trees of the V1 worker on pages: what it owns, what V2 says, and planted faults that runs on pages show."""

from copy import copy
from dataclasses import replace

import pytest

from specsim.config import SpecConfig
from specsim.conformance.backend import load
from specsim.counts import ceil_to
from specsim.properties.runs.scenario import Arrival, scenario_of
from specsim.properties.runs.workers.laws_pages import (
    beams_begin_with_the_end_of_their_text,
    requests_on_pages_keep_what_is_theirs,
)
from specsim.properties.runs.workers.laws_v1 import both_workers_decode_alike
from specsim.reference.models import load_model
from specsim.reference.worker import reclaim
from specsim.reference.worker.pools import Pools
from specsim.reference.worker.v1 import ReferenceWorkerV1
from specsim.rejection import SpecRejection
from specsim.simulation.draft_sides.stepwise import StepwiseSide
from specsim.simulation.engine import Engine
from specsim.simulation.events import Tag
from specsim.simulation.models.description import Side
from specsim.simulation.models.hash_model import HashModel
from specsim.simulation.pools import sizes_for
from specsim.simulation.requests import Request
from specsim.simulation.schedule import Schedule
from specsim.simulation.synchronous import IterationLedger
from tests.worker_faults import keeping_what_is_borrowed, moving_no

TREE, MODEL = SpecConfig(2, 3, 8), HashModel(32, 3, 0.8)
SCENARIO = scenario_of(
    TREE,
    MODEL,
    [Arrival(tuple(range(number, 2 * number + 3)), 9 + number) for number in range(4)],
    max_batch=3,
    shuffle_seed=5,
    is_v1=True,
    page_size=4,
)
REFERENCE = load("specsim.reference")


@pytest.mark.parametrize("page_size", [1, 2, 4, 16])
def test_pages_of_the_committed_positions_are_owned_between_iterations(page_size):
    asked = [Request(number, [number % 30] * (1 + number), 9 + number, 11) for number in range(5)]
    worker = ReferenceWorkerV1(TREE, load_model(MODEL), sizes_for(TREE, asked, 3, page_size))
    seen = set()
    engine = Engine(worker, 3, 5, schedule=Schedule(has_prefix_cache=True), observer=seen.add)
    for request in asked:
        engine.submit(request)
    while engine.has_work:
        engine.step()
        scheduler = engine.scheduler
        scheduler.check_ledger()
        own = [(request.num_committed, request.holding.books.num_protected) for request in scheduler.running]
        owned = sum(ceil_to(committed, page_size) - cached for committed, cached in own)
        everything = scheduler.sizes.num_slots // page_size * page_size - page_size
        assert scheduler.slots.num_free == everything - owned - scheduler.memory.cache.num_cached
    assert Tag.REJECTED in seen
    assert (Tag.PAGES in seen) == (page_size > 1)


@pytest.mark.parametrize("page_size", [2, 4])
@pytest.mark.parametrize("topk", [1, 3])
def test_every_phase_on_pages_is_that_of_v2(topk, page_size):
    config = SpecConfig(1, 3, 4) if topk == 1 else SpecConfig(3, 2, 7)
    both_workers_decode_alike(REFERENCE, SCENARIO.having(sizes=config, page_size=page_size))


def freeing_all_but(num_kept):
    """Return ``_move_to_the_front`` that keeps some of the slots that fall free."""
    original = reclaim._move_to_the_front

    def move_to_the_front(verify_input, truncation, page_size, pools, free, operations):
        def some(slots):
            free(slots[num_kept:])

        return original(verify_input, truncation, page_size, pools, some, operations)

    return move_to_the_front


def handing_over(change):
    """Return ``_hand_over`` with other fields for the requests that go on."""
    original = reclaim._hand_over

    def hand_over(row, verify_input, verify_output, truncation, slots, unfinished, operations):
        everyone, going_on = original(row, verify_input, verify_output, truncation, slots, unfinished, operations)
        return everyone, replace(going_on, **change(verify_input, slots, unfinished, going_on))

    return hand_over


def drafting_side_by_side(self, *arguments):
    """Draft as on pages of one slot."""
    side = copy(self)
    side._setting = replace(self._setting, sizes=replace(self._setting.sizes, page_size=1))
    return ORIGINAL_DRAFT(side, *arguments)


ORIGINAL_DRAFT = StepwiseSide.draft
LEAKED = r"owners of page \d+ = none"
FAULTS = {
    "ends of texts were not copied": (Pools, "move_kv", moving_no(Side.DRAFT, Pools), "in front of beam 1"),
    "beams lie side by side": (StepwiseSide, "draft", drafting_side_by_side, "page of beam 1"),
    "accepted entries stayed": (Pools, "move_kv", moving_no(Side.TARGET, Pools), "target_kv"),
    "the first page after was kept": (reclaim, "_move_to_the_front", freeing_all_but(4), LEAKED),
    "nothing was freed": (reclaim, "_move_to_the_front", freeing_all_but(99), LEAKED),
    "lengths stayed": (
        reclaim,
        "_hand_over",
        handing_over(lambda tree, slots, unfinished, _: {"seq_lens": tree.seq_lens[unfinished]}),
        "seq_lens",
    ),
    "slots of the first request": (
        reclaim,
        "_hand_over",
        handing_over(lambda tree, slots, unfinished, phase: {"out_cache_loc": slots[: len(phase.out_cache_loc)]}),
        "draft_kv",
    ),
    "restore forgotten": (IterationLedger, "borrow_draft_slots", keeping_what_is_borrowed, LEAKED),
}


@pytest.mark.parametrize("law", [requests_on_pages_keep_what_is_theirs, beams_begin_with_the_end_of_their_text])
def test_a_run_on_pages_keeps_the_laws(law):
    law(REFERENCE, SCENARIO)


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_seen(fault, monkeypatch):
    place, name, planted, message = FAULTS[fault]
    monkeypatch.setattr(place, name, planted)
    with pytest.raises((AssertionError, SpecRejection), match=message):
        for law in (requests_on_pages_keep_what_is_theirs, beams_begin_with_the_end_of_their_text):
            law(REFERENCE, SCENARIO)
