"""Laws of whole runs play an implementation's own worker, of either kind, and need nothing else of it."""

from dataclasses import replace

import pytest

from specsim.algorithms import WORKERS
from specsim.config import SpecConfig
from specsim.conformance.backend import load
from specsim.properties.runs.play import own_worker
from specsim.properties.runs.scenario import Arrival, scenario_of
from specsim.properties.suite.catalogue import all_properties, group_of, property_named
from specsim.properties.suite.conformance.running import run_property
from specsim.properties.suite.conformance.selection import is_runnable
from specsim.reference.worker.v1 import ReferenceWorkerV1
from specsim.reference.worker.v2 import ReferenceWorker
from specsim.rejection import Reason, SpecRejection, WorkerRefusal
from specsim.simulation.models.hash_model import HashModel

REFERENCE = load("specsim.reference")
OF_WORKERS = {one.name: one for one in all_properties() if one.runs_worker}
ON_OPERATIONS = {
    "acceptance_engine.blocks_emit_the_autoregressive_law",
    "acceptance_engine.blocks_emit_the_law_of_a_grammar",
    "acceptance_engine.no_form_of_a_run_changes_what_a_seed_draws",
    "budget_engine.budgets_keep_the_autoregressive_law",
    "budget_engine.rows_after_the_cut_decide_nothing",
    "drawn_engine.drafts_change_no_draw",
    "proposals_engine.drawn_blocks_emit_the_autoregressive_law",
    "proposals_engine.drawn_drafts_emit_the_autoregressive_law",
    "reads.kept_reads_are_full_reads",
    "sampled_engine.engine_emits_the_autoregressive_law",
    "sampled_engine.engine_emits_the_law_of_its_grammar",
    "ruled_engine.engine_emits_the_law_of_its_rules",
    "loaded_engine.a_sampled_text_goes_on_on_its_noise",
    "padded_engine.an_idle_batch_runs_every_forward_for_nobody",
    "padded_engine.an_idle_rank_runs_each_forward",
    "padded_engine.padded_drafts_of_each_kind_are_plain_runs",
    "padded_engine.padded_runs_are_plain_runs",
    "padded_engine.ranks_between_layers_wait_for_others",
    "padded_engine.ranks_in_step_are_plain_runs",
    "one_voice_engine.last_bits_of_ranks_change_no_output",
    "one_voice_engine.ranks_of_one_batch_commit_the_same",
}
"""Whole runs on a model that pads, or that set the coins of one operation, look into the pools in the middle of a
draft, ask what the reference's own worker keeps, or play workers only where these have a parameter for a rule."""

OF_ONE_REQUEST = scenario_of(SpecConfig(1, 1, 2), HashModel(32), [Arrival((1,), 9)], 1, 0)


class AskedError(Exception):
    """The worker was asked for."""


def ask(config, model, sizes):
    raise AskedError


@pytest.mark.parametrize("name", OF_WORKERS)
def test_a_whole_run_is_played_on_the_worker_of_its_kind(name):
    others = dict.fromkeys(WORKERS, ask)
    alone = replace(REFERENCE, functions={}, worker=ask, worker_v1=ask, other_workers=others)
    assert is_runnable(OF_WORKERS[name], alone)
    asking = replace(REFERENCE, worker=ask, worker_v1=ask, other_workers=others)
    report, failure = run_property(OF_WORKERS[name], asking, 0, 1, is_shrunk=False)
    assert report.failed
    assert "AskedError" in failure.error


def test_whole_runs_that_play_no_worker_are_few():
    whole = {one.name for one in all_properties() if runs_an_engine(group_of(one))}
    assert whole - OF_WORKERS.keys() == ON_OPERATIONS


def runs_an_engine(group):
    return group in ("engine", "worker", "worker_v1", "worker_pages", "reads") or group.endswith("_engine")


@pytest.mark.parametrize(("is_v1", "loop"), [(False, ReferenceWorker), (True, ReferenceWorkerV1)], ids=["V2", "V1"])
def test_a_worker_of_one_kind_leaves_the_other_to_the_loop(is_v1, loop):
    one_kind = replace(REFERENCE, worker=ask) if is_v1 else replace(REFERENCE, worker_v1=ask)
    assert type(own_worker(one_kind, OF_ONE_REQUEST.having(is_v1=is_v1))) is loop


def test_a_worker_does_not_call_a_function_that_takes_the_place_of_its_own():
    faulty = replace(REFERENCE, worker=ask, worker_v1=ask).with_function("fast_topk", ask, "faulty")
    assert not faulty.has_worker


def test_the_loop_runs_what_a_worker_refuses_where_there_are_functions():
    def refuse(config, model, sizes):
        raise SpecRejection(Reason.BAD_CONFIGURATION, what="page_size", got=2, expected="1", because="it has no pages")

    of_pages = OF_ONE_REQUEST.having(page_size=2)
    refusing = replace(REFERENCE, worker=refuse)
    assert type(own_worker(refusing, of_pages)) is ReferenceWorker
    assert type(own_worker(refusing, OF_ONE_REQUEST)) is ReferenceWorker
    with pytest.raises(WorkerRefusal):
        own_worker(replace(refusing, functions={}), of_pages)


def test_an_implementation_of_a_worker_alone_is_checked():
    engine = property_named("engine.output_equals_autoregressive_decoding")
    alone = replace(REFERENCE, functions={}, worker=ReferenceWorker)
    report, failure = run_property(engine, alone, 0, 2)
    assert (report.examples, report.missing, failure) == (2, False, None)
    assert not is_runnable(engine, replace(alone, worker=None))
