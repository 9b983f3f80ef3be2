"""The machine of a soak finds planted faults within few steps, makes them small, and counts the same in any process."""

from dataclasses import replace
from functools import partial
from itertools import count
from random import Random

import pytest

from specsim.algorithms import DRAFTERS
from specsim.cli.isolation import engine_workers
from specsim.config import MOST_PACKED_NODES, SpecConfig
from specsim.conformance.backend import load
from specsim.conformance.isolation.jobs import Limits
from specsim.properties.runs.histories import VOCABULARY
from specsim.properties.runs.scenario import Arrival
from specsim.properties.soak.algorithms import OTHERS, of_algorithm, with_algorithm
from specsim.properties.soak.crashes import Crash, smallest_crash
from specsim.properties.soak.drawing import draw_setup
from specsim.properties.soak.faults import FAULTS
from specsim.properties.soak.history import Played, finish, play, replay
from specsim.properties.soak.machine import Machine
from specsim.properties.soak.rules import Action, apply_action, draw_action
from specsim.properties.soak.run import LOADED, RUN_UNIT, Soak, Soaked
from specsim.properties.soak.setups import setup_of
from specsim.properties.soak.shrinking import shrink
from specsim.properties.soak.subject import Subject
from specsim.properties.soak.tags import (
    ELSEWHERE,
    ENDS,
    LEAST_HITS,
    NOT_YET,
    OWN,
    REQUIRED,
    SOMETIMES,
    least_hits,
    more_steps,
)
from specsim.properties.soak.units import ANY, SoakLimits
from specsim.properties.soak.verdict import complaints, why_inconclusive
from specsim.reference.worker.sides.ngram import NgramSide
from specsim.reference.worker.v1 import ReferenceWorkerV1
from specsim.simulation.events import Tag
from specsim.simulation.models.hash_model import HashModel
from specsim.simulation.schedule import Schedule

MOST_STEPS = 500
FOUND_BY = ("AssertionError", "SpecRejection")
"""What a check of the machine raises, and what the books of an engine do; anything else is a crash."""
LEGEND = (
    "any acc rej full bs2 ragged topk2 k2 steps2 page T filt proc pad replay chunk prefix retract stop limit gram dynk "
    "over dp idle swa rec vmap big zero nan side coin multi hist shape badtree finish cuda"
)


def reference():
    return Subject(load("specsim.reference"))


def short_setups(random):
    """Draw machines of few actions: many small ones meet more than a large one."""
    return draw_setup(random).having(num_actions=30)


def find(fault):
    """Return what the first machine that fails came to, and the steps that all of them took."""
    subject, num_steps = fault.plant(), 0
    for number in count():
        played = play(subject, Random(f"0 {number}"), lambda random: fault.draw(random).having(num_actions=30))
        num_steps += played.num_steps
        if played.failure is not None or num_steps > MOST_STEPS:
            return played.failure, num_steps


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.mutant)
def test_faults_are_found_in_few_steps(fault):
    failure, num_steps = find(fault)
    assert failure is not None, f"{fault.record.summary} lives after {num_steps} steps"
    assert failure.kind in FOUND_BY, failure.error


@pytest.fixture
def quick_fault():
    """Return a fault whose machine is quick to find and to play again, after many actions."""
    return next(fault for fault in FAULTS if fault.mutant == "OWN-1420")


def test_histories_are_replayed_and_made_smaller(quick_fault):
    subject = quick_fault.plant()
    failure, _ = find(quick_fault)
    assert len(failure.actions) > 10
    smallest = shrink(failure, partial(replay, subject), 150)
    assert len(smallest.actions) <= 2
    assert replay(subject, smallest.setup, smallest.actions) == smallest
    assert replay(reference(), smallest.setup, smallest.actions) is None


