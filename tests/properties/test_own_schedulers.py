"""A module's own scheduler runs beside a reference that ours schedules, and each driver finds its faults."""

import json
import shutil
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from specsim.conformance.backend import SCHEDULER, load
from specsim.conformance.brought import Brought
from specsim.properties.matrix.factors import cell_named
from specsim.properties.matrix.history import try_history
from specsim.properties.soak.drawing import draw_setup
from specsim.properties.soak.history import play
from specsim.properties.soak.machine import Machine
from specsim.properties.soak.run import Soaked
from specsim.properties.soak.subject import Subject
from specsim.properties.soak.verdict import complaints, not_required, why_inconclusive
from specsim.properties.suite.catalogue import property_named
from specsim.properties.suite.conformance.running import run_property
from specsim.properties.suite.small_scopes.explore import explore
from specsim.properties.suite.small_scopes.faults import telling_scopes
from specsim.simulation.scheduler import Scheduler
from specsim.simulation.scheduler_protocol import MEMBERS

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"
sys.path.append(str(EXAMPLES))
from my_scheduler import ShortestFirst  # noqa: E402

REFERENCE = load("specsim.reference")
ROWS = "sizes.rows_are_used_again_after_every_end"
LAWS = (
    "scheduled_engine.schedules_change_no_token",
    "scheduled_engine.schedules_lose_no_slot",
    "scheduled_engine.committed_kv_outlives_every_schedule",
    "scheduled_engine.overlap_changes_no_counter",
    "scheduled_engine.an_abort_ends_at_the_next_result",
    ROWS,
)


class Dropping(ShortestFirst):
    """Forgets a request that it retracts."""

    def retract(self, request):
        super().retract(request)
        self.waiting.remove(request)


class Starving(ShortestFirst):
    """Admits no second request of the same length."""

    def shortest(self):
        request = super().shortest()
        return (
            None if request is not None and any(request.num_fill == one.num_fill for one in self.finished) else request
        )


class Sharing(ShortestFirst):
    """Hands the worker the first slot of a turn for the second prompt, too."""

    def next_prefill(self):
        batch = super().next_prefill()
        if batch is None or len(batch.ranges) < 2 or not (batch.ranges[0].slots and batch.ranges[1].slots):
            return batch
        one, other, *rest = batch.ranges
        return replace(batch, ranges=(one, replace(other, slots=(one.slots[0], *other.slots[1:])), *rest))


class TooFar(ShortestFirst):
    """Leaves a token to the prefix cache that is not resolved."""

    def publish(self, request, end):
        books = request.holding.books
        request.holding.books = replace(
            books, num_committed=max(books.num_committed, min(end + 1, books.num_allocated))
        )
        return super().publish(request, end)


def module(make_scheduler):
    return replace(REFERENCE, name="mine", scheduler=make_scheduler, uses=Counter())


def machines(make_scheduler, seeds):
    return [play(Subject(module(make_scheduler)), Random(f"1 {number}")) for number in seeds]


def test_the_scheduler_of_the_page_inherits_nothing_and_has_all():
    assert ShortestFirst.__mro__ == (ShortestFirst, object)
    assert load("my_scheduler").scheduler is ShortestFirst
    subject = Subject(module(ShortestFirst))
    scheduler = Machine(subject, draw_setup(Random(0))).engine.scheduler
    assert set(MEMBERS) <= set(dir(scheduler))


@pytest.mark.parametrize("name", LAWS)
def test_the_scheduler_of_the_page_keeps_every_law_of_schedules(name):
    backend = module(ShortestFirst)
    report, failure = run_property(property_named(name), backend, 1, 4 if name != ROWS else 1, is_shrunk=False)
    assert (failure, report.examples > 0) == (None, True)
    assert backend.uses[SCHEDULER] > 0


def test_the_scheduler_of_the_page_soaks_beside_a_reference_that_ours_schedules():
    played = machines(ShortestFirst, range(2))
    assert [one.failure for one in played] == [None] * len(played)
    assert all(one.ran[SCHEDULER] for one in played)
    machine = Machine(Subject(module(ShortestFirst)), draw_setup(Random(0)))
    assert [type(engine.scheduler) for engine in machine.sides.engines] == [ShortestFirst, Scheduler]


def test_a_module_without_a_scheduler_has_the_engines_that_it_had():
    machine = Machine(Subject(REFERENCE), draw_setup(Random(0)))
    assert [type(engine.scheduler) for engine in machine.sides.engines] == [Scheduler]


def test_the_commands_of_the_page_conform(tmp_path):
    shutil.copy(EXAMPLES / "my_scheduler.py", tmp_path)
    command = [sys.executable, "-m", "specsim", "soak", "my_scheduler", "--steps", "200", "--seed", "1", "--json"]
    got = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=600, check=False)
    assert got.returncode == 0, got.stdout + got.stderr
    assert json.loads(got.stdout)["ran"]["schedulers"]["SCHEDULER"] >= 1


@pytest.mark.parametrize(
    ("make_scheduler", "number", "begin"),
    [
        (Dropping, 7, "lockstep: iteration 23, Request.finish[1] = None, but should be Finish("),
        (Starving, 0, "lockstep: iteration 1, Engine.turns without progress[] = 5 while [1, 2, 3] wait"),
        (Sharing, 0, "target_kv[0] of request 1 at 0 = "),
        (TooFar, 0, "tokens = 18, but should be 19"),
    ],
)
def test_a_soak_finds_what_is_wrong_with_a_scheduler(make_scheduler, number, begin):
    (played,) = machines(make_scheduler, [number])
    assert played.failure.error.startswith(begin)


@pytest.mark.parametrize("make_scheduler", [Dropping, Starving])
def test_check_finds_what_is_wrong_with_a_scheduler(make_scheduler):
    for name in (LAWS[0], ROWS):
        _, failure = run_property(
            property_named(name), module(make_scheduler), 1, 6 if name != ROWS else 1, is_shrunk=False
        )
        assert failure is not None


def test_a_matrix_finds_a_scheduler_whose_requests_share_a_slot():
    tried = try_history(Subject(module(Sharing)), cell_named("v2-page4-topk1-mha"), 1, 0)
    assert tried.failure.error.startswith("target_kv[0] of request 0 at 0 = ")


def test_small_scopes_explore_ours_in_the_place_of_one_that_inherits_nothing():
    seen = explore(module(ShortestFirst), telling_scopes()[:2], most_states=200)
    assert seen.failed is None


def test_conditions_that_no_scheduler_decides_are_not_required_of_one_alone():
    alone = Brought("mine", makes=(SCHEDULER,))
    soaked = Soaked(seed=1, brings=alone)
    soaked.num_steps = 2_000
    left_out = not_required(soaked)
    assert {"big", "T", "gram"} <= left_out.keys()
    assert not {"chunk", "prefix", "retract", "a row used again after abort"} & left_out.keys()
    assert complaints(soaked) == []
    missed = why_inconclusive(soaked, is_part=False)
    assert any(line.startswith("chunk = 0") for line in missed)
    assert not any(line.startswith("big = 0") for line in missed)
