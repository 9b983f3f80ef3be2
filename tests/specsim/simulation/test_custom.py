"""An algorithm that somebody registers: run to the end by the engine, or refused by name where it breaks a promise."""

import random
from dataclasses import replace

import pytest

from specsim.algorithms import PLUGINS, CustomSpecAlgo, Flags, register, restored_registry
from specsim.config import SpecConfig
from specsim.reference.models import load_model
from specsim.reference.worker.v1 import ReferenceWorkerV1
from specsim.reference.worker.v2 import ReferenceWorker
from specsim.rejection import Reason, SpecRejection
from specsim.rules import ServerConfig, resolve
from specsim.simulation.custom import make_custom_worker
from specsim.simulation.engine import Engine
from specsim.simulation.models.ground_truth import greedy_decode
from specsim.simulation.models.hash_model import HashModel
from specsim.simulation.pools import sizes_for
from specsim.simulation.requests import Request
from specsim.simulation.schedule import Schedule

MODEL = HashModel(32, 5, 0.7)
MORE = 3
"""Nodes that a verify of the algorithm has beyond the draft tokens of its configuration."""


class Wider(CustomSpecAlgo):
    """Brings more tokens to a verify than others."""

    def get_num_tokens_per_bs_for_target_verify(self, num_draft_tokens, is_draft_worker):
        """Return as many, and some more."""
        return num_draft_tokens + MORE


def wider(worker):
    class WiderWorker(worker):
        def __init__(self, config, model, sizes, **options):
            nodes = config.num_draft_tokens + MORE
            super().__init__(replace(config, num_draft_tokens=nodes), model, sizes, **options)

    return WiderWorker


WORKERS = {"v1": wider(ReferenceWorkerV1), "v2": wider(ReferenceWorker)}


@pytest.fixture(autouse=True)
def registry():
    with restored_registry():
        yield


def planned(name="WIDER", mode="auto"):
    return resolve(ServerConfig(name, topk=3, num_steps=2, num_draft_tokens=4, mode=mode))


def made(plan):
    config = SpecConfig(plan.config.topk, plan.config.num_steps, plan.config.num_draft_tokens)
    sizes = sizes_for(replace(config, num_draft_tokens=config.num_draft_tokens + MORE), asked(), 2)
    return make_custom_worker(PLUGINS[plan.config.algorithm], plan.worker_request, config, load_model(MODEL), sizes)


def asked():
    return [Request(number, [3, 1, 4, 1, 5][number:], 24) for number in range(3)]


@pytest.mark.parametrize(("mode", "worker"), [("auto", "v2"), ("v1", "v1")])
def test_an_algorithm_with_its_own_number_of_tokens_runs_losslessly(mode, worker):
    register("wider", supports_overlap=True, spec_class=Wider)(lambda request: WORKERS[request.version])
    plan = planned(mode=mode)
    assert plan.worker == worker
    engine = Engine(made(plan), 2, 7, schedule=Schedule(is_overlapped=plan.is_overlapped))
    for request in asked():
        engine.submit(request)
    for request in engine.run():
        assert request.output == greedy_decode(MODEL, request.prompt, 24)
        assert request.counters.num_accepted_drafts > 0
    verify_input = engine.worker.phases()[1]
    assert verify_input.num_draft_tokens == 4 + MORE


def refused(call, *arguments, **named):
    with pytest.raises(SpecRejection) as caught:
        call(*arguments, **named)
    assert caught.value.reason is Reason.BAD_CONFIGURATION
    return str(caught.value)


def always(value):
    return lambda self, *_: value


def answering(**answers):
    return type("Answering", (CustomSpecAlgo,), {name: always(value) for name, value in answers.items()})


