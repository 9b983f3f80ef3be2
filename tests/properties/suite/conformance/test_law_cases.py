"""Laws that make many calls leave a case of one request, which replays with the law."""

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from specsim.conformance.backend import load
from specsim.conformance.cases import Case, read_case, write_case
from specsim.conformance.drawing import draw_requests
from specsim.conformance.isolation.jobs import Fate
from specsim.conformance.stored import Provenance
from specsim.conformance.stored_laws import StoredLaw
from specsim.properties.strategies.sampling_scenes import ChainScene, TreeScene
from specsim.properties.suite.catalogue import property_named
from specsim.properties.suite.conformance.cells import cell_of
from specsim.properties.suite.conformance.crashes import Search, smallest_crash
from specsim.properties.suite.conformance.law_cases import given_by, given_to
from specsim.properties.suite.conformance.plain_cases import NotPlain, form_of, plain, restored
from specsim.properties.suite.conformance.running import failure_of, run_property
from specsim.properties.suite.conformance.saving import case_of
from specsim.properties.suite.conformance.units import UnitLimits
from specsim.rejection import Reason, SpecRejection
from specsim.topology import Topology
from tests.properties.laws.planted_samplers import chain_sampler, tree_sampler

ORACLE = load("specsim.reference")
TREE, CHAIN = "tree_speculative_sampling_target_only", "chain_speculative_sampling"
BLOCK = "chain_block_verification"
WRITES_AND_ABORTS = """
import os

def fill_bonus_tokens_out(accept_tokens, num_accepted_tokens, out):
    os.abort()
"""
ABORTS_ON_TWO = """
import os
from specsim import reference

def fill_bonus_tokens(accept_tokens, num_accepted_tokens):
    if len(accept_tokens) > 1:
        os.abort()
    return reference.fill_bonus_tokens(accept_tokens, num_accepted_tokens)
"""
HALF, ALL, NONE = Fraction(1, 2), Fraction(1), Fraction(0)
FORK = TreeScene(Topology(((1, 2), (), ())), (0, 0, 1), ((NONE, HALF, HALF),) * 3, 1)


def case_kept(name: str, operation: str, sampler: Any, given: Any, folder: Any) -> Case:
    """Break a law, and return its case as it is read again."""
    one, backend = property_named(name), ORACLE.with_function(operation, sampler, "planted")
    with pytest.raises(AssertionError) as broken:
        one.law(backend, given)
    failure = failure_of(one, backend, broken.value, given)
    kept, difference = case_of(failure, backend, Provenance("planted", 0))
    assert difference and kept.operation == operation
    again = read_case(write_case(kept, folder))
    assert again.law == kept.law and again.id == kept.id and given_to(one, again.law) == given
    with pytest.raises(AssertionError, match="but should be"):
        one.law(backend, given_to(one, again.law))
    one.law(ORACLE, given_to(one, again.law))
    return again


def test_a_law_over_all_coins_is_reported_by_one_request_and_its_cell(tmp_path):
    name = "sampling_law.tree_emits_the_targets_law"
    case = case_kept(name, TREE, tree_sampler("SYN6"), FORK, tmp_path)
    assert case.arguments["candidates"].tolist() == [[0, 0, 1]]
    assert case.law is not None
    assert case.law.coins == (("1/2", "1"), ("0", "1"), ("0", "1"), ("0", "1/2"))
    assert (case.law.expected, case.law.observed) == ((2,), (1,))
    words = "coins in [1/2, 1) x [0, 1) x [0, 1) x [0, 1/2): output [1], but should be [2]"
    assert case.law.in_words() == words
    assert "coin" in draw_requests(case)[0]


