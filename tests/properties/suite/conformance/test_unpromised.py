"""What is handed over that the contract refuses, and what of an answer is outside its bounds."""

from collections import Counter

import numpy as np
import pytest

from specsim.conformance.backend import load
from specsim.conformance.isolation.jobs import Done, Fate, Job, Lost, Skipped
from specsim.operations import RECORDS
from specsim.properties.operations.generated.rejections import reason_of
from specsim.properties.strategies.arrays import seeded
from specsim.properties.strategies.malformed.unpromised import unpromised_calls
from specsim.properties.suite.catalogue import property_named
from specsim.properties.suite.conformance.report import Behaviour
from specsim.properties.suite.conformance.run import RUN_UNPROMISED, Run
from specsim.properties.suite.conformance.selection import Described
from specsim.properties.suite.conformance.unpromised import behaviour_of, stays_inside
from specsim.properties.suite.conformance.wanted import Prepared, Wanted
from specsim.properties.suite.hunt.cases import draw_cases

REFERENCE = load("specsim.reference")
SAMPLERS = (
    "chain_speculative_sampling",
    "tree_speculative_sampling_target_only",
    "verify_tree_sampled_from_logits",
    "chain_speculative_sampling_from_logits",
)
TREE = "verify_tree_greedy"


def refused(operation):
    """Return how often each change makes a call that the contract refuses, of eight cases."""
    found = Counter()
    for number, case in enumerate(draw_cases(property_named(f"agreement.{operation}"), 1, 9)[1:]):
        for one in unpromised_calls(operation, case, seeded(number + 1)):
            found[one.words.partition(" in ")[0]] += reason_of(operation, one.arguments) is not None
    return found


@pytest.mark.parametrize("operation", SAMPLERS)
def test_samplers_get_every_kind(operation):
    found = refused(operation)
    assert {"NaN", "an id too large", "the largest id", "a negative id"} <= {name for name in found if found[name]}
    assert found["NaN"] >= 4
    assert found["a row without mass"] >= 2


def test_lengths_of_0_are_refused_where_drafts_need_one():
    assert refused("rotate_prefill_input_ids")["lengths of 0"] >= 4


@pytest.mark.parametrize("operation", [TREE, *SAMPLERS])
def test_the_reference_raises_and_stays_inside(operation):
    got = behaviour_of(REFERENCE, operation, seed=1, max_examples=20)
    assert got.calls == got.raised > 10
    assert got.strayed == ""


def test_most_operations_get_some():
    without = [name for name in RECORDS if not behaviour_of(REFERENCE, name, seed=1, max_examples=40).calls]
    assert set(without) <= {
        "reconstruct_indices_from_tree_mask",
        "argmax_target_predict",
        "generate_coins",
        "align_evict_mask_to_page_size",
        "create_num_accepted_drafts_filter",
        "hash_target_logits",
        "text_target_logits",
        "hash_sampling_logits",
        "hash_draft_probabilities",
        "text_draft_probabilities",
    }


def tree_call():
    cases = draw_cases(property_named(f"agreement.{TREE}"), 1, 9)
    return next(case for case in cases if case["candidates"].shape[1] > 1 and len(case["candidates"]) > 1)


@pytest.mark.parametrize(
    ("name", "number", "is_inside"),
    [("accept_index", 10**6, False), ("num_accepted_drafts", -1, False), ("predict", 10**6, True)],
)
def test_nodes_and_counts_are_bounded_and_tokens_where_there_is_a_vocabulary(name, number, is_inside):
    case = tree_call()

    def planted(**arguments):
        outputs = dict(zip(("predict", "accept_index", "num_accepted_drafts"), right(**arguments), strict=True))
        outputs[name] = np.full_like(outputs[name], number)
        return tuple(outputs.values())

    right = REFERENCE.functions[TREE]
    backend = REFERENCE.with_function(TREE, planted, "planted")
    if is_inside:
        assert stays_inside(TREE, backend, case, case)
        return
    with pytest.raises(AssertionError, match=f"{name}\\[0.* = {number}, but should be 0 to "):
        stays_inside(TREE, backend, case, case)


def test_numbers_of_nodes_that_the_caller_gives_may_come_back():
    case = tree_call()
    numbers = case["retrieve_index"] + 1000

    def planted(**arguments):
        return right(**arguments)[0], numbers[:, :1].repeat(case["num_steps"] + 1, 1).astype(np.int32), zeros

    right, zeros = REFERENCE.functions[TREE], np.zeros(len(numbers), dtype=np.int32)
    backend = REFERENCE.with_function(TREE, lambda **given: planted(**{**given, **case}), "planted")
    assert stays_inside(TREE, backend, case, {**case, "retrieve_index": numbers})


@pytest.mark.parametrize(("before", "after"), [(1, 0), (0, 1)])
def test_memory_before_and_after_an_argument_is_watched(before, after):
    case = tree_call()

    def planted(**arguments):
        tokens = arguments["candidates"]
        block = np.lib.stride_tricks.as_strided(
            tokens.base[before_start(tokens) - before :], (tokens.size + before + after,), (tokens.itemsize,)
        )
        block[0 if before else -1] = 3
        return right(**arguments)

    def before_start(tokens):
        return (tokens.ctypes.data - tokens.base.ctypes.data) // tokens.itemsize

    right = REFERENCE.functions[TREE]
    backend = REFERENCE.with_function(TREE, planted, "planted")
    place = -1 if before else case["candidates"].size
    with pytest.raises(AssertionError, match=f"the memory around candidates = 3 at {place}, but should be "):
        stays_inside(TREE, backend, case, case)


def run_of(tmp_path, **wanted):
    described = Described("some.module", frozenset([TREE]), False, False)
    prepared = Prepared(described, "no device", False, False)
    return Run(
        Wanted(1, 10, operations=(TREE,), **wanted), prepared, lambda name: prepared, tmp_path, lambda failure: None
    )


def test_such_jobs_are_the_last_and_no_loss_of_theirs_keeps_others_from_running(tmp_path):
    run = run_of(tmp_path)
    jobs = list(run.jobs())
    assert [job.function == RUN_UNPROMISED for job in jobs] == [False] * (len(jobs) - 1) + [True]
    for _ in range(3):
        assert run.take(Lost(jobs[-1], Fate.CRASHED, "killed\nby SIGSEGV", example=5)) is None
    assert run.dispatch(jobs[0]) is jobs[0]
    assert run.unpromised == {TREE: Behaviour(5, strayed="crashed: killed by SIGSEGV")}


@pytest.mark.parametrize("is_strict", [False, True])
def test_what_was_not_tried_decides_a_strict_run_only(tmp_path, is_strict):
    run = run_of(tmp_path, is_strict=is_strict)
    *jobs, last = run.jobs()
    run.take(Skipped(last, "the budget is spent"))
    because = run.report().inconclusive_because
    assert (f"no input that the contract refuses was tried with {TREE}" in because) == is_strict
    run.take(Done(last, Behaviour(3, 2)))
    assert isinstance(jobs[0], Job)


def test_no_such_job_where_refusing_is_promised_or_properties_are_named(tmp_path):
    assert not any(job.function == RUN_UNPROMISED for job in run_of(tmp_path, properties=(f"agreement.{TREE}",)).jobs())
