"""What a module brings runs: its workers get machines, cells and examples, and each driver finds their faults."""

import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path
from random import Random

import numpy as np
import pytest

from specsim.conformance.backend import load
from specsim.conformance.brought import Brought
from specsim.properties.matrix.factors import cell_named
from specsim.properties.matrix.history import try_history
from specsim.properties.matrix.laws import try_law
from specsim.properties.property import OF_ENGINES
from specsim.properties.soak.drafters import WORKER_NAMES
from specsim.properties.soak.drawing import draw_setup
from specsim.properties.soak.history import play
from specsim.properties.soak.own import draw_machine
from specsim.properties.soak.subject import Subject
from specsim.properties.suite.catalogue import all_properties, property_named
from specsim.properties.suite.conformance.running import run_property
from specsim.reference.worker.v1 import ReferenceWorkerV1
from specsim.rejection import Reason, SpecRejection
from specsim.simulation.loops import loop_of

sys.path.append(str(Path(__file__).parents[2] / "docs" / "examples"))
from my_worker import ChainWorker

ALONE = replace(load("specsim.reference"), functions={}, name="mine")
OUTPUTS = "engine.output_equals_autoregressive_decoding"
OF_DRAFTS = "draft_sides_engine.drafts_are_right_as_far_as_they_know"
CELLS = {"eagle_v2": "v2-page4-topk1-mha", "standalone_v2": "standalone-v2-page4-topk1-mha"}


class WrongBonus(ChainWorker):
    """The bonus token is that of the root."""

    def accept(self, phase, predict, hidden_states):
        """Accept, and forget where the path ends."""
        accepted = super().accept(phase, predict, hidden_states)
        return replace(accepted, bonus_tokens=predict.reshape(-1, phase.num_draft_tokens)[:, 0].copy())


class StaleSlot(ChainWorker):
    """Of every range of slots the last one is not written: what the row's last owner had there stays."""

    def assign_slots(self, ranges):
        """Write slots but for the last."""
        for given in ranges:
            self.req_to_token[given.row, given.start : given.end - 1] = given.slots[:-1]


def module(name, build):
    """Return a module that brings one worker alone."""
    kept = {"worker": build} if name == "eagle_v2" else {"other_workers": {name: build}}
    return replace(ALONE, uses=Counter(), **kept)


@pytest.mark.parametrize("name", sorted(WORKER_NAMES))
def test_every_worker_alone_gets_machines(name):
    subject = Subject(replace(ALONE, other_workers={name: loop_of(name)}))
    random = Random(0)
    assert {draw_machine(subject, random, draw_setup).worker_name for _ in range(4)} == {name}


@pytest.mark.parametrize("name", [one.name for one in all_properties() if {*one.plays} - {*OF_ENGINES}])
def test_one_example_plays_every_worker_that_no_other_law_plays(name):
    law = property_named(name)
    those = {*law.plays} - {*OF_ENGINES}
    workers = {worker: loop_of(worker) for worker in those}
    backend = replace(load("specsim.reference"), name="mine", other_workers=workers, uses=Counter())
    assert not run_property(law, backend, 2, 1, is_shrunk=False)[0].failed
    assert those <= {worker for worker, count in backend.uses.items() if count}


def test_machines_of_a_worker_are_those_that_it_takes():
    random = Random(0)
    drawn = [draw_machine(Subject(module("eagle_v2", ChainWorker)), random, draw_setup) for _ in range(6)]
    assert {setup.config.topk for setup in drawn} == {1}


def test_a_module_of_functions_too_has_machines_of_both():
    some = replace(load("specsim.reference"), name="mine", other_workers={"ngram": loop_of("ngram")})
    random = Random(0)
    drawn = [draw_machine(Subject(some), random, draw_setup).worker_name for _ in range(20)]
    assert 5 <= drawn.count("ngram") <= 15


def test_a_worker_that_takes_nothing_is_no_machine():
    def refuse(config, model, sizes):
        raise SpecRejection(Reason.BAD_CONFIGURATION, what="sizes", got=1, expected="2", because="so it is")

    played = play(Subject(module("eagle_v2", refuse)), Random(0))
    assert (played.num_steps, played.ran, played.failure) == (0, {}, None)
    assert played.refused == "sizes other than 2, which the worker refuses, because so it is"


