"""Whole runs of a worker with a drafting policy of its own are judged by their outputs alone."""

from dataclasses import replace

import pytest

from specsim.conformance.backend import load
from specsim.conformance.limits import Limits, limits_of
from specsim.properties.catalogue import property_named
from specsim.properties.conformance.runner import run_property
from tests.properties.laws.lookahead import LookaheadWorker

OUTPUT, LOCKSTEP = "engine.output_equals_autoregressive_decoding", "worker.agrees_with_the_reference_in_lockstep"
SEEDS = "sampled_engine.requests_draw_different_coins"


class WrongToken(LookaheadWorker):
    def decode(self, rows, num_steps=None):
        iteration = super().decode(rows, num_steps)
        return replace(iteration, tokens=(iteration.tokens + 1) % self.model.description.vocab_size)


class Cold(LookaheadWorker):
    """Samples at a quarter of the temperature."""

    def assign_choices(self, rows, choices):
        cold = [
            one
            if one.sampling is None
            else replace(one, sampling=replace(one.sampling, temperature=one.sampling.temperature / 4))
            for one in choices
        ]
        super().assign_choices(rows, cold)


def failed(worker, name, has_own_drafts=True, examples=3):
    limits = Limits(has_own_drafts=has_own_drafts)
    backend = replace(load("specsim.reference"), functions={}, worker=worker, name="lookahead", limits=limits)
    return run_property(property_named(name), backend, 1, examples, is_shrunk=False)[0].failed


@pytest.mark.parametrize("name", [OUTPUT, LOCKSTEP])
def test_a_right_policy_conforms_by_its_outputs_and_a_wrong_token_does_not(name):
    assert not failed(LookaheadWorker, name)
    assert failed(WrongToken, name)


def test_its_drafts_are_compared_unless_it_declares_otherwise():
    assert limits_of({"LOCKSTEP": "outputs"}, "mine") == Limits(has_own_drafts=True)
    assert failed(LookaheadWorker, LOCKSTEP, has_own_drafts=False)


def test_its_sampled_runs_are_judged_by_frequencies():
    assert not failed(LookaheadWorker, SEEDS, examples=1)
    assert failed(Cold, SEEDS, examples=2)
