"""Histories come to what their cell is there for, and count the same in any process."""

import warnings
from collections import Counter
from dataclasses import replace

import pytest

from specsim.cli.isolation import engine_workers
from specsim.conformance.backend import load
from specsim.conformance.isolation.jobs import Limits
from specsim.properties.matrix.factors import cell_named
from specsim.properties.matrix.history import LEAST, Tried, least_of, shortfalls, try_history
from specsim.properties.matrix.plan import Plan
from specsim.properties.matrix.run import CellResult, MatrixRun, Result
from specsim.properties.matrix.subjects import AS_IT_IS, EAGER, GRAPHS, load_subject
from specsim.properties.matrix.verdict import (
    complaints,
    complaints_of,
    shortfalls_of,
    verdict_of_cell,
    why_inconclusive,
)
from specsim.properties.soak.history import Failure
from specsim.properties.soak.subject import Subject


def test_a_history_has_to_come_to_what_its_factors_are_there_for():
    cell = cell_named("v2-page1-topk1-mha-overlap-chunks-cache")
    assert LEAST == {"requests": 3, "iterations": 8, "partial_rejections": 1, "finishes": 1}
    assert least_of(cell) == {**LEAST, "chunks": 1, "prefix_hits": 1, "overlaps": 1}
    counts = {**LEAST, "iterations": 7, "chunks": 1, "prefix_hits": 0, "overlaps": 1}
    assert shortfalls(counts, cell) == [
        "iterations = 7, but should be at least 8",
        "prefix_hits = 0, but should be at least 1",
    ]


def test_a_cell_whose_histories_come_to_too_little_is_inconclusive():
    one = CellResult(cell_named("v1-page1-topk1-mha"), AS_IT_IS)
    one.add(0, Tried(Counter(LEAST)).as_plain())
    assert (complaints_of(one), shortfalls_of(one), verdict_of_cell(one)) == ([], [], "conforms")
    one.add(1, Tried(Counter({**LEAST, "finishes": 0})).as_plain())
    line = "v1-page1-topk1-mha, as it is, history 1: finishes = 0, but should be at least 1"
    assert (complaints_of(one), shortfalls_of(one), verdict_of_cell(one)) == ([], [line], "inconclusive")
    one.add(2, Tried(Counter(LEAST), num_leaked=2).as_plain())
    assert complaints_of(one) == ["v1-page1-topk1-mha, as it is: 2 slots leaked"]
    assert verdict_of_cell(one) == "fails"


def test_what_histories_missed_are_reasons_of_the_whole_run():
    cell = cell_named("v1-page1-topk1-mha")
    one = CellResult(cell, AS_IT_IS)
    for number in range(5):
        one.add(number, Tried(Counter({**LEAST, "finishes": 0})).as_plain())
    result = Result(7, [one])
    missed = "finishes = 0, but should be at least 1"
    first = [f"v1-page1-topk1-mha, as it is, history {number}: {missed}" for number in range(3)]
    because = [*first, "v1-page1-topk1-mha, as it is: 2 histories more"]
    for is_part in (False, True):
        assert why_inconclusive(Plan((cell,), (cell,), {}, ()), result, is_part) == because
    assert (complaints(result), result.num_failures) == ([], 0)


def test_the_first_failures_of_a_cell_are_reported():
    one = CellResult(cell_named("v1-page1-topk1-mha"), AS_IT_IS)
    for number in range(5):
        one.add(number, Tried(failure=Failure(None, (), "it differs", "AssertionError")).as_plain())
    plain = [f"v1-page1-topk1-mha, as it is, history {number}: it differs" for number in range(3)]
    assert complaints_of(one) == [*plain, "v1-page1-topk1-mha, as it is: 2 histories more"]


def test_a_failure_that_stops_in_the_middle_is_no_leak():
    one = CellResult(cell_named("v1-page1-topk1-mha"), AS_IT_IS)
    one.add(4, Tried(num_leaked=5, failure=Failure(None, (), "the output differs", "AssertionError")).as_plain())
    assert complaints_of(one) == ["v1-page1-topk1-mha, as it is, history 4: the output differs"]


def test_a_cell_that_asks_for_a_draft_over_recurrent_state_is_not_warned_of_it():
    cell = cell_named("frozen_kv_mtp-v1-page1-topk1-hybrid")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert try_history(Subject(load("specsim.reference")), cell, 1, 0).failure is None


@pytest.mark.slow
def test_a_run_counts_the_same_in_any_number_of_processes():
    cells = [cell_named("v1-page4-topk1-mha-cache"), cell_named("v2-page4-topk4-mha-overlap")]
    results = []
    for jobs in (1, 2):
        with engine_workers("specsim.reference", jobs, Limits()) as supervisor:
            run = MatrixRun(supervisor, "specsim.reference", [AS_IT_IS], 3)
            results.append(replace(run.run(cells, range(2)), seconds=0, busy_seconds=0))
    alone, together = results
    assert alone == together
    assert (alone.num_histories, alone.num_failures) == (4, 0)
    assert all(not shortfalls(one.counts, one.cell) for one in alone.cells)


def test_workers_run_with_and_without_graphs():
    for mode, use_graphs in ((EAGER, False), (GRAPHS, True)):
        backend = load_subject("specsim.gpu", mode).backend
        assert {"eagle_v1", "eagle_v2", "standalone_v1"} <= set(backend.workers)
        assert all(build.keywords["use_graphs"] is use_graphs for build in backend.workers.values())
    assert load_subject("specsim.reference", EAGER).backend.workers == {}