def test_the_worker_of_the_page_inherits_nothing():
    assert ChainWorker.__mro__ == (ChainWorker, object)


@pytest.mark.parametrize("name", CELLS)
@pytest.mark.parametrize(("build", "is_right"), [(ChainWorker, True), (WrongBonus, False), (StaleSlot, False)])
def test_check_soak_and_matrix_find_what_is_wrong_with_a_worker(name, build, is_right):
    backend = module(name, build)
    law = property_named(OUTPUTS if name == "eagle_v2" else OF_DRAFTS)
    report, failure = run_property(law, backend, 1, 12, is_shrunk=False)
    assert (failure is None) == is_right, failure
    assert report.examples > 0
    soaked = [play(Subject(backend), Random(f"1 {number}")) for number in range(1 if is_right else 2)]
    assert all(one.failure is None for one in soaked) == is_right, soaked
    tried = try_history(Subject(backend), cell_named(CELLS[name]), 1, 0)
    assert (tried.failure is None) == is_right, tried.failure
    if is_right:
        assert soaked[0].ran[name] >= 1
        assert tried.counts["iterations"] >= 8


class Zeroed(ReferenceWorkerV1):
    """What it returns is not what it has output."""

    def decode(self, *arguments):
        """Return other tokens."""
        iteration = super().decode(*arguments)
        return replace(iteration, tokens=np.zeros_like(iteration.tokens))


def test_tokens_that_a_v1_worker_returns_are_those_that_it_has_output():
    backend = replace(ALONE, worker_v1=Zeroed)
    tried = try_history(Subject(backend), cell_named("v1-page4-topk1-mha"), 1, 0)
    assert "of request 0 that decode returns = [0" in tried.failure.error


def test_a_law_of_sampled_requests_is_not_tried_on_a_worker_that_refuses_them():
    law = try_law(Subject(module("eagle_v2", ChainWorker)), cell_named(CELLS["eagle_v2"]), "as it is", 1)
    assert (law.error, law.num_seeded) == (None, 0)
    assert law.refused.startswith("a request other than plainly greedy, which the worker refuses")


def test_examples_that_run_nothing_of_a_module_are_none():
    backend = module("standalone_v1", loop_of("standalone_v1"))
    report, failure = run_property(property_named(OF_DRAFTS), backend, 1, 6)
    assert failure is None
    assert report.examples == backend.uses["standalone_v1"]
    assert report.examples + sum(report.left_out.values()) == 6


@pytest.mark.parametrize(
    ("brings", "uses", "reasons"),
    [
        (Brought("a", ("build_tree",), ()), {"build_tree": 3}, []),
        (Brought("a", ("build_tree", "fast_topk"), ()), {"build_tree": 3}, ["never called: fast_topk"]),
        (Brought("a", ("build_tree",), ("eagle_v2",)), {"eagle_v2": 1}, []),
        (Brought("a", (), ("ngram", "SCHEDULER")), {}, ["the worker ngram never ran", "the scheduler never ran"]),
        (Brought("a"), {}, ["a brings nothing that could run"]),
        (Brought("specsim.reference", ("build_tree",), ()), {}, []),
    ],
)
def test_what_never_ran_is_a_reason(brings, uses, reasons):
    assert [*brings.reasons(uses, WORKER_NAMES)] == reasons


def test_a_name_of_no_worker_is_a_reason_with_the_nearest_names():
    (reason,) = Brought("a", (), ("standalone",)).reasons({}, WORKER_NAMES)
    assert reason == ("no driver runs a worker of the name standalone: WORKERS may have standalone_v2, standalone_v1")


def test_of_a_part_of_a_run_something_has_to_run():
    brings = Brought("a", (), ("ngram", "dflash"))
    assert [*brings.reasons({"dflash": 1}, WORKER_NAMES, is_part=True)] == []
    assert len([*brings.reasons({}, WORKER_NAMES, is_part=True)]) == 2
