"""The law of sampled decoding is stated of every allowed combination, and finds what no greedy output shows."""

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest

from specsim.algorithms import DRAFTERS
from specsim.conformance.calls import CallsByName
from specsim.operations import RECORDS
from specsim.operations.derived.signature import name_arguments
from specsim.properties.matrix.factors import all_cells, cell_named
from specsim.properties.matrix.history import shortfalls, try_history
from specsim.properties.matrix.laws import (
    VOCABULARY,
    _runs_of_the_reference,
    combination_of,
    draw_law,
    law_cells,
    try_law,
)
from specsim.properties.matrix.run import Result
from specsim.properties.matrix.subjects import AS_IT_IS
from specsim.properties.matrix.verdict import complaints
from specsim.properties.runs.sampling.sampled_runs import NEITHER, NUM_SEEDS, coins_of, seeds_of
from specsim.properties.soak.subject import REFERENCE, Subject
from specsim.reference.worker.v1 import ReferenceWorkerV1
from specsim.reference.worker.v2 import ReferenceWorker

VERIFY, COINS = "verify_tree_sampled_from_logits", "generate_coins"
V1, V2, PAGES = "v1-page1-topk1-mha", "v2-page1-topk4-mha", "v1-page4-topk1-mha"


@dataclass
class Faulty(CallsByName):
    """The oracle, one of whose arguments somebody else has set."""

    name: str
    changed: Any
    seen: list = field(default_factory=list)

    def call(self, name, /, *positional, **named):
        """Call an operation with what it should have had, or not."""
        if name == self.name:
            arguments = name_arguments(RECORDS[name], positional, named)
            return REFERENCE.call(name, **{**arguments, **self.changed(arguments, self.seen)})
        return REFERENCE.call(name, *positional, **named)

    def host(self, name):
        """Return a function of the host."""
        return REFERENCE.host(name)


def row_of_the_parent(arguments, seen):
    """Choose from the logits of the node before: what is drawn last has the wrong row, unless it is chosen greedily."""
    num_nodes, logits = arguments["candidates"].shape[1], arguments["logits"]
    is_sampled = np.repeat(arguments["temperature"] > 0, num_nodes)[:, None]
    return {"logits": np.where(is_sampled, np.roll(logits, 1, axis=0), logits)}


def coins_of_the_first_verify(arguments, seen):
    """Draw the coins of every verify of a batch at the length of the first one."""
    if arguments["num_draft_tokens"] == 1:
        return {}
    seen.append(arguments["seq_lens"])
    return {"seq_lens": np.resize(seen[0], arguments["seq_lens"].shape).astype(arguments["seq_lens"].dtype)}


def coins_of_the_neighbour(arguments, seen):
    """Take the seed of the request before."""
    return {"seeds": np.roll(arguments["seeds"], 1)}


def certain_rows(arguments, seen):
    """Take the most probable token for the only one of each row."""
    rows = arguments["target_probs"]
    return {"target_probs": (np.arange(rows.shape[1]) == rows.argmax(axis=1)[:, None]).astype(rows.dtype)}


def threshold_too_low(arguments, seen):
    """Accept each draft that is as probable as this, whatever its coin says."""
    return {"threshold_single": np.full_like(arguments["threshold_single"], 0.25)}


def masses_too_large(arguments, seen):
    """Count what drafts have of the target's probability twice."""
    return {"threshold_acc": np.full_like(arguments["threshold_acc"], 0.5)}


def subject_of(name, changed, is_faulty=lambda sizes: True, kinds=("v1", "v2")):
    """Return workers of a fault, which some sizes of pools bring out."""

    def maker(loop, kind):
        def build(config, model, sizes, acceptance="token"):
            if kind in kinds and is_faulty(sizes):
                return loop(config, model, sizes, operations=Faulty(name, changed), acceptance=acceptance)
            return loop(config, model, sizes, acceptance=acceptance)

        return build

    return Subject(replace(REFERENCE, worker=maker(ReferenceWorker, "v2"), worker_v1=maker(ReferenceWorkerV1, "v1")))


@pytest.mark.parametrize(
    ("name", "changed", "cell"),
    [
        (VERIFY, row_of_the_parent, V1),
        (VERIFY, row_of_the_parent, V2),
        (COINS, coins_of_the_first_verify, V1),
        (COINS, coins_of_the_neighbour, V2),
        (VERIFY, threshold_too_low, V2),
        (VERIFY, masses_too_large, V1),
    ],
)
def test_a_worker_whose_law_is_wrong_is_found_by_its_law_alone(name, changed, cell):
    subject = subject_of(name, changed)
    got = try_law(subject, cell_named(cell), AS_IT_IS, 0)
    assert got.error is not None and got.error.startswith("output of seed"), got
    assert (got.num_runs, got.num_seeded) == (27, 0)


@pytest.mark.parametrize(
    ("name", "changed", "cell"),
    [
        (COINS, coins_of_the_neighbour, f"{V1}-block"),
        ("chain_block_verification", certain_rows, f"{V1}-block"),
        ("sample_target_predict", coins_of_the_neighbour, f"{V2}-target-draw"),
    ],
)
def test_a_worker_whose_rule_is_wrong_is_found_by_law_and_history(name, changed, cell):
    subject = subject_of(name, changed)
    assert cell_named(cell).name == cell
    assert try_law(Subject(REFERENCE), cell_named(cell), AS_IT_IS, 0).error is None
    assert try_law(subject, cell_named(cell), AS_IT_IS, 0).error.startswith("output of seed")
    assert any(try_history(subject, cell_named(cell), 0, number).failure is not None for number in range(3))