def test_histories_that_end_their_process_are_made_smaller():
    limits, module = Limits(call=20.0), "tests.properties.crashing_worker"
    unit = RUN_UNIT, (module, ANY, ("3 0",), SoakLimits())
    found = smallest_crash(Crash(unit, (LOADED, (module,)), limits, 60))
    assert found["error"] == "! CRASHED in prefill, action 3: killed by SIGABRT"
    assert [line.partition("(")[0] for line in found["lines"][1:-1]] == ["1. admit Arrival", "2. admit Arrival"]
    others = RUN_UNIT, ("specsim.reference", ANY, ("3 7",), SoakLimits())
    assert smallest_crash(Crash(others, (LOADED, ("specsim.reference",)), limits, 60)) is None


def test_nothing_is_tried_without_replays(quick_fault):
    failure, _ = find(quick_fault)
    assert shrink(failure, partial(replay, quick_fault.plant()), 0) == failure


def test_what_cannot_be_applied_is_left_out():
    setup = short_setups(Random(0))
    assert replay(reference(), setup, [Action("abort", 3), Action("retract", 1), Action("step")]) is None


def test_a_prompt_in_chunks_takes_the_room_of_texts_that_no_one_uses():
    setup = setup_of(
        SpecConfig(1, 2, 3),
        HashModel(VOCABULARY, 5),
        1,
        Schedule(prefill_chunk=4, has_prefix_cache=True),
        longest_prompt=30,
        longest_output=10,
        page_size=2,
    )
    prompts = [tuple((number * place + number) % VOCABULARY for place in range(30)) for number in (1, 3, 5)]
    crowd = [Action("admit", Arrival(prompt, 10)) for prompt in prompts]
    assert replay(reference(), setup, crowd) is None


def test_runs_count_the_same_in_any_number_of_processes():
    what = Soak("specsim.reference", 5)
    with engine_workers(what.implementation, 2, what.limits) as supervisor:
        alone, together = (what.run(supervisor, 150, jobs) for jobs in (1, 2))
    assert alone.num_steps >= 150
    assert replace(alone, rss_mib=(0, 0), seconds=0) == replace(together, rss_mib=(0, 0), seconds=0)


def test_every_condition_of_the_legend_is_required_or_has_a_reason():
    named = [tag.value for tag in REQUIRED] + [*NOT_YET, *ELSEWHERE]
    assert sorted(named) == sorted(LEGEND.split())


@pytest.mark.parametrize(("num_steps", "least"), [(1_999, 0), (2_000, 2), (20_000, 20), (1_000_000, 20)])
def test_hits_are_required_in_proportion(num_steps, least):
    assert least_hits(num_steps) == least


def plenty():
    soaked = Soaked(0)
    soaked.add(0, {**Played(20_000, num_decodes=10_000, num_wide_decodes=2_000).as_plain(), "brings": {}})
    soaked.reach.update(dict.fromkeys((*REQUIRED, *OWN), 20) | dict.fromkeys(SOMETIMES, 1))
    soaked.reused.update(dict.fromkeys(ENDS, 20))
    soaked.algorithms.update(dict.fromkeys(DRAFTERS, 1))
    soaked.rss_mib = (100.0, 108.0)
    return soaked


def test_a_run_that_reached_everything_conforms():
    assert complaints(plenty()) == []
    assert why_inconclusive(plenty(), is_part=False) == []


def test_what_never_happened_makes_a_long_run_inconclusive():
    soaked = plenty()
    soaked.reach[Tag.BACK_IN_FLIGHT] = 0
    line = "back_in_flight = 0 in 20,000 steps, but should be at least 1; about 40,000 steps more should do"
    assert (complaints(soaked), why_inconclusive(soaked, is_part=False)) == ([], [line])
    soaked.num_steps = 19_999
    assert why_inconclusive(soaked, is_part=False) == []


