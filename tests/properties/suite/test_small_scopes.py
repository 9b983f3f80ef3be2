"""Small scopes are explored whole, states that differ in names are one, and faults of memory die in short histories."""

from dataclasses import replace

import pytest

from specsim.conformance.backend import load
from specsim.conformance.direct import Direct
from specsim.properties.mutants import all_mutants
from specsim.properties.suite.small_scopes.canonical import canonical
from specsim.properties.suite.small_scopes.copies import Copies
from specsim.properties.suite.small_scopes.events import Event, events_of
from specsim.properties.suite.small_scopes.explore import SHORT, explore
from specsim.properties.suite.small_scopes.faults import MOST_EVENTS, UNSEEN, mutants_of_parts, show
from specsim.properties.suite.small_scopes.invariants import check, settle
from specsim.properties.suite.small_scopes.scopes import CHAIN, OUTPUT_LENGTHS, STAR, Scope, all_scopes
from specsim.properties.suite.small_scopes.state import World
from specsim.properties.suite.small_scopes.turns import begin_decode, happen
from specsim.properties.suite.small_scopes.twins import TwinParts
from specsim.simulation.scheduler import Scheduler

REFERENCE = load("specsim.reference")
V1 = Scope(True, STAR, 1, 8, 2, False, None)
V2 = Scope(False, STAR, 1, 18, 2, False, None)
CACHED = Scope(False, CHAIN, 1, 18, 3, True, None)
KILLED = ("K18", "S11", "S13", "OWN-1033", "OWN-1136", "OWN-1164")


def world_of(scope):
    return World(scope, TwinParts(Direct(REFERENCE), REFERENCE))


def play(world, *events):
    """Return the state after some events, every one of which is checked."""
    state = world.start()
    for event in events:
        if event.kind == "decode":
            begin_decode(world, state, world.scope.config)
        happen(world, state, event)
        check(world, state)
        settle(world, state)
    return state


def admitted(*numbers):
    longest = max(OUTPUT_LENGTHS)
    return [event for number in numbers for event in (Event("admit", number, longest), Event("prefill"))]


def test_a_small_scope_is_exhausted():
    seen = explore(REFERENCE, [V1])
    (one,) = seen.explored
    assert (seen.failed, seen.is_exhausted) == (None, True)
    assert one.num_states == one.num_transitions - one.num_merged + 1
    assert one.depth < one.num_states
    assert {"admit", "prefill", "decode", "retract", "resume", "abort", "finish"} <= set(seen.events)


def test_five_thousand_states_conform():
    seen = explore(REFERENCE, all_scopes()[::4], most_states=5_000)
    assert seen.failed is None, f"{seen.failed.error} after {list(map(str, seen.failed.history))}"
    assert seen.num_states >= 5_000
    assert all(seen.events[kind] for kind in ("late result", "resume", "chunk", "rest", "row used again"))
    assert seen.num_paired > 0


def test_scopes_in_which_two_v2_requests_often_run_go_on_first():
    seen = explore(REFERENCE, [replace(V1, num_slots=10), replace(CACHED, has_prefix_cache=False)], most_states=1_200)
    assert seen.failed is None, seen.failed.error
    alone, paired = seen.explored
    assert (alone.depth, alone.is_exhausted) == (SHORT, False)
    assert paired.depth >= SHORT
    assert 3 * seen.num_paired >= seen.num_states


@pytest.mark.parametrize("scope", [V2, CACHED])
def test_requests_may_change_their_names(scope):
    world = world_of(scope)
    decode = Event("decode", paths=((0, 1), (0,)))
    one, other = (play(world, *admitted(*order), decode) for order in ((0, 1), (1, 0)))
    assert canonical(world, one) == canonical(world, other)
    assert canonical(world, one) != canonical(world, play(world, *admitted(0, 1)))


def test_rows_and_slots_have_no_names():
    world = world_of(V2)
    used = play(world, *admitted(1), Event("resolve"), Event("retract", 1), Event("abort", 1), *admitted(0))
    fresh = play(world, *admitted(0))
    assert used.scheduler.running[0].row != fresh.scheduler.running[0].row
    assert used.scheduler.running[0].slots != fresh.scheduler.running[0].slots
    assert canonical(world, used) == canonical(world, fresh)


def test_copies_share_nothing_that_changes():
    world = world_of(CACHED)
    state = play(world, *admitted(0, 1))
    copies = Copies((*world.fixed, *world.operations.classes()))
    frozen = copies.freeze(state)
    before = canonical(world, state)
    copy = copies.thaw(frozen)
    assert copy.scheduler.config is state.scheduler.config
    happen(world, copy, Event("retract", 0))
    assert canonical(world, copy) != before == canonical(world, state) == canonical(world, copies.thaw(frozen))


def test_every_event_of_the_start_admits():
    world = world_of(V2)
    assert {event.kind for event in events_of(world, world.start())} == {"admit"}


@pytest.mark.parametrize("name", KILLED)
def test_mutants_die_in_short_histories(name):
    (mutant,) = (mutant for mutant in all_mutants() if mutant.id == name)
    failed = show(mutant).failed
    assert failed is not None, f"{mutant.summary} lives"
    assert len(failed.history) <= MOST_EVENTS


def test_what_is_not_seen_has_a_reason():
    assert set(UNSEEN) < {mutant.id for mutant in mutants_of_parts()}
    assert all(reason.endswith(".") for reason in UNSEEN.values())


class CachesTooMuch(Scheduler):
    """Leaves the last run of a V1 request to the cache, of which the draft pool has nothing."""

    def finish(self):
        for request in self.running:
            request.num_caught_up = None
        return super().finish()


def test_a_text_is_cached_no_further_than_both_pools_have_it():
    faulty = replace(REFERENCE, scheduler=CachesTooMuch)
    seen = explore(faulty, [replace(CACHED, is_v1=True, num_slots=12)], most_events=4)
    assert [event.kind for event in seen.failed.history] == ["admit", "prefill", "decode", "decode"]
    assert "draft of the cached text" in seen.failed.error