@pytest.mark.parametrize("cell", [f"{V1}-block", f"{V2}-target-draw"])
def test_histories_of_other_rules_have_sampled_requests(cell):
    tried = try_history(Subject(REFERENCE), cell_named(cell), 0, 0)
    assert tried.failure is None and tried.counts["sampled"] > 0 and not shortfalls(tried.counts, cell_named(cell))


def test_no_history_of_greedy_requests_finds_such_a_fault():
    subject = subject_of(VERIFY, row_of_the_parent)
    assert try_history(subject, cell_named(V1), 0, 0).failure is None


@pytest.mark.parametrize(
    ("fault", "found_in", "not_found_in"),
    [
        ({"is_faulty": lambda sizes: sizes.page_size > 1}, PAGES, V1),
        ({"kinds": ("v2",)}, V2, V1),
    ],
    ids=["pages", "V2"],
)
def test_a_law_that_is_wrong_in_some_cells_is_found_there(fault, found_in, not_found_in):
    subject = subject_of(VERIFY, row_of_the_parent, **fault)
    assert try_law(subject, cell_named(found_in), AS_IT_IS, 0).error is not None
    assert try_law(subject, cell_named(not_found_in), AS_IT_IS, 0).error is None


def test_an_operation_whose_law_is_wrong_is_found_by_its_chances():
    def biased(**arguments):
        return REFERENCE.call(VERIFY, **{**arguments, **threshold_too_low(arguments, [])})

    subject = Subject(REFERENCE.with_function(VERIFY, biased, "planted"))
    result = Result(0, laws=[try_law(subject, cell_named(V1), AS_IT_IS, 0)])
    (line,) = complaints(result)
    assert line.startswith(f"{V1}, as it is, law: ")


@pytest.mark.parametrize("cell", ["ngram-v1-page4-topk4-mha", "dflash-v2-page1-topk1-mha-overlap-cache"])
def test_the_law_holds_and_is_counted(cell):
    got = try_law(Subject(REFERENCE), cell_named(cell), AS_IT_IS, 3, most_seeded=5)
    assert (got.error, got.num_seeded, got.num_outcomes) == (None, 5, VOCABULARY**3)
    assert got.num_runs >= got.num_outcomes and got.num_with_drafts > 0


@pytest.mark.parametrize("seed", [13, 21])
def test_requests_that_share_a_budget_have_drafts_accepted(seed):
    cell = cell_named("eagle3-v1-page4-topk1-hybrid-cap-accept-target-draw")
    result = try_law(Subject(REFERENCE), cell, AS_IT_IS, seed)
    assert (result.error, result.num_with_drafts > 0) == (None, True)


def test_the_first_verify_crosses_the_end_of_a_page():
    """How much is verified and by which rule changes no length."""
    for cell in all_cells():
        if cell.pool == "mha" and cell.is_coin_by_token and not cell.is_scheduled:
            setup, sampled = draw_law(cell, 0)
            length = len(sampled.prompt)
            assert length // cell.page_size < (length + setup.config.num_draft_tokens) // cell.page_size
            assert length > max(setup.schedule.prefill_chunk or 0, 1)
            assert (setup.config.topk > 1) == (cell.topk > 1) or cell.algorithm != "EAGLE"
            assert sampled.is_continued == cell.prefix_cache


def test_every_combination_that_is_allowed_has_a_cell_and_those_that_are_run_come_first():
    allowed = [cell for cell in all_cells() if (cell.worker, cell.overlap) != ("v1", True)]
    run = [cell_named("v2-page4-topk16-mla-overlap"), cell_named("ngram-v1-page64-topk4-dsa")]
    chosen = law_cells(run, allowed)
    assert [combination_of(cell) for cell in chosen] == [*dict.fromkeys(map(combination_of, allowed))]
    num_pages = {"token": 4, "block": 1, "target-draw": 1}
    assert len(chosen) == len(DRAFTERS) * 2 * 2 * sum(num_pages.values())
    assert set(run) <= set(chosen) <= set(allowed)
    assert law_cells(run, allowed) == chosen


def test_seeds_lead_where_they_should():
    runs = _runs_of_the_reference(cell_named(V2), 0)
    for run, seed in zip(runs, seeds_of(runs), strict=True):
        for turn in run.turns:
            num_nodes = len(turn.forks.axes) - 1
            expected = REFERENCE.call(COINS, np.array([seed]), np.array([turn.seq_len]), num_nodes)
            coins = coins_of(np.array([seed]), turn.seq_len, num_nodes)
            drawn = [*expected.uniform_samples[0], expected.uniform_samples_for_final_sampling[0]]
            assert coins[0].tolist() == [int(coin * 2**24) for coin in drawn]
            assert turn.forks.places(coins).tolist() == [turn.place]
    edge = np.zeros((1, len(runs[0].turns[0].forks.axes)), dtype=np.int64)
    edge[0, -1] = 2**23
    assert runs[0].turns[0].forks.places(edge).tolist() == [NEITHER]
    unlikely = replace(runs[0], turns=runs[0].turns[:1] * 20 + runs[-1].turns[:1])
    with pytest.raises(AssertionError, match=f"= none, but should be 1 of {NUM_SEEDS:,}"):
        seeds_of([unlikely])
