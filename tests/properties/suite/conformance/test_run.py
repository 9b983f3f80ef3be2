"""What becomes of the jobs of a run: a loss is kept whatever becomes of the search for a smaller case."""

from dataclasses import asdict, replace

import numpy as np
import pytest

from specsim.cli.checking.report import CaseFolder, lines_of
from specsim.conformance.backend import load
from specsim.conformance.isolation.jobs import CannotStart, Done, Fate, Limits, Lost, Skipped
from specsim.properties.suite.conformance import units
from specsim.properties.suite.conformance.budget import AT_THE_END, FAIR, SPENT, Budget
from specsim.properties.suite.conformance.causes import Cause
from specsim.properties.suite.conformance.isolated import check_isolated
from specsim.properties.suite.conformance.report import Failure, PropertyReport
from specsim.properties.suite.conformance.run import Run
from specsim.properties.suite.conformance.selection import Described
from specsim.properties.suite.conformance.wanted import Prepared, Wanted

NAMES = ("agreement.fill_bonus_tokens", "agreement.fast_topk")
WANTED = Wanted(seed=3, max_examples=10, properties=NAMES)
ANSWERED = {"duration": 0.1, "failure": None}
PREPARED = Prepared(Described.of(load("specsim.reference")), "no device", False, False)


@pytest.fixture
def run(tmp_path):
    """Return a run, and a list of the failures that it tells."""
    plain = []
    return Run(WANTED, PREPARED, lambda name: PREPARED, tmp_path, plain.append), plain


def lost(run, fate, index=0):
    job = sorted(run.jobs(), key=lambda job: NAMES.index(job.key[0]))[index]
    return Lost(job, fate, "has not returned", example=2, call=(job.key[0].partition(".")[2], None), printed="words")


@pytest.mark.parametrize(
    ("end", "words"),
    [
        (lambda job: Done(job, None), "; alone, the case does not do it again"),
        (lambda job: Lost(job, Fate.CUT, "late"), ""),
        (lambda job: Lost(job, Fate.CRASHED, "killed by SIGKILL"), ""),
        (lambda job: Skipped(job, SPENT), ""),
        (lambda job: None, ""),
    ],
    ids=["not again", "cut", "died", "no time", "interrupted"],
)
def test_a_crash_is_reported_whatever_becomes_of_the_search(run, end, words):
    run, plain = run
    search = run.take(lost(run, Fate.TIMED_OUT))
    assert search.is_apart and not plain
    event = end(search)
    if event is not None:
        assert run.take(event) is None
    report = run.report("interrupted", is_interrupted=event is None)
    (failure,) = plain
    assert failure.message == f"fill_bonus_tokens TIMED OUT: has not returned{words}"
    assert (failure.operation, failure.fate, failure.error) == ("fill_bonus_tokens", "TIMED OUT", "words")
    assert report.failures == (failure,)
    assert report.verdict == ("interrupted" if event is None else "fails")


def test_rounds_of_a_property_that_crash_side_by_side_are_one_failure(tmp_path):
    plain = []
    run = Run(replace(WANTED, budget=60.0, jobs=2), PREPARED, lambda name: PREPARED, tmp_path, plain.append)
    first, second, third = [job for job in run.jobs() if job.key[0] == NAMES[0]]
    call = ("fill_bonus_tokens", None)
    search = run.take(Lost(first, Fate.CRASHED, "killed", example=2, call=call))
    assert run.dispatch(third) == "it has failed"
    assert run.take(Lost(second, Fate.CRASHED, "killed", example=2, call=("fast_topk", None))) is None
    assert run.take(Lost(search, Fate.CUT, "late")) is None
    assert [(failure.operation, failure.message) for failure in plain] == [
        ("fill_bonus_tokens", "fill_bonus_tokens CRASHED: killed")
    ]


def test_what_is_raised_is_a_failure_of_its_property_and_no_crash(run):
    run, plain = run
    assert [run.take(lost(run, Fate.RAISED, index)) for index in (0, 1)] == [None, None]
    assert {failure.fate for failure in plain} == {"FAILED"}
    assert [failure.operation for failure in plain] == [name.partition(".")[2] for name in NAMES]
    assert not run.report().properties[NAMES[0]].not_run


