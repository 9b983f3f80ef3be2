"""A drafter that is brought alone runs in both loops of both layers, and check, soak and matrix find what is wrong."""

import sys
from collections import Counter
from dataclasses import replace
from random import Random
from types import ModuleType

import pytest

from specsim.config import SpecConfig
from specsim.conformance.backend import load
from specsim.properties.matrix.factors import cell_named
from specsim.properties.matrix.history import try_history
from specsim.properties.matrix.laws import try_law
from specsim.properties.runs.play import model_for
from specsim.properties.soak.drawing import draw_brief_texts
from specsim.properties.soak.history import play
from specsim.properties.soak.subject import Subject
from specsim.properties.suite.catalogue import property_named
from specsim.properties.suite.conformance.running import run_property
from specsim.simulation.models.hash_model import HashModel
from specsim.simulation.pools import sizes_for
from specsim.simulation.report import simulate
from specsim.simulation.requests import Request
from tests.suffix_drafter import DRAFTERS, SuffixSide

OUTPUT = "engine.output_equals_autoregressive_decoding"
CELLS = ("suffix-v1-page4-topk4-mha", "suffix-v2-page4-topk1-mha-cache")


class WrongDrafts(SuffixSide):
    """Drafts after another text, which only costs drafts."""

    def draft(self, start, config, pools, verify_slots):
        others = tuple([*text[:-1][::-1], text[-1]] for text in start.texts)
        return super().draft(replace(start, texts=others), config, pools, verify_slots)


class RootOfTheNeighbour(SuffixSide):
    """Starts each draft from the last token of another request."""

    def draft(self, start, config, pools, verify_slots):
        return super().draft(replace(start, texts=(*start.texts[1:], *start.texts[:1])), config, pools, verify_slots)


class WithoutTheBonus(SuffixSide):
    """Forgets the bonus token where drafts were accepted."""

    def going_on(self, start, said):
        return super().going_on(start, [own[:-1] if len(own) > 1 else own for own in said])


def brought(monkeypatch, side):
    module = ModuleType("mine")
    module.DRAFTERS = {"suffix": replace(DRAFTERS["suffix"], sides={"reference": side})}
    monkeypatch.setitem(sys.modules, "mine", module)
    return replace(load("mine"), uses=Counter())


@pytest.mark.parametrize("is_v1", [True, False], ids=["V1", "V2"])
@pytest.mark.parametrize("module", ["tests.suffix_drafter", "tests.suffix_on_gpu"])
def test_it_runs_in_both_loops_of_both_layers(module, is_v1):
    backend, config = load(module), SpecConfig(1, 3, 4)
    asked = [Request(number, [1, 2] * 3, 8 + number) for number in range(3)]
    model = model_for(backend, HashModel(3, 3))
    worker = backend.build_worker(f"suffix_v{2 - is_v1}", config, model, sizes_for(config, asked, 2))
    report = simulate(worker, asked, max_batch=2)
    assert (report.lossless, report.num_accepted_drafts > 0) == (True, True)


@pytest.mark.parametrize("name", ["check", "soak", *CELLS])
def test_the_suites_run_it_on_the_gpu_layer(name):
    subject = Subject(load("tests.suffix_on_gpu"))
    if name in CELLS:
        failure = try_history(subject, cell_named(name), 1, 0).failure
    elif name == "soak":
        failure = play(subject, Random("1 4"), draw_brief_texts).failure
    else:
        failure = run_property(property_named(OUTPUT), subject.backend, 1, 1, is_shrunk=False)[1]
    assert (failure, subject.backend.uses.total() > 0) == (None, True)


@pytest.mark.parametrize("side", [SuffixSide, WrongDrafts, RootOfTheNeighbour, WithoutTheBonus])
def test_check_soak_and_matrix_find_what_is_wrong_with_it(monkeypatch, side):
    backend, is_right = brought(monkeypatch, side), side in (SuffixSide, WrongDrafts)
    subject = Subject(backend)
    report, failure = run_property(property_named(OUTPUT), backend, 1, 8, is_shrunk=False)
    assert report.failed != is_right
    assert is_right or failure.message.startswith("drafter suffix: ")
    played = [play(subject, Random(f"1 {number}")) for number in range(4)]
    assert {one.algorithm for one in played} == {"suffix"}
    assert all(one.failure is None for one in played) == is_right
    assert all((try_history(subject, cell_named(name), 1, 0).failure is None) == is_right for name in CELLS)
    assert not is_right or try_law(subject, cell_named(CELLS[0]), "as it is", 1).error is None
    assert backend.uses.keys() >= {"suffix_v1", "suffix_v2"}