def test_a_file_that_says_anything_else_of_a_law_is_refused(tmp_path):
    case_kept("sampling_law.tree_emits_the_targets_law", TREE, tree_sampler("SYN6"), FORK, tmp_path)
    (path,) = tmp_path.iterdir()
    document = json.loads(path.read_text())
    law = document["law"]
    for changed in (
        {**law, "given": {**law["given"], "num_steps": 2}},
        {**law, "coins": [["0", "1 "]]},
        {**law, "coins": [["0", "1", "1"]]},
        {**law, "observed": ["1"]},
        {**law, "more": 1},
        {"coins": []},
        None,
    ):
        path.write_text(json.dumps({**document, "law": changed}))
        with pytest.raises(SpecRejection) as refused:
            read_case(path)
        assert refused.value.reason is Reason.BAD_CASE_FILE


def test_a_request_of_a_ragged_batch_is_cut_out(tmp_path):
    rows = {(): (HALF, HALF), (0,): (ALL, NONE), (1,): (HALF, HALF)}
    none, one = ChainScene(0, {(): (ALL, NONE)}, {}), ChainScene(1, rows, {(): (NONE, ALL)})
    name = "sampling_chain_law.every_chain_of_a_batch_emits_its_own_law"
    case = case_kept(name, CHAIN, chain_sampler("V06"), [none, one], tmp_path)
    assert case.arguments["draft_tokens"].tolist() == [1]
    assert case.law is not None and case.law.coins[0] == ("1/2", "1")
    assert (case.law.expected[0], case.law.observed[0]) == (0, 1)


def test_a_block_of_a_ragged_batch_is_cut_out_with_its_cell(tmp_path):
    rows = {(): (HALF, HALF), (0,): (ALL, NONE), (1,): (HALF, HALF)}
    none, one = ChainScene(0, {(): (ALL, NONE)}, {}), ChainScene(1, rows, {(): (NONE, ALL)})
    name = "sampling_block_law.every_block_of_a_batch_emits_its_own_law"
    case = case_kept(name, BLOCK, chain_sampler("V06"), [none, one], tmp_path)
    assert case.arguments["draft_tokens"].tolist() == [1]
    assert case.law is not None and case.law.coins[0] == ("1/2", "1")
    assert (case.law.expected[0], case.law.observed[0]) == (0, 1)


def test_a_call_whose_rows_are_no_numbers_where_they_are_not_read_has_no_cell():
    rows = np.array([[0.5, 0.5], [1, 0], [np.nan, np.nan]], dtype=np.float32)
    call = {
        "draft_tokens": np.array([0, 1]),
        "cu_num_drafts": np.array([0, 2], dtype=np.int32),
        "uniform_samples": np.array([0.5, 0.5], dtype=np.float32),
        "uniform_samples_for_final_sampling": np.array([0.5], dtype=np.float32),
        "draft_probs": np.array([[0.75, 0.25], [0.5, 0.5]], dtype=np.float32),
        "target_probs": rows,
        "max_num_drafts": 2,
    }
    assert cell_of(CHAIN, call) == cell_of(BLOCK, call) == ()


def test_a_law_of_a_suite_run_has_its_case(tmp_path):
    backend = ORACLE.with_function(TREE, tree_sampler("V02"), "planted")
    _, failure = run_property(property_named("sampling_law.impossible_tokens_are_never_emitted"), backend, 0, 20)
    assert failure is not None and failure.law is not None
    assert failure.operation == TREE and failure.case["candidates"].shape[0] == 1


def test_plain_values_come_back_as_what_a_law_states():
    given = (FORK, (HALF, ALL), np.array([[0.5, 0.25]], dtype=np.float32))
    form = form_of(property_named("sampling_law.lower_thresholds_never_shorten_a_chain").law)
    scene, thresholds, coins = restored(plain(given), form)
    assert (scene, thresholds, coins.dtype, coins.tolist()) == (FORK, (HALF, ALL), np.float32, [[0.5, 0.25]])


@pytest.mark.parametrize(
    ("value", "form"),
    [
        ("1/0", Fraction),
        ("9" * 101, Fraction),
        (0.5, int),
        (True, int),
        ("x", float),
        ([1, 2], tuple[int, int, int]),
        ([1, "2"], list[int]),
        ({"children": [[1], [0]]}, Topology),
        ({"children": [[1], []], "more": 1}, Topology),
        ({"dtype": "object", "shape": [1], "values": [1]}, np.ndarray[Any, Any]),
        ({"dtype": "int32", "shape": [2], "values": [1]}, np.ndarray[Any, Any]),
        ([], set[int]),
    ],
)
def test_what_does_not_fit_is_refused(value, form):
    with pytest.raises(NotPlain):
        restored(value, form)