def test_a_run_for_which_no_process_starts_any_more_tells_what_it_found(tmp_path):
    class Failing:
        seconds = 0.0

        def submit(self, job, first=False):
            self.job = job

        def running(self):
            return []

        def events(self, dispatch, until):
            report = {"examples": 4, "failed": False, "missing": False, "duration": 0.1, "failure": None}
            yield Done(self.job, report)
            raise CannotStart("killed by SIGKILL")

    report = check_isolated(Failing(), WANTED, PREPARED, lambda name: PREPARED, print)
    assert report.verdict == "inconclusive"
    done, rest = sorted(report.properties.values(), key=lambda one: one.examples, reverse=True)
    assert done.examples == 4
    assert rest.not_run == "no process can be started any more: killed by SIGKILL"


def test_a_failure_names_the_operations_that_the_reference_had_to_supply(tmp_path):
    name = "pool_kinds.storage_changes_no_phase"
    wanted = replace(WANTED, properties=(*NAMES, name))
    run = Run(wanted, PREPARED, lambda name: PREPARED, tmp_path, lambda failure: None)
    jobs = {job.key[0]: job for job in run.jobs()}
    for _ in range(2):
        run.take(Lost(jobs[NAMES[0]], Fate.CRASHED, "killed", example=2, call=("fill_bonus_tokens", None)))
    job = run.dispatch(jobs[name])
    plain = units.tell(Failure("", name, "wrong", None, ""), None)
    run.take(Done(job, {**asdict(PropertyReport(1, True, False)), "duration": 0.1, "failure": plain}))
    report = run.report()
    (failure,) = [one for one in report.failures if one.property == name]
    assert failure.without == ("fill_bonus_tokens",)
    line = lines_of(Cause("", failure), report, CaseFolder(tmp_path), "--examples 10")[-1]
    assert (
        line
        == f"  specsim check specsim.reference --seed 3 --examples 10 --without fill_bonus_tokens --property {name}"
    )


def test_an_operation_that_is_taken_away_is_missing(tmp_path):
    wanted = replace(WANTED, without=("fast_topk",))
    run = Run(wanted, PREPARED, lambda name: PREPARED, tmp_path, lambda failure: None)
    assert [job.arguments[3].without for job in run.jobs()] == [("fast_topk",)] * 2
    assert {name: one.missing for name, one in run.report().operations.items()} == {
        "fast_topk": True,
        "fill_bonus_tokens": False,
    }


def test_a_failure_is_reported_where_its_case_cannot_be_kept(tmp_path, monkeypatch):
    """A law that tries anything may hand over what no case file holds; and a file may be gone."""
    name, _ = NAMES
    arguments = {"accept_tokens": np.array("text"), "num_accepted_tokens": np.array([1], dtype=np.int32)}
    broken = Failure("fill_bonus_tokens", name, "wrong", arguments, "Traceback")
    monkeypatch.setattr(units, "run_property", lambda *_: (PropertyReport(1, True, False), broken))
    plain = units.run_unit("specsim.reference", name, (0,), units.UnitLimits((1,), str(tmp_path), 0))["failure"]
    assert (plain["message"], plain["case"]) == ("wrong", None)
    assert "its case is not kept: BAD_CASE_FILE" in plain["error"]
    found = units.failure_from({**plain, "case": str(tmp_path / "gone.json")})
    assert (found.message, found.kept) == ("wrong", None)


def test_a_turn_is_a_part_of_the_budget_and_limits_no_call(run):
    job = next(run[0].jobs())
    budget = Budget(100.0 + AT_THE_END, 0.0, num_workers=2, num_jobs=80, clock=lambda: 7.0)
    given = budget.dispatch(job).limits
    assert given.turn == pytest.approx(FAIR * 100.0 * 2 / 80, rel=0.2)
    assert (given.longest_call, given.job) == (Limits().call, None)
    assert Budget(None, 0.0, 2, 80, lambda: 7.0).dispatch(job) is job
    assert Budget(1.0, 2.0, num_workers=2, num_jobs=80, clock=lambda: 7.0).dispatch(job) == SPENT


