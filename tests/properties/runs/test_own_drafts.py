"""Whole runs of a worker with a drafting policy of its own are judged by their outputs alone."""

from collections import Counter
from dataclasses import replace
from random import Random

import pytest

from specsim.conformance.backend import load
from specsim.conformance.direct import Direct
from specsim.conformance.limits import Limits, limits_of
from specsim.properties.matrix.factors import cell_named
from specsim.properties.matrix.history import try_history
from specsim.properties.matrix.laws import try_law
from specsim.properties.soak.history import play
from specsim.properties.soak.subject import Subject
from specsim.properties.suite.catalogue import property_named
from specsim.properties.suite.conformance.running import run_property
from tests.properties.runs.lookahead import LookaheadWorker

REFERENCE = load("specsim.reference")
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


class KeptSlot(LookaheadWorker):
    """Leaves rejected nodes in the slots of the accepted path."""

    def __init__(self, config, model, sizes):
        def leave(**arguments):
            pass

        super().__init__(config, model, sizes, Direct(REFERENCE.with_function("move_kv_cache", leave, "leaving")))


def own(worker, has_own_drafts=True):
    limits = Limits(has_own_drafts=has_own_drafts)
    kept = {"functions": {}, "worker": worker, "name": "lookahead", "limits": limits, "uses": Counter()}
    return replace(REFERENCE, **kept)


def failed(worker, name, has_own_drafts=True, examples=3):
    return run_property(property_named(name), own(worker, has_own_drafts), 1, examples, is_shrunk=False)[0].failed


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


KV, ENDS = "worker.committed_kv_is_that_of_a_fresh_prefill", "sizes.rows_are_used_again_after_every_end"
DEPTHS = "sizes.paths_of_every_depth_are_accepted"


@pytest.mark.parametrize("name", [OUTPUT, KV])
def test_a_rejected_slot_that_is_kept_is_found_by_a_check(name):
    assert failed(KeptSlot, name, examples=8)
    assert not failed(LookaheadWorker, name, examples=8)


def test_its_requests_end_in_iterations_of_their_own():
    assert not failed(LookaheadWorker, ENDS, examples=1)
    assert failed(WrongToken, ENDS, examples=1)
    assert property_named(DEPTHS).must_reach(own(LookaheadWorker)) == ()
    assert property_named(DEPTHS).must_reach(own(LookaheadWorker, has_own_drafts=False))


@pytest.mark.parametrize(("worker", "is_right"), [(LookaheadWorker, True), (WrongToken, False), (KeptSlot, False)])
def test_soak_and_matrix_compare_its_outputs_alone(worker, is_right):
    subject = Subject(own(worker))
    played = [play(subject, Random(f"1 {number}")) for number in range(6)]
    assert all(one.failure is None for one in played) == is_right, played
    tried = try_history(subject, cell_named("v2-page4-topk4-mha"), 1, 0)
    assert (tried.failure is None) == is_right, tried.failure
    compared = try_history(Subject(own(worker, has_own_drafts=False)), cell_named("v2-page4-topk4-mha"), 1, 0)
    assert compared.failure is not None


def test_the_law_of_a_cell_is_judged_by_frequencies():
    laws = {
        one: try_law(Subject(own(one)), cell_named("v2-page4-topk1-mha"), "as it is", 1)
        for one in (LookaheadWorker, Cold)
    }
    assert (laws[LookaheadWorker].error, laws[LookaheadWorker].num_seeded) == (None, 27)
    assert laws[Cold].error.startswith("chi-square of the outputs of ")