def test_a_replay_is_given_no_more_and_no_less_than_the_file_says():
    """NumPy would round an entry, and find a size by itself."""
    one = property_named("sampling_law.lower_thresholds_never_shorten_a_chain")
    scene, thresholds, coins = plain((FORK, (HALF, ALL), np.array([[1, 0]], dtype=np.int32)))
    assert given_to(one, StoredLaw([scene, thresholds, coins]))[2].tolist() == [[1, 0]]
    for changed in ({"values": [0.5, 0]}, {"shape": [-1]}, {"values": [1, "0"]}):
        with pytest.raises(NotPlain, match="is of the type that the law states"):
            given_to(one, StoredLaw([scene, thresholds, {**coins, **changed}]))


def test_outputs_of_other_shapes_have_no_cell():
    def shapeless(**arguments):
        return tuple(output.reshape(-1)[:0] for output in ORACLE.functions[TREE](**arguments))

    backend = ORACLE.with_function(TREE, shapeless, "shapeless")
    one = property_named("sampling_law.tree_emits_the_targets_law")
    failure = failure_of(one, backend, AssertionError("wrong"), FORK)
    assert (failure.message, failure.operation) == ("wrong", TREE)
    assert failure.law is not None and failure.law.coins == ()


def test_a_crash_of_a_law_with_several_calls_keeps_what_the_law_was_given(tmp_path, monkeypatch):
    (tmp_path / "writes_and_aborts.py").write_text(WRITES_AND_ABORTS)
    monkeypatch.syspath_prepend(tmp_path)
    name = "given.fill_bonus_tokens"
    search = Search(
        0, 1, 1, Fate.CRASHED, call_seconds=30.0, seconds=0.0, memory=None, is_interpreted=False, loads_apart=False
    )
    plain = smallest_crash("writes_and_aborts", name, search, UnitLimits((1,), str(tmp_path), 0), load)
    case = read_case(Path(plain["case"]))
    assert plain["message"] == "fill_bonus_tokens CRASHED: killed by SIGABRT"
    calls = given_to(property_named(name), case.law)
    assert [call.keys() for call in calls] == [case.arguments.keys()] * 2


@pytest.mark.parametrize("loads_apart", [False, True])
def test_the_smallest_structure_that_crashes_is_found_without_time_to_shrink(tmp_path, monkeypatch, loads_apart):
    name = f"aborts_on_two_{loads_apart}".lower()
    (tmp_path / f"{name}.py").write_text(ABORTS_ON_TWO)
    monkeypatch.syspath_prepend(tmp_path)
    never = 1000
    search = Search(
        0,
        1,
        never,
        Fate.CRASHED,
        call_seconds=60.0,
        seconds=0.0,
        memory=None,
        is_interpreted=False,
        loads_apart=loads_apart,
    )
    plain = smallest_crash(name, "agreement.fill_bonus_tokens", search, UnitLimits((1,), str(tmp_path), 0), load)
    case = read_case(Path(plain["case"]))
    num_requests, width = case.arguments["accept_tokens"].shape
    assert num_requests == 2 and width <= 3, "one request and two nodes come first, and crash nothing"


def test_a_call_alone_is_handed_to_a_law_of_several_calls():
    call = {"accept_tokens": np.array([[5, 6]], dtype=np.int32), "num_accepted_tokens": np.array([2], dtype=np.int32)}
    assert given_by(property_named("agreement.fill_bonus_tokens"), call) == call
    assert given_by(property_named("given.fill_bonus_tokens"), call) == (call, call)
    assert given_by(property_named("anything.fill_bonus_tokens"), call) is None


def test_what_is_not_plain_is_not_kept():
    with pytest.raises(NotPlain, match="function is not kept"):
        plain([test_what_is_not_plain_is_not_kept])