def test_a_run_that_missed_something_is_inconclusive_and_says_what():
    soaked = plenty()
    soaked.reach[Tag.FULL] = 19
    soaked.reused["abort"] = 3
    soaked.algorithms["NGRAM"] = 0
    soaked.num_decodes, soaked.num_wide_decodes = 9_999, 1_999
    assert (complaints(soaked), why_inconclusive(soaked, is_part=True)) == ([], [])
    assert why_inconclusive(soaked, is_part=False) == [
        "full = 19 in 20,000 steps, but should be at least 20; about 1,100 steps more should do",
        "a row used again after abort = 3 in 20,000 steps, but should be at least 20; "
        "about 98,000 steps more should do",
        "machines of NGRAM = 0 in 20,000 steps, but should be at least 1; about 40,000 steps more should do",
        "decode iterations = 9,999 in 20,000 steps, but should be at least 1 in 2; "
        "at this rate no number of steps would do",
        "decode iterations of four or more requests = 1,999 in 20,000 steps, but should be at least 1 in 10; "
        "at this rate no number of steps would do",
    ]


def test_what_a_run_missed_is_no_reason_where_something_is_wrong():
    soaked = plenty()
    soaked.reach[Tag.FULL] = 19
    soaked.stopped = "too many"
    assert (complaints(soaked), why_inconclusive(soaked, is_part=False)) == (["too many"], [])


@pytest.mark.parametrize(
    ("hits", "num_steps", "more"),
    [(2, 3_000, "22,000"), (0, 3_000, "120,000"), (19, 25_000, "1,300"), (0, 2_000, "80,000")],
)
def test_more_steps_are_those_that_the_rate_seen_asks_for(hits, num_steps, more):
    assert more_steps(hits, num_steps, LEAST_HITS) == f"about {more} steps more should do"


def test_growth_is_a_failure():
    soaked = plenty()
    soaked.rss_mib = (100.0, 109.0)
    assert complaints(soaked) == ["memory at the end = 109.0 MiB, but should be at most 1.08 times 100.0 MiB"]


def test_leaks_are_failures():
    soaked = plenty()
    soaked.num_leaked = 2
    assert complaints(soaked) == ["2 slots leaked"]


@pytest.mark.parametrize("name", OTHERS)
def test_machines_of_other_algorithms_live_to_their_ends(name):
    for number in range(3):
        setup = of_algorithm(short_setups(Random(number)), name, Random(number))
        assert setup.worker_name.startswith(("eagle", "standalone", "multi", name.lower()))
        machine, random = Machine(reference(), setup), Random(number)
        for _ in range(setup.num_actions):
            apply_action(machine, draw_action(random, machine))
        finish(machine)


def test_wide_trees_and_every_setup_but_one_in_four_stay_with_eagle():
    setups = [draw_setup(Random(number)) for number in range(200)]
    assert all(with_algorithm(one) is one for one in setups if one.config.num_draft_tokens > MOST_PACKED_NODES)
    changed = [with_algorithm(one).drafting.drafter for one in setups if with_algorithm(one) is not one]
    assert set(changed) == set(OTHERS)
    assert 30 < len(changed) < 70


class CarelessWorker(ReferenceWorkerV1):
    """Outputs another token than the target's now and then."""

    def decode(self, rows, num_steps=None):
        """Run an iteration, and put a token in the place of token 0."""
        iteration = super().decode(rows, num_steps)
        for request in self._ledger.requests:
            if len(request.output) > 3 and request.output[-1] == 0:
                request.output[-1] = 1
        return iteration


def test_a_fault_of_another_algorithm_is_found():
    subject = Subject(
        replace(load("specsim.reference"), other_workers={"ngram": partial(CarelessWorker, make_side=NgramSide)})
    )
    setup = of_algorithm(short_setups(Random(0)), "NGRAM", Random(0))
    setup = setup.having(is_v1=True, is_overlapped=False)
    actions = [Action("admit", Arrival((0, 1, 2, 0, 1), 12))]
    assert replay(subject, setup, actions) is not None
    assert replay(reference(), setup, actions) is None