BROKEN = [
    ({"is_none": True}, "MINE.is_none() is True, but should be False"),
    ({"is_some": False}, "MINE.is_some() is False, but should be True"),
    ({"is_speculative": False}, "MINE.is_speculative() is False, but should be True"),
    ({"is_eagle": "yes"}, "MINE.is_eagle() is yes, but should be True or False"),
    ({"is_eagle3": True}, "MINE.is_eagle() is False, but should be True"),
    ({"supports_spec_v2": False}, "MINE.supports_spec_v2() is False, but should be True"),
    ({"get_num_tokens_per_bs_for_target_verify": 0}, "for_target_verify(2, False) is 0, but should be 1 to 1024"),
    ({"get_num_tokens_per_bs_for_target_verify": 2000}, "is 2000, but should be 1 to 1024"),
    ({"get_num_tokens_per_bs_for_target_verify": None}, "is None, but should be 1 to 1024"),
]


@pytest.mark.parametrize(("answers", "message"), BROKEN, ids=lambda value: str(value)[:40])
def test_promises_that_contradict_each_other_are_refused_at_registration(answers, message):
    reported = refused(register, "mine", supports_overlap=True, spec_class=answering(**answers))
    assert message in reported
    assert "MINE" not in PLUGINS


def test_a_number_of_tokens_that_changes_is_refused_at_registration():
    class Changing(CustomSpecAlgo):
        def get_num_tokens_per_bs_for_target_verify(self, num_draft_tokens, is_draft_worker):
            return random.randint(1, 1024)

    random.seed(1)
    assert "as before, because graphs are captured for one number of tokens" in refused(
        register, "mine", spec_class=Changing
    )


def test_the_draft_worker_is_asked_where_it_verifies():
    class RootsAlone(CustomSpecAlgo):
        def get_num_tokens_per_bs_for_target_verify(self, num_draft_tokens, is_draft_worker):
            return 0 if is_draft_worker else num_draft_tokens

    register("drafts", spec_class=RootsAlone)(object)
    verifies = Flags(supports_target_verify_for_draft=True)
    reported = refused(register, "mine", spec_class=RootsAlone, flags=verifies)
    assert "MINE.get_num_tokens_per_bs_for_target_verify(2, True) is 0" in reported


def test_a_factory_that_cannot_be_called_is_refused():
    decorate = register("mine")
    assert "factory of MINE is 7, but should be a callable" in refused(decorate, 7)
    assert "MINE" not in PLUGINS


class Incomplete:
    """Has no worker's methods but two."""

    def __init__(self, config, model, sizes):
        self.config = config

    def prefill(self, rows, chunks):
        """Do nothing."""

    def decode(self, rows, num_steps=None):
        """Do nothing."""


class Forgetful(WORKERS["v2"]):
    """Does not say where it computes."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        del self.device


@pytest.mark.parametrize(
    ("worker", "message"),
    [
        (None, "WIDER: factory is None, but should be a class of workers"),
        (Incomplete, "WIDER: what its class lacks is assign_slots, assign_choices, phases, state"),
        (Forgetful, "WIDER: what its worker lacks is device"),
        (WORKERS["v1"], "WIDER: version of the worker is v1, but should be v2"),
        (ReferenceWorker, "WIDER: tokens that a request brings to a verify is 4, but should be 7"),
    ],
    ids=["nothing", "incomplete", "forgetful", "other kind", "other width"],
)
def test_a_worker_that_does_not_fit_is_refused_when_it_is_made(worker, message):
    register("wider", supports_overlap=True, spec_class=Wider)(lambda request: worker)
    assert message in refused(made, planned())


def test_overlap_that_is_not_supported_is_refused_when_the_worker_is_made():
    register("wider", spec_class=Wider)(lambda request: WORKERS["v2"])
    plan = planned(mode="v1")
    overlapped = replace(plan.worker_request, version="v2", is_overlapped=True)
    config = SpecConfig(3, 2, 4)
    sizes = sizes_for(config, asked(), 2)
    reported = refused(make_custom_worker, PLUGINS["WIDER"], overlapped, config, load_model(MODEL), sizes)
    assert "WIDER has no overlapped worker" in reported