@pytest.mark.parametrize(
    ("budget", "number", "example", "runs_again"),
    [(60.0, 0, 1, True), (60.0, 0, 2, False), (60.0, 1, 1, False), (None, 0, 1, False)],
)
@pytest.mark.parametrize("where", ["within a call", "between"])
def test_a_turn_that_ends_in_the_first_example_comes_again_once(tmp_path, budget, number, example, runs_again, where):
    """Its property would have no example, however much time is left when all the others are through."""
    run = Run(replace(WANTED, budget=budget), PREPARED, lambda name: PREPARED, tmp_path, lambda failure: None)
    job = next(job for job in run.jobs() if job.key == (NAMES[0], number if budget else 0))
    plain = {"examples": example - 1, "failed": False, "missing": False, "cut": True, "duration": 0.1, "failure": None}
    cut = {"within a call": Lost(job, Fate.CUT, "its time is over", example=example), "between": Done(job, plain)}[
        where
    ]
    assert run.take(cut) is (job if runs_again else None)
    assert run.take(cut) is None
    assert run.report().properties[NAMES[0]].cut


@pytest.mark.parametrize("has_worker", [False, True])
def test_whole_runs_around_single_operations_come_last_and_may_be_cut(tmp_path, has_worker):
    """Their loop is the reference's; those of a worker of its own have their turn with the others, and are needed."""
    whole = "pool_kinds.storage_changes_no_phase"
    described = Described("mine", frozenset(name.partition(".")[2] for name in NAMES), True, has_worker)
    prepared = replace(PREPARED, described=described)
    wanted = replace(WANTED, properties=(*NAMES, whole), max_examples=40, slow_examples=40, budget=60.0)
    run = Run(wanted, prepared, lambda name: prepared, tmp_path, lambda failure: None)
    jobs = list(run.jobs())
    keys = [job.key for job in jobs]
    rounds = [[(name, number) for name in NAMES] for number in range(3)]
    whole_rounds = [[(whole, number)] for number in range(3)]
    if has_worker:
        assert [sorted(keys[3 * number : 3 * number + 3]) for number in range(3)] == [
            sorted(rounds[number] + whole_rounds[number]) for number in range(3)
        ]
        assert [key for key in keys if key[0] == whole] == [keys[place] for place in (2, 5, 8)]
    else:
        assert [sorted(keys[start:end]) for start, end in ((0, 2), (2, 4), (4, 6))] == [sorted(one) for one in rounds]
        assert keys[6:] == [key for one in whole_rounds for key in one]
    for job in jobs:
        is_whole = job.key[0] == whole
        run.take(Skipped(job, SPENT) if is_whole else Done(job, asdict(PropertyReport(4, False, False)) | ANSWERED))
    report = run.report()
    cut = f"1 properties were cut before their first example was through: {whole}"
    assert report.inconclusive_because == ((cut,) if has_worker else ())
    assert report.verdict == ("inconclusive" if has_worker else "conforms")


def test_where_nothing_else_ran_a_whole_run_that_is_cut_decides_nothing(tmp_path):
    whole = "pool_kinds.storage_changes_no_phase"
    run = Run(replace(WANTED, properties=(whole,)), PREPARED, lambda name: PREPARED, tmp_path, lambda failure: None)
    for job in run.jobs():
        run.take(Skipped(job, SPENT))
    assert run.report().verdict == "inconclusive"


@pytest.mark.parametrize(
    ("first", "asked"),
    [
        (PropertyReport(2, False, False, uncalled=("fast_topk",)), ["verify_tree_greedy"]),
        (
            PropertyReport(2, False, False, uncalled=("fast_topk", "verify_tree_greedy")),
            ["fast_topk", "verify_tree_greedy"],
        ),
        (PropertyReport(2, False, False, uncalled=("fast_topk", "verify_tree_greedy"), ran={"eagle_v2": 2}), []),
        (
            PropertyReport(2, False, False, uncalled=("fast_topk", "verify_tree_greedy"), ran={"eagle_v2": 0}),
            ["fast_topk", "verify_tree_greedy"],
        ),
        (PropertyReport(0, False, False, not_run="late"), ["fast_topk", "verify_tree_greedy"]),
    ],
    ids=["calls one", "calls none", "plays a worker", "has a worker that never ran", "not tried"],
)
def test_properties_that_are_asked_for_by_name_call_one_of_their_functions(run, first, asked):
    run, _ = run
    about = [("fast_topk", "verify_tree_greedy"), ("fill_bonus_tokens",)]
    run.chosen = [replace(one, operations=these) for one, these in zip(run.chosen, about, strict=True)]
    run.found = {run.chosen[0].name: [first], run.chosen[1].name: [PropertyReport(1, False, False)]}
    report = run.report()
    assert sorted(report.operations) == sorted(["fill_bonus_tokens", *asked])
