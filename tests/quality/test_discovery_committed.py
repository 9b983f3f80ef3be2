"""Runs of which something leaves meet what makes a fault show, as often as their strategy says."""

from collections import Counter

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings

from specsim.conformance.backend import load
from specsim.host.stopping import FinishReason
from specsim.properties.memory.exported import Watched
from specsim.properties.runs.drafted import NAMED
from specsim.properties.runs.play import Play, parts_of
from specsim.properties.runs.transfers.laws_committed import exporting_runs
from specsim.properties.runs.transfers.laws_loaded import loading_runs, recurrent_loads, window_loads
from specsim.simulation.models.pool_kinds import RECURRENT_KINDS
from tests.quality.pool import drawn

NUM_RUNS = 160


def counted():
    """Play runs, and count how they are made and how their requests end."""
    seen, places = Counter(), {1: Counter(), 4: Counter(), 16: Counter()}

    @seed(5)
    @settings(
        max_examples=NUM_RUNS,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(exporting_runs())
    def look(run):
        watched = Watched(parts_of(load("specsim.reference")))
        play, page_size = Play(run, operations=watched), run.room.page_size
        lengths, inside = {}, set()

        def leave(name, holding):
            (request,) = (each for each in play.requests if each.holding is holding)
            lengths[request.request_id] = holding.books.num_committed
            if name == "release_retracted" and holding.books.num_committed >= page_size:
                inside.add("retracted pages")

        watched.leave = leave
        for request in play.run().finished:
            places[page_size][len(request.fill) % page_size] += 1
            if request.finish_reason is FinishReason.ABORT:
                inside.add("abort")
            if not run.is_v1 and lengths.get(request.request_id, 0) >= len(request.fill):
                inside.add("stop inside a run")
        facts = {
            "V1": run.is_v1,
            "overlap": run.schedule.is_overlapped,
            "tree": run.config.topk > 1,
            "rest": run.schedule.num_drafts is not None,
            "cache": run.schedule.has_prefix_cache,
            "chunks": run.schedule.prefill_chunk is not None,
            "retraction": bool(run.course.retractions),
            f"pages of {page_size}": True,
        }
        seen.update(what for what, is_so in facts.items() if is_so)
        seen.update(inside)

    look()
    return seen, places


SHARES = {
    "V1": 1 / 3,
    "overlap": 4 / 9,
    "tree": 2 / 3,
    "rest": 1 / 4,
    "cache": 1 / 2,
    "chunks": 1 / 2,
    "retraction": 1 / 2,
    "pages of 1": 1 / 4,
    "pages of 4": 1 / 2,
    "pages of 16": 1 / 4,
    "abort": 1 / 8,
    "stop inside a run": 1 / 4,
    "retracted pages": 1 / 4,
}
"""Of the runs that each fact holds for, half of which is asked for."""


def test_runs_meet_what_their_strategy_says():
    seen, places = counted()
    assert not {what: seen[what] for what, share in SHARES.items() if seen[what] < share / 2 * NUM_RUNS}
    # Texts end at every place of a page.
    assert {size: len(ends) for size, ends in places.items() if size < 16} == {1: 1, 4: 4}
    assert len(places[16]) >= 14


LOADS = {
    "ended": (1 / 3, lambda one: one.is_ended),
    "a prefix cache": (1 / 2, lambda one: one.target.schedule.has_prefix_cache),
    "V1 to V2": (1 / 4, lambda one: one.source.is_v1 and not one.target.is_v1),
    "V2 to V1": (1 / 4, lambda one: one.target.is_v1 and not one.source.is_v1),
    "overlap": (1 / 4, lambda one: one.source.schedule.is_overlapped),
    "chunks": (1 / 2, lambda one: one.source.schedule.prefill_chunk is not None),
    "other pages": (2 / 3, lambda one: one.source.room.page_size != one.target.room.page_size),
    "other drafts": (1 / 3, lambda one: one.source.config != one.target.config),
    "steps between": (2 / 3, lambda one: not one.is_ended and one.lag > 0),
}


@pytest.mark.parametrize("strategy", [loading_runs, window_loads])
def test_texts_go_on_as_their_strategy_says(strategy):
    runs = drawn(strategy(), NUM_RUNS)
    counts = {what: sum(map(bool, map(is_so, runs))) for what, (_, is_so) in LOADS.items()}
    rare = {what: count for what, count in counts.items() if count < LOADS[what][0] / 2 * NUM_RUNS}
    assert not rare, f"of {NUM_RUNS} runs"
    assert {(one.source.drafting.drafter, one.source.is_v1) for one in runs} >= {
        kind for name, kind in NAMED.items() if not name.startswith("frozen")
    }


def test_states_go_on_without_ends_and_caches():
    runs = drawn(recurrent_loads(), NUM_RUNS)
    assert {one.source.model.target_pool for one in runs} == RECURRENT_KINDS
    assert not any(one.is_ended or one.target.schedule.has_prefix_cache for one in runs)
    assert sum(one.lag > 0 for one in runs) > NUM_RUNS / 2
