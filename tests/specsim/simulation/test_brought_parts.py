"""Every part and host function of stops, scheduling and memory that a module may bring is what its engine calls."""

from collections import Counter
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
import pytest

from specsim.config import SpecConfig
from specsim.conformance.backend import load
from specsim.conformance.catalogue import CATALOGUE, Kind, names_of
from specsim.conformance.completed import Completed
from specsim.host.grammar import TableGrammar
from specsim.properties.soak.setups import setup_of
from specsim.properties.soak.sides import engine_around
from specsim.properties.soak.subject import Subject
from specsim.simulation.comparing.autoregressive import ExactDecoder, decode_alone
from specsim.simulation.engine import Engine
from specsim.simulation.models.ground_truth import Prefix
from specsim.simulation.models.hash_model import HashModel
from specsim.simulation.models.pool_kinds import PoolKind
from specsim.simulation.requests import Request
from specsim.simulation.schedule import Schedule

REFERENCE = load("specsim.reference")
GROUPS = ("memory", "scheduling", "stops")
PARTS = [
    name
    for name in names_of(Kind.HOST_FUNCTION, Kind.PART)
    for entry in [CATALOGUE[name]]
    if entry.group in GROUPS and not (entry.outside_runs or entry.is_conformance_only)
]
"""What an engine calls, by the catalogue: a part that joins it without a caller fails here."""

VOCABULARY = 16
MODEL = HashModel(VOCABULARY, 5, 0.8, target_pool=PoolKind.SWA, window=5)
CHAIN, TREE = SpecConfig(1, 2, 3), SpecConfig(2, 2, 4)
CROWDED = Schedule(promised=Fraction(0), prefill_chunk=4, has_prefix_cache=True)
SHARED = (3, 1, 4, 1, 5, 9, 2, 6)


def setup(config, schedule, **others):
    small = {"longest_prompt": 10, "longest_output": 10, "num_spare_slots": 9}
    return setup_of(config, MODEL, 2, schedule, **{**small, **others})


SETUPS = (
    setup(TREE, CROWDED, is_v1=True),
    setup(TREE, replace(CROWDED, is_overlapped=True, stream_seed=1), page_size=2),
    setup(CHAIN, replace(CROWDED, has_prefix_cache=False, clips_drafts=True)),
)


def anything(count):
    """Return what starts a grammar that is complete after so many tokens, whatever they are."""
    following = np.minimum(np.arange(count + 1) + 1, count).astype(np.int32)
    return lambda: TableGrammar(np.repeat(following[:, None], VOCABULARY, axis=1), np.arange(count + 1) == count, 0)


REQUESTS = (
    Request(0, SHARED, 9),
    Request(1, (*SHARED, 7), 8, context_limit=14),
    Request(2, (7, 7), 10, grammar=anything(6)),
    Request(3, SHARED[:5], 10),
)


@dataclass
class Called:
    """What is counted, around a function of ours."""

    function: object
    count: int = 0

    def __call__(self, *positional, **named):
        self.count += 1
        return self.function(*positional, **named)


def module(**functions):
    return replace(REFERENCE, name="mine", functions=functions, uses=Counter())


def play(backend, one):
    """Run all requests to their ends; one is retracted on the way."""
    subject = Subject(backend)
    engine: Engine = engine_around(subject.worker(one), one, subject)
    for request in REQUESTS:
        engine.submit(request.fresh())
    for number in range(200):
        if not engine.has_work:
            break
        engine.step()
        engine.scheduler.check_ledger()
        if number == 3 and engine.scheduler.holders:
            engine.scheduler.retract(engine.scheduler.holders[0])
    return sorted(engine.scheduler.finished, key=lambda request: request.request_id)


def expected(request):
    matcher = None if request.grammar is None else request.grammar()
    decoder = ExactDecoder(Prefix(MODEL), request.choice_alone(matcher))
    return decode_alone(decoder, request.prompt, request.fresh().rules, matcher)


def test_there_are_parts_of_every_group():
    assert {CATALOGUE[name].group for name in PARTS} == set(GROUPS)
    assert {"find_stop", "append_run", "num_behind_window", "plan_release", "key_units", "Books"} <= set(PARTS)


@pytest.mark.parametrize("name", PARTS)
def test_a_part_of_a_module_is_called_in_its_whole_runs(name):
    called = Called(CATALOGUE[name].on_host)
    for one in SETUPS:
        done = play(module(**{name: called}), one)
        assert [(request.output, request.finish) for request in done] == [expected(request) for request in REQUESTS]
        if called.count:
            break
    assert called.count > 0


@pytest.mark.parametrize("name", PARTS)
def test_so_is_one_of_a_module_that_has_ours_beside_it(name):
    called = Called(CATALOGUE[name].on_host)
    for one in SETUPS:
        play(module(**{**REFERENCE.functions, name: called}), one)
        if called.count:
            break
    assert called.count > 0


@pytest.mark.parametrize(
    "name", [name for name in names_of(Kind.HOST_FUNCTION, Kind.PART) if CATALOGUE[name].outside_runs]
)
def test_what_is_not_asked_for_in_runs_says_why(name):
    called = Called(CATALOGUE[name].on_host)
    play(module(**{name: called}), SETUPS[1])
    assert called.count == 0


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("find_stop", lambda *arguments: None),
        (
            "append_run",
            lambda rules, output, tokens, count, *others: CATALOGUE["append_run"].on_host(
                rules, output, tokens[:1], 1, *others
            ),
        ),
        ("num_behind_window", lambda position, window, page_size: position // page_size * page_size),
        (
            "plan_release",
            lambda *arguments: replace(CATALOGUE["plan_release"].on_host(*arguments), scratch=(0, 0)),
        ),
        ("key_units", lambda text, has_pair_keys, num_ahead=1: [(0, 0)] * max(len(text) - num_ahead, 0)),
        ("alloc_len_per_decode", lambda sizes, page_size: 1),
    ],
)
def test_a_wrong_part_shows_in_a_run(name, wrong):
    backend = module(**{name: wrong})
    for one in SETUPS:
        try:
            done = play(backend, one)
        except Exception:
            return
        if [(request.output, request.finish) for request in done] != [expected(request) for request in REQUESTS]:
            return
    pytest.fail("every run is right")


def test_operations_that_complete_each_other_keep_their_own_parts():
    operations = Completed(module(find_stop=lambda *arguments: None), REFERENCE)
    rules = REQUESTS[0].rules
    run = operations.append_run(replace(rules, max_new_tokens=1), [], [1, 2], 2, 5, 1, chr)
    assert (run.finish, run.emitted) == (None, (1, 2))
